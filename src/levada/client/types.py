"""The small values that clients take and give."""

from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from levada.model.topic_partition import TopicPartition as TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record went."""

    topic: str
    partition: int
    offset: int
    """-1 when no broker told: acks=0."""
    timestamp_ms: int
    """The record's own, or the broker's where the topic has LogAppendTime."""


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the offset of the next record to read, and words of the user's own."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


Partition: TypeAlias = TopicPartition | tuple[str, int]
# Both, as the keys of a mapping are of one type to a type checker, and neither stands for the other.
Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[Partition, OffsetAndMetadata | int]
"""What a user may commit; a number alone is an offset without words."""


def positions_of(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """What the user wants to commit, once it is known to be something that can be."""
    positions: dict[TopicPartition, OffsetAndMetadata] = {}
    for partition, given in offsets.items():
        position = OffsetAndMetadata(given) if isinstance(given, int) else given
        if position.offset < 0:
            raise ValueError(f"{position.offset} is no offset to commit for {TopicPartition(*partition)}")
        positions[TopicPartition(*partition)] = position
    return positions


class OffsetAndTimestamp(NamedTuple):
    """The first record that is not older than a time that was asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who a consumer is in its group: a transactional producer shows it with the offsets it commits."""

    group_id: str
    generation_id: int = -1
    """The member epoch in groups of the new protocol."""
    member_id: str = ""
    group_instance_id: str | None = None


class RebalanceListener(Protocol):
    """What to do when partitions come and go; each may be a plain method or a coroutine, and is called inside poll."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Still owned: the last moment to commit."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None: ...

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Other members may own them already: too late to commit."""
