"""The orders in which Apache's assignors look at members and topics, which decide who gets a partition more."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from levada.client.assignors.spec import Partition, Subscription
from levada.model.hashes import java_string_hash

SMALLEST_TABLE = 16


def topics_to_assign(partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> dict[str, int]:
    """The topics that a member subscribes to and that have partitions, with their counts."""
    subscribed = hash_order(topic for member_id in hash_order(members) for topic in members[member_id].topics)
    known = hash_order(topic for topic in subscribed if partition_counts.get(topic, 0) > 0)
    return {topic: partition_counts[topic] for topic in known}


def rank_order(members: Mapping[str, Subscription]) -> list[str]:
    """Static members first, by the name they keep over restarts; then the others by their id."""

    def rank(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].group_instance_id
        return instance_id is None, text_order(member_id if instance_id is None else instance_id)

    return sorted(members, key=rank)


def text_order(name: str) -> bytes:
    """A sorting key with the order of Java's strings, which is that of their UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def hash_order(names: Iterable[str]) -> list[str]:
    """Names as a Java hash map gives them out: by the slot of their hash, and within one as they came."""
    distinct = list(dict.fromkeys(names))
    return _by_slot(distinct, table_size(len(distinct)))


def computed_hash_order(names: Sequence[str]) -> list[str]:
    """The same for a map that is asked for each name and computes what is absent.

    New ones go to the front of their slot, and the map grows when it is next asked.
    """
    return _by_slot(reversed(dict.fromkeys(names)), table_size(len(set(names[:-1]))))


def first_in_hash_order(partitions: Collection[Partition]) -> Partition:
    """The partition that a Java hash set gives out first."""
    slots = table_size(len(partitions))

    def slot(partition: Partition) -> int:
        topic, number = partition
        return _slot(31 * (31 + number) + java_string_hash(topic), slots)

    return min(partitions, key=slot)


def table_size(entries: int) -> int:
    """How many slots a Java hash table has once it holds so many entries: it doubles when three quarters are full."""
    slots = SMALLEST_TABLE
    while 4 * entries > 3 * slots:
        slots *= 2
    return slots


def _by_slot(names: Iterable[str], slots: int) -> list[str]:
    return sorted(names, key=lambda name: _slot(java_string_hash(name), slots))


def _slot(hashed: int, slots: int) -> int:
    return (hashed ^ (hashed & 0xFFFF_FFFF) >> 16) & (slots - 1)
