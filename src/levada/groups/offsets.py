"""The offsets that groups have committed: what is kept of each, and when it has been kept long enough."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from levada.coordination.decision import NO_PRODUCER, EndOfTransaction, Record
from levada.groups.records import OffsetCommitKey, OffsetCommitValue
from levada.protocol.declare import NO_UUID

NEVER = -1

TopicOffsets = Mapping[str, Mapping[int, "CommittedOffset"]]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NEVER
    """Asked for by clients of long ago; others leave it to the broker (KIP-211)."""
    topic_id: bytes = NO_UUID
    """Of the topic it was committed for, if the client named it so."""
    order: int = 0
    """Among all commits of the journal: of two for one partition the later counts, whenever it comes to count."""


@dataclass(frozen=True, slots=True)
class NewOffset:
    topic: str
    partition: int
    committed: CommittedOffset


class Place(NamedTuple):
    group_id: str
    topic: str
    partition: int


class Offsets:
    """By group, topic and partition; changes by records alone."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._count = 0
        self._next_order = 0
        self._pending: dict[int, dict[Place, CommittedOffset]] = {}
        """By producer id, what its transaction has committed and nobody sees until it ends."""
        self._unstable: Counter[Place] = Counter()

    def __len__(self) -> int:
        return self._count

    def of(self, group_id: str) -> TopicOffsets:
        return self._by_group.get(group_id) or {}

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that is under way may change the offset."""
        return Place(group_id, topic, partition) in self._unstable

    def unstable_of(self, group_id: str) -> frozenset[tuple[str, int]]:
        return frozenset((place.topic, place.partition) for place in self._unstable if place.group_id == group_id)

    def has_pending(self, group_id: str) -> bool:
        return any(place.group_id == group_id for place in self._unstable)

    def apply(self, record: Record) -> None:
        key, value = record.key, record.value
        place = Place(key.group, key.topic, key.partition)
        if value is None:
            self._forget(place)
            return
        self._next_order += 1
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self._next_order,
        )
        if record.producer_id == NO_PRODUCER:
            self._keep(place, committed)
            return
        pending = self._pending.setdefault(record.producer_id, {})
        self._unstable[place] += place not in pending
        pending[place] = committed

    def end_transaction(self, end: EndOfTransaction) -> None:
        for place, committed in self._pending.pop(end.producer_id, {}).items():
            self._unstable -= Counter((place,))
            known = self.of(place.group_id).get(place.topic, {}).get(place.partition)
            if end.is_commit and (known is None or known.order < committed.order):
                self._keep(place, committed)

    def _keep(self, place: "Place", committed: CommittedOffset) -> None:
        partitions = self._by_group.setdefault(place.group_id, {}).setdefault(place.topic, {})
        self._count += place.partition not in partitions
        partitions[place.partition] = committed

    def _forget(self, place: "Place") -> None:
        topics = self._by_group.get(place.group_id)
        partitions = topics.get(place.topic) if topics is not None else None
        if topics is None or partitions is None:
            return
        self._count -= partitions.pop(place.partition, None) is not None
        if not partitions:
            del topics[place.topic]
            if not topics:
                del self._by_group[place.group_id]

    def deletion(self, group_id: str, topic: str, partition: int) -> Record | None:
        """What ends an offset, if it is there."""
        if partition not in self.of(group_id).get(topic, {}):
            return None
        return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)

    def deletion_of_group(self, group_id: str) -> list[Record]:
        return [
            Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
            for topic, partitions in self.of(group_id).items()
            for partition in partitions
        ]

    def deletion_of_topic(self, name: str, deleted_ms: int) -> list[Record]:
        """A topic that is made anew under an old name begins without offsets, and keeps those that come after."""
        return [
            Record(OffsetCommitKey(group=group_id, topic=name, partition=partition), None)
            for group_id, topics in self._by_group.items()
            for partition, committed in topics.get(name, {}).items()
            if committed.committed_ms <= deleted_ms
        ]

    def expired(
        self, group_id: str, since_ms: Callable[[str, CommittedOffset], int | None], retention_ms: int, now_ms: int
    ) -> list[Record]:
        """The ends of offsets kept for long enough; `since_ms` says from when on, None for those still in use."""
        return [
            Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
            for topic, partitions in self.of(group_id).items()
            for partition, committed in partitions.items()
            if not self.is_unstable(group_id, topic, partition)
            and _is_expired(committed, since_ms(topic, committed), retention_ms, now_ms)
        ]


def commit_record(
    group_id: str, new: NewOffset, producer_id: int = NO_PRODUCER, producer_epoch: int = NO_PRODUCER
) -> Record:
    committed = new.committed
    return Record(
        OffsetCommitKey(group=group_id, topic=new.topic, partition=new.partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.committed_ms,
            expire_timestamp=committed.expires_ms,
            topic_id=committed.topic_id,
        ),
        producer_id,
        producer_epoch,
    )


def _is_expired(committed: CommittedOffset, since_ms: int | None, retention_ms: int, now_ms: int) -> bool:
    if since_ms is None:
        return False
    if committed.expires_ms != NEVER:
        return now_ms >= committed.expires_ms
    return now_ms - since_ms >= retention_ms
