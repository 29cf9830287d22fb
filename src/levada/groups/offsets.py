"""The offsets that groups have committed: what is kept of each, and when it has been kept long enough."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from levada.coordination.decision import NO_PRODUCER, EndOfTransaction, Record
from levada.groups.records import OffsetCommitKey, OffsetCommitValue, encode
from levada.metadata.image import TopicState
from levada.protocol.declare import NO_UUID

NEVER = -1

TopicOffsets = Mapping[str, Mapping[int, "CommittedOffset"]]
Topics = Mapping[str, TopicState]
"""Of the cluster, by name."""


class CommittedOffset(NamedTuple):
    """A tuple, because one request may bring ten thousands, and a frozen dataclass takes long to make."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NEVER
    """Asked for by clients of long ago; others leave it to the broker (KIP-211)."""
    topic_id: bytes = NO_UUID
    """Of the topic it was committed for; none in records of older releases, and in those that say when they expire."""
    order: int = 0
    """Among all commits of the journal: of two for one partition the later counts, whenever it comes to count."""

    def belongs_to(self, topic: TopicState | None) -> bool:
        """Whether it was committed for this topic, and not for one that had the name before."""
        return is_id_of(self.topic_id, topic)


def is_id_of(topic_id: bytes, topic: TopicState | None) -> bool:
    """The rule of all offsets: one without an id belongs to whichever topic has the name, or had it last."""
    return topic_id == NO_UUID or (topic is not None and topic_id == topic.topic_id)


