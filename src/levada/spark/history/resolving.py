"""Asks brokers which offsets a range stands for."""

from collections.abc import Mapping

from levada import Consumer
from levada.client.types import TopicPartition
from levada.spark.history.ranges import (
    EXAMPLE,
    Moment,
    OffsetRange,
    OffsetRanges,
    RangeError,
    TopicRange,
    check_there,
    given_offsets,
    moment_ms,
)


def resolve(consumer: Consumer, topic: str, start: OffsetRanges | Moment | None, end: Moment | None) -> TopicRange:
    """Offsets as they were given, those between two times, or the whole topic as it is now."""
    found = consumer.list_topics().get(topic)
    if found is None:
        raise RangeError(f"there is no topic {topic!r}")
    partitions = [TopicPartition(topic, each.index) for each in found]
    beginnings, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    if isinstance(start, Mapping):
        if end is not None:
            raise RangeError(f"a range of offsets has its ends in itself: a range is {EXAMPLE}")
        wanted = given_offsets(topic, start)
        check_there(wanted, beginnings, ends)
        return wanted
    starts = beginnings if start is None else _at(consumer, moment_ms(start), ends)
    stops = ends if end is None else _at(consumer, moment_ms(end), ends)
    if start is not None and end is not None and moment_ms(end) < moment_ms(start):
        raise RangeError(f"the range ends at {end}, before it begins at {start}")
    return TopicRange(
        topic,
        # Times need not rise with offsets, so the end may be found before the start.
        {each.partition: OffsetRange(starts[each], max(starts[each], stops[each])) for each in partitions},
    )


def _at(consumer: Consumer, time_ms: int, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The first offset that is not older; the end where all are older."""
    found = consumer.offsets_for_times(dict.fromkeys(ends, time_ms))
    return {
        partition: end if (at := found.get(partition)) is None else min(at.offset, end)
        for partition, end in ends.items()
    }
