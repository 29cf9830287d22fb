"""One member of a group, and what it waits for."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from levada.coordination.shard import Token
from levada.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from levada.protocol.messages.sync_group import SyncGroupResponse

Protocols: TypeAlias = dict[str, bytes]
"""Metadata by protocol name, the preferred one first."""


@dataclass(slots=True)
class Member:
    member_id: str
    instance_id: str | None
    """Named by a static member, which keeps its place through a restart (KIP-345)."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    client_id: str = ""
    client_host: str = ""
    assignment: bytes = b""
    join_token: Token[JoinGroupResponse] | None = None
    sync_token: Token[SyncGroupResponse] | None = None
    is_new: bool = False
    """Has not had the answer to its first JoinGroup, so it cannot send heartbeats."""
    must_sync: bool = False
    """Knows its generation and has not asked for its assignment."""

    @property
    def is_waiting(self) -> bool:
        """Whether a parked request proves that the member lives; a new member's does not prove it for ever."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def vote(self, candidates: Container[str]) -> str:
        """The candidate it prefers."""
        return next(name for name in self.protocols if name in candidates)

    def has_protocols(self, protocols: Protocols) -> bool:
        """Whether these are the protocols it joined with, in the same order."""
        return list(self.protocols.items()) == list(protocols.items())


def protocols_of(offered: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """By name; the first wins where a client names one twice."""
    protocols: Protocols = {}
    for protocol in offered:
        protocols.setdefault(protocol.name, protocol.metadata)
    return protocols
