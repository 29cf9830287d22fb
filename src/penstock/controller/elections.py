"""Who leads: the changes to partitions when brokers come and go."""

from collections.abc import Iterator

from penstock.metadata.image import Image, PartitionState, TopicState
from penstock.metadata.records import NO_CHANGE, NO_LEADER, PartitionChangeRecord


def without_broker(image: Image, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """A broker is gone: it leads nothing, and leaves every in-sync set that has another member."""
    live = {broker.broker_id for broker in image.live_brokers()} - {broker_id}
    for topic, partition in _partitions(image):
        if broker_id not in partition.isr and partition.leader != broker_id:
            continue
        isr = [member for member in partition.isr if member != broker_id] or list(partition.isr)
        leader = NO_CHANGE
        if partition.leader == broker_id:
            # Also when it will lead again: its next term is another epoch, for it may have lost its end.
            leader = next((one for one in partition.replicas if one in isr and one in live), NO_LEADER)
        if leader != NO_CHANGE or tuple(isr) != partition.isr:
            yield _change(topic, partition, leader, isr)


def with_broker(image: Image, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """A broker is back: it leads what nobody leads and what it has every committed record of."""
    for topic, partition in _partitions(image):
        if partition.leader == NO_LEADER and broker_id in partition.isr:
            yield _change(topic, partition, broker_id, list(partition.isr))


def preferred_leader(partition: PartitionState, live: set[int]) -> int | None:
    """The first of the replicas, if it could lead now."""
    first = partition.replicas[0]
    return first if first in partition.isr and first in live else None


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
