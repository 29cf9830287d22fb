"""Ranges of offsets, each for one task, and how large ones are split."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from levada.client.types import TopicPartition

FEW_RECORDS = 1_000


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Records of one partition, read by one task."""

    topic: str
    partition: int
    start: int
    end: int
    """The offset behind the last one."""

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class SmallRanges(InputPartition):
    """Few records of several partitions, read by one task: a task takes longer to start than to read them."""

    ranges: tuple[OffsetRange, ...]


def ranges_between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """A range for each partition in which there is something to read."""
    return [
        OffsetRange(*partition, starts[partition], ends[partition])
        for partition in sorted(ends)
        if partition in starts and starts[partition] < ends[partition]
    ]


def together(ranges: Sequence[OffsetRange]) -> Sequence[InputPartition]:
    """One task for all, if they have few records in all: the more of them wait, the more tasks there are again.

    >>> together([OffsetRange("t", 0, 0, 400), OffsetRange("t", 1, 0, 700)])
    [OffsetRange(topic='t', partition=0, start=0, end=400), OffsetRange(topic='t', partition=1, start=0, end=700)]
    >>> [small] = together([OffsetRange("t", 0, 0, 400), OffsetRange("t", 1, 7, 9)])
    >>> small.ranges[1]
    OffsetRange(topic='t', partition=1, start=7, end=9)
    """
    if len(ranges) < 2 or sum(each.size for each in ranges) > FEW_RECORDS:
        return ranges
    return [SmallRanges(tuple(ranges))]


def split(ranges: Iterable[OffsetRange], min_count: int | None, max_size: int | None) -> list[OffsetRange]:
    """Ranges of at most `max_size`, and about `min_count` of them: larger ones get more tasks, in proportion."""
    found = list(ranges)
    if max_size is not None:
        found = [part for each in found for part in _divide(each, -(-each.size // max_size))]
    if min_count is None or min_count <= len(found):
        return found
    total = sum(each.size for each in found)
    # Small ranges stay whole and take a task each; what is left of the count goes to the large ones.
    small = [each for each in found if _share(each.size, total, min_count) == 1]
    large_total = total - sum(each.size for each in small)
    large_count = max(min_count - len(small), 1)
    is_small = set(small)
    return [
        part
        for each in found
        for part in ([each] if each in is_small else _divide(each, _share(each.size, large_total, large_count)))
    ]


def _share(size: int, total: int, count: int) -> int:
    # Halves go up, as Java rounds; Python's `round` would take them to the even neighbour.
    return max(int(size / total * count + 0.5), 1)


def _divide(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Consecutive parts of sizes as equal as can be."""
    parts: list[OffsetRange] = []
    start = whole.start
    for left in range(count, 0, -1):
        end = start + (whole.end - start) // left
        if start < end:
            parts.append(replace(whole, start=start, end=end))
        start = end
    return parts
