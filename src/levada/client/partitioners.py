"""Which partition a record goes to: by a callable of the user's, by its key, or where the sticky one is.

A partitioner is a callable `(topic, key, value, partition_count, available) -> partition`, with key and value as bytes
and the partitions that have a leader in `available`. None leaves the record to the sticky partition.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil
from typing import NamedTuple, TypeAlias, cast

from levada.client.errors import IllegalState
from levada.records.writer import murmur2

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int, Sequence[int]], int | None]
Below: TypeAlias = Callable[[int], int]
"""A uniform integer below a bound, as `levada.world.clock.Entropy.below` has it."""

_POSITIVE = 0x7FFF_FFFF


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition that all of Kafka's clients choose for a key."""
    return (murmur2(key) & _POSITIVE) % partition_count


def own_partitioner(value: object) -> Partitioner | None:
    """What `partitioner.class` stands for once it is read; None is the built-in one alone."""
    if value is None:
        return None
    named: object = _NAMED.get(value, value) if isinstance(value, str) else value
    made = named() if isinstance(named, type) else named
    assert callable(made), "checked where the options were read"
    return cast(Partitioner, made)


class RoundRobinPartitioner:
    """Each record to the next partition that has a leader, with or without a key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, available: Sequence[int]
    ) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        return available[turn % len(available)] if available else turn % partition_count


class FrequentKeys:
    """Counts the keys that come often, in bounded memory (Misra and Gries).

    A count is never above the truth, and below it by at most one in `capacity` of all records, so that no key is taken
    for frequent that is not. Keys are told apart by their hash. Counts are halved every `window` records, so that they
    tell of the recent ones.
    """

    __slots__ = ("_capacity", "_counts", "_window", "total")

    def __init__(self, capacity: int, window: int) -> None:
        self._capacity = capacity
        self._window = window
        self._counts: dict[int, int] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key_hash: int) -> int:
        """Count a key; how often it came lately, at least."""
        count = self._counts.get(key_hash, 0)
        if count or len(self._counts) < self._capacity:
            count += 1
            self._counts[key_hash] = count
        else:
            # Each such round takes back what as many earlier records have put in, so it costs little per record.
            self._counts = {key: count - 1 for key, count in self._counts.items() if count > 1}
            count = 0
        self.total += 1
        if self.total >= self._window:
            self._counts = {key: count >> 1 for key, count in self._counts.items() if count > 1}
            self.total >>= 1
        return count


class HotKeyPartitioner:
    """By key as Kafka's own, but a key with a large share of a topic's recent records goes to several partitions.

    A key is hot when it has at least `share` of the recent records, once a thousand were seen. Its records then take
    turns over `spread` partitions, evenly spaced from its own. Records of a hot key have no order among each other, and
    a reader that gathers them by key reads `partitions_of`; all other keys stay where every client looks for them.
    """

    def __init__(
        self,
        *,
        share: float = 0.05,
        spread: int = 4,
        capacity: int = 1_000,
        window: int = 100_000,
        settled: int = 1_000,
    ) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {share}")
        if spread < 1:
            raise ValueError(f"spread must be at least 1, not {spread}")
        if capacity * share < 2:
            raise ValueError(f"capacity must be at least {ceil(2 / share)} to find keys with a share of {share}")
        self._share = share
        self._spread = spread
        self._capacity = capacity
        self._window = window
        self._settled = settled
        self._topics: dict[str, FrequentKeys] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, available: Sequence[int]
    ) -> int | None:
        if key is None:
            return None
        key_hash = murmur2(key)
        frequent = self._topics.get(topic)
        if frequent is None:
            frequent = self._topics[topic] = FrequentKeys(self._capacity, self._window)
        count = frequent.add(key_hash)
        if frequent.total < self._settled or count < self._share * frequent.total:
            return (key_hash & _POSITIVE) % partition_count
        spread = self._places(key_hash, partition_count)
        return spread[count % len(spread)]

    def partitions_of(self, key: bytes, partition_count: int) -> tuple[int, ...]:
        """Where records of this key are while it is hot; the first is where they are otherwise."""
        return tuple(self._places(murmur2(key), partition_count))

    def _places(self, key_hash: int, partition_count: int) -> Sequence[int]:
        first = (key_hash & _POSITIVE) % partition_count
        spread = min(self._spread, partition_count)
        return [(first + turn * (partition_count // spread)) % partition_count for turn in range(spread)]


_NAMED: dict[str, type] = {"round_robin": RoundRobinPartitioner, "hot_key": HotKeyPartitioner}


class PartitionLoad(NamedTuple):
    """How a partition that has a leader keeps up."""

    partition: int
    queue_length: int
    """Batches that wait for it."""
    stalled_ms: int = 0
    """How long its broker has been ready for nothing although there was something to send."""


class StickyPartitions:
    """Where the records of one topic go that have no key: to one partition until a batch is full (KIP-480, KIP-794)."""

    __slots__ = ("_below", "_current", "_produced_bytes", "_sticky_bytes", "_table")

    def __init__(self, below: Below, batch_size: int) -> None:
        self._below = below
        self._sticky_bytes = batch_size
        self._current: int | None = None
        self._produced_bytes = 0
        self._table: tuple[list[int], list[int]] | None = None
        """Partitions and their cumulated weights, where they do not all keep up equally well."""

    def partition(self, partition_count: int, available: Sequence[int]) -> int:
        """Where the next record goes."""
        current = self._current
        # A topic that was deleted and created again may have fewer.
        if current is None or current >= partition_count:
            return self._switch(partition_count, available)
        return current

    def produced(
        self, partition: int, size: int, partition_count: int, available: Sequence[int], *, batch_is_full: bool
    ) -> None:
        """Note that `size` bytes went to `partition`; the next record may go elsewhere then.

        A batch that is not full keeps the partition for as much again: leaving it half full would make two small ones.
        """
        if partition != self._current:
            return
        self._produced_bytes += size
        least = self._sticky_bytes if batch_is_full else 2 * self._sticky_bytes
        if self._produced_bytes >= least:
            self._switch(partition_count, available)

    def leaders_changed(self, partition_count: int, available: Sequence[int]) -> None:
        """Leave a partition that has lost its leader, if there is one that has not."""
        if self._current is not None and available and self._current not in available:
            self._switch(partition_count, available)

    def update_loads(self, loads: Sequence[PartitionLoad], partition_count: int, availability_timeout_ms: int) -> None:
        """Choose by how long the queues are from now on: one batch less waiting, one more chance."""
        reachable = [one for one in loads if not 0 < availability_timeout_ms < one.stalled_ms]
        queues = [one.queue_length for one in reachable]
        all_are_equal = len(reachable) == len(loads) and len(set(queues)) <= 1
        if not reachable or partition_count < 2 or all_are_equal:
            self._table = None
            return
        longest = max(queues)
        weights = list(accumulate(longest + 1 - length for length in queues))
        self._table = ([one.partition for one in reachable], weights)

    def _switch(self, partition_count: int, available: Sequence[int]) -> int:
        self._produced_bytes = 0
        self._current = self._choose(partition_count, available)
        return self._current

    def _choose(self, partition_count: int, available: Sequence[int]) -> int:
        if self._table is not None:
            partitions, weights = self._table
            chosen = partitions[bisect_right(weights, self._below(weights[-1]))]
            if chosen < partition_count:
                return chosen
            self._table = None
        return available[self._below(len(available))] if available else self._below(partition_count)


class Partitioning:
    """The partitions of a producer's records: the user's partitioner first, then the key, then the sticky one.

    `choose` says where a record must go; where that is None, it goes to `sticky(topic).partition(...)`, and what it
    took there is told to `sticky(topic).produced(...)`.
    """

    def __init__(
        self,
        below: Below,
        *,
        batch_size: int,
        own: Partitioner | None = None,
        ignore_keys: bool = False,
        adaptive: bool = True,
        availability_timeout_ms: int = 0,
    ) -> None:
        self._below = below
        self._batch_size = batch_size
        self._own = own
        self._ignore_keys = ignore_keys
        self._adaptive = adaptive
        self._availability_timeout_ms = availability_timeout_ms
        self._sticky: dict[str, StickyPartitions] = {}

    def choose(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, available: Sequence[int]
    ) -> int | None:
        if self._own is not None:
            chosen = self._own(topic, key, value, partition_count, available)
            if chosen is not None and not 0 <= chosen < partition_count:
                highest = partition_count - 1
                raise IllegalState(f"partitioner.class chose {chosen} of topic {topic!r}, which has 0 to {highest}")
            return chosen
        if key is None or self._ignore_keys:
            return None
        return partition_of_key(key, partition_count)

    def sticky(self, topic: str) -> StickyPartitions:
        """The sticky partition of a topic."""
        found = self._sticky.get(topic)
        if found is None:
            found = self._sticky[topic] = StickyPartitions(self._below, self._batch_size)
        return found

    def update_loads(self, topic: str, loads: Sequence[PartitionLoad], partition_count: int) -> None:
        """Tell how the partitions of a topic that have leaders keep up, whenever batches were taken from queues."""
        if self._adaptive:
            self.sticky(topic).update_loads(loads, partition_count, self._availability_timeout_ms)

    def forget(self, topic: str) -> None:
        """A topic that is not sent to any more."""
        self._sticky.pop(topic, None)
