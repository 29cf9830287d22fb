"""Who leads: the changes to partitions when brokers and their directories come and go."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from levada.metadata.image import Image, PartitionState, TopicState
from levada.metadata.records import NO_CHANGE, NO_LEADER, PartitionChangeRecord

UNASSIGNED = bytes(15) + b"\x01"
"""Kafka's id for a directory that the broker has yet to choose."""


def without_broker(image: Image, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """A broker is gone: it leads nothing, and leaves every in-sync set that has another member."""
    for topic, partition in _partitions(image):
        if broker_id in partition.isr or partition.leader == broker_id:
            yield from _without_replica(image, topic, partition, broker_id)


def without_directories(
    image: Image, broker_id: int, directories: Collection[bytes]
) -> Iterator[PartitionChangeRecord]:
    """The same for the replicas that a broker has in directories that have failed."""
    for topic, partition in _partitions(image):
        if partition.directory_of(broker_id) in directories:
            yield from _without_replica(image, topic, partition, broker_id)


def with_broker(image: Image, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """A broker is back: it leads partitions that have no leader and of which it has every committed record."""
    broker = image.brokers[broker_id]
    for topic, partition in _partitions(image):
        is_online = broker.has_online(partition.directory_of(broker_id))
        if partition.leader == NO_LEADER and broker_id in partition.isr and is_online:
            yield _change(topic, partition, broker_id, list(partition.isr))


def moved(
    image: Image, topic: TopicState, partition: PartitionState, broker_id: int, directory_id: bytes
) -> PartitionChangeRecord | None:
    """A broker has a replica in this directory; a partition without a leader may have one by that."""
    known = dict(zip(partition.replicas, partition.directories))
    directories = [directory_id if one == broker_id else known.get(one, UNASSIGNED) for one in partition.replicas]
    if tuple(directories) == partition.directories:
        return None
    now = replace(partition, directories=tuple(directories))
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id)
    if not image.brokers[broker_id].has_online(now.directory_of(broker_id)):
        # It failed before the controller knew that the replica was there.
        change = next(_without_replica(image, topic, now, broker_id), change)
    elif partition.leader == NO_LEADER and broker_id in partition.isr and image.is_online(now, broker_id):
        change.leader = broker_id
    change.directories = directories
    return change


def preferred_leader(image: Image, partition: PartitionState) -> int | None:
    """The first of the replicas, if it could lead now."""
    first = partition.replicas[0]
    return first if first in partition.isr and image.is_online(partition, first) else None


def _without_replica(
    image: Image, topic: TopicState, partition: PartitionState, broker_id: int
) -> Iterator[PartitionChangeRecord]:
    isr = [member for member in partition.isr if member != broker_id] or list(partition.isr)
    leader = NO_CHANGE
    if partition.leader == broker_id:
        # Also when it will lead again: its next term is another epoch, for it may have lost its end.
        others = [one for one in partition.replicas if one != broker_id and one in isr]
        leader = next((one for one in others if image.is_online(partition, one)), NO_LEADER)
    if leader != NO_CHANGE or tuple(isr) != partition.isr:
        yield _change(topic, partition, leader, isr)


def _change(topic: TopicState, partition: PartitionState, leader: int, isr: list[int]) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic.topic_id,
        leader=leader,
        isr=isr if tuple(isr) != partition.isr else None,
    )


def _partitions(image: Image) -> Iterator[tuple[TopicState, PartitionState]]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            yield topic, partition
