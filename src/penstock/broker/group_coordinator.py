"""Drives consumer groups on the event loop: futures for those who wait, one timer for the nearest deadline."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from penstock.groups import CommittedOffset, Groups, Joiner, NewOffset
from penstock.model.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import MemberIdentity
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.world.clock import Clock


class GroupCoordinator:
    """A parked request's token is its future; a client that went away has cancelled it, and nobody answers."""

    def __init__(self, groups: Groups, clock: Clock) -> None:
        self._groups = groups
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def join(self, request: JoinGroupRequest, joiner: Joiner) -> "asyncio.Future[JoinGroupResponse]":
        future: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        self._groups.join(future, request, joiner, self._clock.monotonic_ms())
        self._settle()
        return future

    def sync(self, request: SyncGroupRequest) -> "asyncio.Future[SyncGroupResponse]":
        future: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
        self._groups.sync(future, request, self._clock.monotonic_ms())
        self._settle()
        return future

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        code = self._groups.heartbeat(request, self._clock.monotonic_ms())
        self._settle()
        return code

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> list[ErrorCode]:
        codes = self._groups.leave(group_id, leaving, self._clock.monotonic_ms())
        self._settle()
        return codes

    def commit(self, request: OffsetCommitRequest, offsets: Sequence[NewOffset]) -> list[ErrorCode]:
        codes = self._groups.commit(request, offsets, self._clock.monotonic_ms())
        self._settle()
        return codes

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All offsets of a group by topic and partition; none for a group nobody knows."""
        group = self._groups.find(group_id)
        return {} if group is None else group.offsets

    def close(self) -> None:
        """Answer all who wait, so that a node that stops need not."""
        self._groups.resign()
        self._send_output()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _settle(self) -> None:
        self._send_output()
        self._set_timer()

    def _send_output(self) -> None:
        for token, reply in self._groups.take_output():
            future = cast("asyncio.Future[Any]", token)
            if not future.done():
                future.set_result(reply)

    def _set_timer(self) -> None:
        """Deadlines mostly move back: then the timer fires for nothing and is set again."""
        deadline_ms = self._groups.deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._groups.expire(self._clock.monotonic_ms())
        self._settle()
