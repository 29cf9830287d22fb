"""The door to whatever keeps a cluster's metadata log: who takes part, who may write, and what was written."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord


class DoorError(Exception):
    """The coordinator cannot be used; the text says why and what to do."""


class AlreadyRegistered(DoorError):
    """Another live process takes part under the same id."""


class Deposed(DoorError):
    """Another controller may write now; whether the last append counts is for its log to say."""


@dataclass(frozen=True, slots=True)
class Member:
    """A broker process that takes part, and where the other brokers reach it."""

    node_id: int
    incarnation: str
    host: str = ""
    port: int = 0
    """0 until it listens."""


@dataclass(frozen=True, slots=True)
class Token:
    """The controller's right to write, until another node has one with a higher epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """Records that were appended together: all of them count or none."""

    epoch: int
    base_offset: int
    records: tuple[MetadataRecord, ...]

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.records) - 1


@dataclass(slots=True)
class Changes:
    """What a reader has to apply to be up to date."""

    snapshot: Image | None = None
    """To begin from, where the log no longer has what came before."""
    batches: list[MetadataBatch] = field(default_factory=list)
    is_whole: bool = True
    """Whether this is all that counts. If not, a node has claimed the right to write and has not said where it goes on:
    it will, or if it has died before that, the next campaign does."""


class Door(Protocol):
    async def cluster_id(self, proposal: str | None) -> str | None:
        """The cluster's id: the proposal, if it has none yet."""
        ...

    async def register(self) -> None:
        """Take part under this node's id; AlreadyRegistered if another process does."""
        ...

    async def announce(self, host: str, port: int) -> None:
        """Tell the other brokers where this one is reached."""
        ...

    async def members(self) -> list[Member]:
        """The brokers that take part, by id, as far as can be seen: to find them, not to judge who lives."""
        ...

    async def beat(self) -> None:
        """Say that this node lives."""
        ...

    async def vacancy(self) -> None:
        """Return when a campaign may succeed: no live node has the right to write, as far as can be seen."""
        ...

    async def campaign(self) -> Token | None:
        """Become the one who writes, unless another live node is."""
        ...

    async def confirm(self, token: Token) -> None:
        """Return if the right to write was still this token's when the call began, else Deposed.

        OSError: it cannot be told.
        """
        ...

    async def resign(self) -> None:
        """Write nothing more, and let another node have the right to at once."""
        ...

    async def controller(self) -> Member | None:
        """The node that claimed the right to write last, if it takes part."""
        ...

    async def append(self, token: Token, expected_offset: int, records: Sequence[MetadataRecord]) -> None:
        """Write a batch whose first record gets `expected_offset`; it counts when this returns.

        Deposed: it may count or not. OSError: nothing was written.
        """
        ...

    async def read(self, after_offset: int) -> Changes:
        """All that counts now and comes after an offset."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return when there may be more to read, at the latest after so long."""
        ...

    def wants_snapshot(self, max_bytes: int) -> bool:
        """Whether so much was read since the last snapshot that another one is worth its while."""
        ...

    async def write_snapshot(self, image: Image) -> None:
        """Keep the image of all that was read, so that the log before it can go; for the controller alone.

        Nothing is kept while the door is not where the image is: a later call will do.
        """
        ...

    async def close(self) -> None:
        """Take part no more."""
        ...