class Offsets:
    """By group, topic and partition; changes by records alone."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._count = 0
        self._next_order = 0
        self._pending: dict[int, dict[str, dict[str, dict[int, CommittedOffset]]]] = {}
        """By producer id, what its transaction has committed and no reader sees until it ends."""
        self._open: dict[str, dict[int, None]] = {}
        """By group, the producers that have something pending for it."""
        self._producers: dict[str, dict[str, dict[int, tuple[int, ...]]]] = {}
        """By group, topic and partition, the same: what is asked of one place must not walk all producers."""

    def __len__(self) -> int:
        return self._count

    def of(self, group_id: str) -> TopicOffsets:
        return self._by_group.get(group_id) or {}

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that is under way may change the offset."""
        return partition in self._producers.get(group_id, {}).get(topic, ())

    def unstable_of(self, group_id: str, known: Topics) -> frozenset[tuple[str, int]]:
        """The places that a transaction under way may change, of the topics that are known."""
        return frozenset(
            (name, partition)
            for topics in self._pending_of(group_id)
            for name, partitions in topics.items()
            for partition, pending in partitions.items()
            if pending.belongs_to(known.get(name))
        )

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
        """A commit, or the end of one; with a producer's id it counts when that producer's transaction is committed."""
        if value is None:
            self._forget(key.group, key.topic, key.partition)
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
        if producer_id == NO_PRODUCER:
            partitions = self._by_group.setdefault(key.group, {}).setdefault(key.topic, {})
            self._count += key.partition not in partitions
        else:
            self._open.setdefault(key.group, {})[producer_id] = None
            partitions = self._pending.setdefault(producer_id, {}).setdefault(key.group, {}).setdefault(key.topic, {})
            if key.partition not in partitions:
                producers = self._producers.setdefault(key.group, {}).setdefault(key.topic, {})
                producers[key.partition] = (*producers.get(key.partition, ()), producer_id)
        partitions[key.partition] = committed

    def end_transaction(self, end: EndOfTransaction) -> None:
        for group_id, topics in self._pending.pop(end.producer_id, {}).items():
            self._close(group_id, end.producer_id)
            for topic, partitions in topics.items():
                self._withdraw(group_id, topic, partitions, end.producer_id)
                if end.is_commit:
                    self._take_over(group_id, topic, partitions)

    def _take_over(self, group_id: str, topic: str, pending: Mapping[int, CommittedOffset]) -> None:
        known = self._by_group.setdefault(group_id, {}).setdefault(topic, {})
        self._count -= len(known)
        for partition, committed in pending.items():
            other = known.get(partition)
            if other is None or other.order < committed.order:
                known[partition] = committed
        self._count += len(known)

    def _forget(self, group_id: str, topic: str, partition: int) -> None:
        """What is pending goes too, as in Apache: else the end of a transaction would bring back what was deleted."""
        committed = self._by_group.get(group_id)
        if committed is not None:
            self._count -= _remove(committed, topic, partition)
            if not committed:
                del self._by_group[group_id]
        for producer_id in self._producers_at(group_id, topic, partition):
            self._withdraw(group_id, topic, [partition], producer_id)
            groups = self._pending[producer_id]
            _remove(groups[group_id], topic, partition)
            if not groups[group_id]:
                del groups[group_id]
                self._close(group_id, producer_id)
                if not groups:
                    del self._pending[producer_id]

    def _close(self, group_id: str, producer_id: int) -> None:
        """The producer has nothing pending for the group any more."""
        producers = self._open[group_id]
        del producers[producer_id]
        if not producers:
            del self._open[group_id]

    def _withdraw(self, group_id: str, topic: str, partitions: Iterable[int], producer_id: int) -> None:
        """The producer has nothing pending for the partitions any more."""
        topics = self._producers[group_id]
        producers = topics[topic]
        alone = (producer_id,)
        for partition in partitions:
            known = producers.pop(partition)
            if known != alone:
                producers[partition] = tuple([one for one in known if one != producer_id])
        if not producers:
            del topics[topic]
            if not topics:
                del self._producers[group_id]

    def _producers_at(self, group_id: str, topic: str, partition: int) -> tuple[int, ...]:
        return self._producers.get(group_id, {}).get(topic, {}).get(partition, ())

    def _pending_of(self, group_id: str) -> list[TopicOffsets]:
        return [self._pending[producer_id][group_id] for producer_id in self._open.get(group_id, ())]

    def deletion(self, group_id: str, topic: str, partition: int) -> Record | None:
        """What ends an offset, if it is there or a transaction may bring it."""
        is_there = partition in self.of(group_id).get(topic, ()) or self.is_unstable(group_id, topic, partition)
        return _end_of(group_id, topic, partition) if is_there else None

    def deletion_of_group(self, group_id: str) -> list[Record]:
        # One record ends what is committed and all that is pending in its place.
        layers = (self.of(group_id), self._producers.get(group_id, {}))
        places = {(topic, one): None for topics in layers for topic, partitions in topics.items() for one in partitions}
        return [_end_of(group_id, *place) for place in places]

    def groups_with(self, topic: str) -> list[str]:
        """The groups that have committed an offset of a topic, or may have when a transaction ends."""
        layers = (self._by_group, self._producers)
        return list({group_id: None for groups in layers for group_id, topics in groups.items() if topic in topics})

    def partitions_of(self, group_id: str, topic: str) -> list[int]:
        layers = (self.of(group_id), self._producers.get(group_id, {}))
        return list({partition: None for topics in layers for partition in topics.get(topic, ())})

    def places_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Topics and partitions of which an offset is committed, for one who may take them over many turns.

        What is committed meanwhile may be left out, what has ended may be named.
        """
        for topic in list(self.of(group_id)):
            for partition in list(self.of(group_id).get(topic, ())):
                yield topic, partition

    def count_of(self, group_id: str) -> int:
        return sum(map(len, self.of(group_id).values()))

    def end_if_deleted(
        self, group_id: str, topic: str, partition: int, now_named: TopicState | None, deleted_ms: int
    ) -> Record | None:
        """The end of an offset of a deleted topic; what belongs to the one that has the name now is kept.

        Of an offset without a topic id only the time can say whether it was committed before.
        """
        producers = self._producers_at(group_id, topic, partition)
        found = [self._pending[one][group_id][topic][partition] for one in producers]
        committed = self.of(group_id).get(topic, {}).get(partition)
        if committed is not None:
            found.append(committed)
        kept = (
            one.committed_ms > deleted_ms if one.topic_id == NO_UUID else one.belongs_to(now_named) for one in found
        )
        return None if not found or any(kept) else _end_of(group_id, topic, partition)

    def ends_of(
        self, group_id: str, places: Iterable[tuple[str, int]], is_over: Callable[[str, CommittedOffset], bool]
    ) -> list[Record]:
        """The ends of offsets that are over, but for those that a transaction under way may change."""
        topics = self.of(group_id)
        ends = []
        for topic, partition in places:
            committed = topics.get(topic, {}).get(partition)
            if committed is None or not is_over(topic, committed) or self.is_unstable(group_id, topic, partition):
                continue
            ends.append(_end_of(group_id, topic, partition))
        return ends


def _remove(topics: dict[str, dict[int, CommittedOffset]], topic: str, partition: int) -> bool:
    """Whether it was there; a topic goes with its last partition."""
    partitions = topics.get(topic)
    if partitions is None or partitions.pop(partition, None) is None:
        return False
    if not partitions:
        del topics[topic]
    return True


def _end_of(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def commit_record(
    group_id: str,
    topic: str,
    partition: int,
    committed: CommittedOffset,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = NO_PRODUCER,
) -> Record:
    """What commits an offset, at once or with its producer's transaction; encoded, as it is one of many."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_ms,
        expire_timestamp=committed.expires_ms,
        topic_id=committed.topic_id,
    )
    return Record(key, value, producer_id, producer_epoch, encode(Record(key, value)))
