"""What a consumer wants to read, which partitions it has been given, and how far it is in each."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto

from levada.client.cluster import NO_EPOCH
from levada.client.errors import IllegalState
from levada.client.types import OffsetAndMetadata, RebalanceListener, TopicPartition


class Mode(Enum):
    NONE = auto()
    TOPICS = auto()
    PATTERN = auto()
    """A regular expression that this client matches against the topics there are."""
    SERVER_PATTERN = auto()
    """A regular expression that the coordinator matches (KIP-848)."""
    MANUAL = auto()


class Reset(Enum):
    """Where to begin when there is no position, or none that exists any more."""

    EARLIEST = auto()
    LATEST = auto()
    POLICY = auto()
    """Whatever `auto.offset.reset` says."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next record to read."""

    offset: int
    offset_epoch: int = NO_EPOCH
    """The leader epoch of the record before it, to find out whether the log was cut below (KIP-320)."""


@dataclass(slots=True)
class AssignedPartition:
    position: Position | None = None
    reset: Reset | None = None
    """Set while the position has to be looked up."""
    validated_epoch: int = NO_EPOCH
    """The leader epoch under which the position was last found to be sound."""
    is_paused: bool = False
    is_being_revoked: bool = False
    """Nothing is handed out any more; the listener is being told."""
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    read_replica: int | None = None
    read_replica_until_ms: int = 0

    @property
    def is_fetchable(self) -> bool:
        return self.position is not None and self.reset is None and not self.is_paused and not self.is_being_revoked


class Subscriptions:
    """One consumer's; changed by its user's calls, by its group membership, and by what it reads."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        """Asked for by name, or found by a pattern of this client's."""
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.listener: RebalanceListener | None = None
        self.version = 0
        """Grows with each change of what is wanted, so that a group member knows when to tell its coordinator."""
        self.assignment_version = 0
        """Grows with each change of the partitions that are assigned."""
        self.settle: Callable[[], None] = lambda: None
        """Has the positions include all that was handed out, where some is handed out without being asked for."""
        self._states: dict[TopicPartition, AssignedPartition] = {}

    # What is wanted

    def subscribe(self, topics: Collection[str], listener: RebalanceListener | None) -> None:
        self._switch(Mode.TOPICS, listener)
        self._want(frozenset(topics))

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: RebalanceListener | None) -> None:
        self._switch(Mode.PATTERN, listener)
        self.pattern = pattern
        self.version += 1

    def subscribe_server_pattern(self, pattern: str, listener: RebalanceListener | None) -> None:
        self._switch(Mode.SERVER_PATTERN, listener)
        self.server_pattern = pattern
        self.version += 1

    def found(self, topics: Collection[str]) -> None:
        """The topics that the pattern matches now."""
        assert self.mode is Mode.PATTERN
        self._want(frozenset(topics))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these, without a group's help."""
        self._switch(Mode.MANUAL, None)
        self.topics = frozenset(partition.topic for partition in partitions)
        self._take(partitions)

    def unsubscribe(self) -> None:
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = self.server_pattern = self.listener = None
        self.version += 1
        self._take(())

    @property
    def is_group_managed(self) -> bool:
        return self.mode in (Mode.TOPICS, Mode.PATTERN, Mode.SERVER_PATTERN)

    # What is assigned

    def assign_from_group(self, partitions: Collection[TopicPartition]) -> None:
        """The group's decision; partitions that stay keep their positions."""
        assert self.is_group_managed
        self._take(partitions)

    def assigned(self) -> list[TopicPartition]:
        return list(self._states)

    def is_assigned(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def state(self, partition: TopicPartition) -> AssignedPartition:
        state = self._states.get(partition)
        if state is None:
            raise IllegalState(f"{partition} is not assigned to this consumer; see assignment()")
        return state

    def states(self) -> Iterable[tuple[TopicPartition, AssignedPartition]]:
        return list(self._states.items())

    def without_position(self) -> list[TopicPartition]:
        """Those that have to begin at their committed offset."""
        return [at for at, state in self._states.items() if state.position is None and state.reset is None]

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What there is to commit: every position that is known."""
        return {
            partition: OffsetAndMetadata(state.position.offset, "", _epoch(state.position))
            for partition, state in self._states.items()
            if state.position is not None and state.reset is None
        }

    def seek(self, partition: TopicPartition, position: Position) -> None:
        state = self.state(partition)
        state.position = position
        state.reset = None
        state.validated_epoch = NO_EPOCH
        state.read_replica = None

    def seek_to(self, partitions: Collection[TopicPartition], reset: Reset) -> None:
        for partition in partitions or self.assigned():
            self.state(partition).reset = reset

    def _switch(self, mode: Mode, listener: RebalanceListener | None) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise IllegalState(
                f"this consumer is set to {self.mode.name.lower()}: topics, a pattern and assigned partitions "
                "exclude each other until unsubscribe()"
            )
        self.mode = mode
        self.listener = listener

    def _want(self, topics: frozenset[str]) -> None:
        if topics != self.topics:
            self.topics = topics
            self.version += 1

    def _take(self, partitions: Collection[TopicPartition]) -> None:
        self._states = {partition: self._states.get(partition) or AssignedPartition() for partition in partitions}
        for state in self._states.values():
            state.is_being_revoked = False
        self.assignment_version += 1


def _epoch(position: Position) -> int | None:
    return None if position.offset_epoch == NO_EPOCH else position.offset_epoch
