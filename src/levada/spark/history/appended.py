"""From which offset on an output can hold what was made from a range of its input: by the clocks of brokers.

What was made from a record was appended after it. Timestamps of records do not tell when: producers may give any, such
as the time of an event. But logs are in the order of their appends, and brokers stamp some batches by their own clock:
those of topics with LogAppendTime, and the markers behind transactions. So a stamp in front of the input says that what
follows it came no sooner, and a stamp in the output that what is before it came no later. Where stamps prove nothing,
all of the output may be from the range.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from levada import Admin
from levada.client.admin import AppendTime
from levada.client.types import TopicPartition
from levada.spark.history.ranges import OffsetRange, TopicRange

CLOCKS_DIFFER_MS = 10 * 60_000
"""Clocks of brokers are taken to be no further apart: so much earlier than the input the output is looked through."""

LOOK_BACK = (0, 100, 10_000, 1_000_000)
"""So many offsets before the input a stamp is searched, first the nearest."""

FETCHES = 8
"""To the next stamp; if it is further, it counts as none. A micro-batch has one in each partition it has written to."""

NEAR = 1_000
"""Offsets that are cheaper to read than to tell apart."""

VAIN_PROBES = 3
"""After so many without a stamp the output is taken to have none."""

NextStamp = Callable[[TopicPartition, int], AppendTime]


@dataclass(frozen=True, slots=True)
class Appended:
    """Asks brokers for stamps, one after the other."""

    next_stamp: NextStamp

    @classmethod
    def of(cls, admin: Admin) -> "Appended":
        return cls(lambda partition, offset: admin.next_append_times({partition: offset})[partition])

    def narrowed(self, source: TopicRange, beginnings: Mapping[TopicPartition, int], output: TopicRange) -> TopicRange:
        """The part of the output that can have been made from the source; `beginnings` are those of the source."""
        places = {TopicPartition(source.topic, number): each for number, each in source.partitions.items() if each.size}
        since = [self.earliest_ms(place, beginnings[place], each.start) for place, each in places.items()]
        known_ms = [time_ms for time_ms in since if time_ms is not None]
        if not since or len(known_ms) < len(since):
            return output
        time_ms = min(known_ms) - CLOCKS_DIFFER_MS
        partitions = {
            number: OffsetRange(self.first_since(TopicPartition(output.topic, number), each, time_ms), each.end)
            for number, each in output.partitions.items()
        }
        return TopicRange(output.topic, partitions)

    def earliest_ms(self, partition: TopicPartition, beginning: int, offset: int) -> int | None:
        """A time before which the record at this offset was not appended; None if nothing tells."""
        for back in LOOK_BACK:
            start = max(beginning, offset - back)
            stamp = self._stamp(partition, start, offset + 1)
            if stamp is not None:
                return stamp.timestamp_ms
            if start == beginning:
                return None
        return None

    def first_since(self, partition: TopicPartition, there: OffsetRange, time_ms: int) -> int:
        """An offset before which all was appended before a time; the start where nothing tells."""
        known, unknown = there.start, there.end
        vain = 0
        while unknown - known > NEAR and vain < VAIN_PROBES:
            middle = (known + unknown) // 2
            stamp = self._stamp(partition, middle, unknown)
            vain = vain + 1 if stamp is None else 0
            if stamp is not None and stamp.timestamp_ms < time_ms:
                known = stamp.next_offset
            else:
                unknown = middle
        # A batch may end behind where it was searched.
        return min(known, there.end)

    def _stamp(self, partition: TopicPartition, start: int, end: int) -> AppendTime | None:
        """The first that begins in these offsets; None if it is not there, or too far."""
        offset = start
        for _ in range(FETCHES):
            found = self.next_stamp(partition, offset)
            if found.offset is not None:
                return found if found.offset < end else None
            if not offset < found.next_offset < end:
                return None
            offset = found.next_offset
        return None
