"""Which part of an output can have been made from a range of its input, as far as stamps of brokers prove it."""

from collections.abc import Sequence

import pytest

from levada.client.admin import AppendTime
from levada.client.types import TopicPartition
from levada.spark.history.appended import CLOCKS_DIFFER_MS, FETCHES, Appended
from levada.spark.history.ranges import OffsetRange, TopicRange

HOUR_MS = 3_600_000
IN, OUT = TopicPartition("in", 0), TopicPartition("out", 0)
Stamp = tuple[int, int, int]
FETCHED = 500


class Logs:
    """Stamps of each partition: first offset, offset behind it, hour. A fetch gives so many offsets."""

    def __init__(self, stamps: dict[TopicPartition, Sequence[Stamp]], ends: dict[TopicPartition, int]) -> None:
        self.stamps = stamps
        self.ends = ends
        self.fetches = 0

    def next_stamp(self, partition: TopicPartition, offset: int) -> AppendTime:
        self.fetches += 1
        last = min(offset + FETCHED, self.ends[partition])
        for first, behind, hour in self.stamps.get(partition, ()):
            if behind > offset and first < last:
                return AppendTime(first, behind, hour * HOUR_MS)
        return AppendTime(None, max(offset, last), -1)


def every(step: int, end: int, per_hour: int) -> list[Stamp]:
    """A marker behind every so many records, and so many offsets an hour."""
    return [(offset, offset + 1, offset // per_hour) for offset in range(step, end, step)]


def searched(logs: Logs, start: int = 5_000) -> OffsetRange:
    source = TopicRange("in", {0: OffsetRange(start, start + 10)})
    output = TopicRange("out", {0: OffsetRange(0, logs.ends[OUT])})
    return Appended(logs.next_stamp).narrowed(source, {IN: 0}, output).partitions[0]


def test_the_output_is_read_from_the_last_stamps_before_the_input_on() -> None:
    ends = {IN: 10_000, OUT: 1_000_000}
    logs = Logs({IN: every(10, 10_000, 100), OUT: every(100, 1_000_000, 10_000)}, ends)
    found = searched(logs)
    # The input is of hour 50, so it could not be in the output before offset 500,000; less the clocks, of 490,000.
    assert 480_000 < found.start <= 500_000
    assert found.end == 1_000_000
    assert logs.fetches < 100


def test_all_that_came_no_sooner_than_the_input_is_read_wherever_stamps_are() -> None:
    for step in (7, 100, 3_000):
        for hour in (1, 13, 40, 99):
            stamps = every(step, 100_000, 1_000)
            logs = Logs({IN: [(4_990, 4_991, hour)], OUT: stamps}, {IN: 10_000, OUT: 100_000})
            known = max(
                (behind for _, behind, at in stamps if at * HOUR_MS < hour * HOUR_MS - CLOCKS_DIFFER_MS), default=0
            )
            assert searched(logs).start <= known


def test_a_batch_around_the_first_record_tells_its_time() -> None:
    logs = Logs({IN: [(4_000, 6_000, 50)], OUT: every(100, 100_000, 1_000)}, {IN: 10_000, OUT: 100_000})
    assert searched(logs).start > 40_000


@pytest.mark.parametrize(
    "stamps",
    [
        {IN: [], OUT: every(100, 100_000, 1_000)},
        {IN: [(5_001, 5_002, 50)], OUT: every(100, 100_000, 1_000)},
        {IN: every(10, 10_000, 100), OUT: []},
        {IN: every(10, 10_000, 100), OUT: [(99_999, 100_000, 90)]},
        {IN: [(10, 11, 0)], OUT: every(100, 100_000, 1_000)},
    ],
    ids=["input without", "only behind the input", "output without", "only younger", "the input older than all"],
)
def test_where_stamps_prove_nothing_all_is_read(stamps: dict[TopicPartition, Sequence[Stamp]]) -> None:
    logs = Logs(stamps, {IN: 10_000, OUT: 100_000})
    assert searched(logs) == OffsetRange(0, 100_000)
    assert logs.fetches < 20 * FETCHES


def test_one_partition_of_the_input_that_tells_nothing_is_enough_to_read_all() -> None:
    silent = TopicPartition("in", 1)
    logs = Logs({IN: every(10, 10_000, 100), OUT: every(100, 100_000, 1_000)}, {IN: 10_000, silent: 10, OUT: 100_000})
    output = TopicRange("out", {0: OffsetRange(0, 100_000)})
    both = TopicRange("in", {0: OffsetRange(5_000, 5_010), 1: OffsetRange(0, 10)})
    appended = Appended(logs.next_stamp)
    assert appended.narrowed(both, {IN: 0, silent: 0}, output) == output
    empty = TopicRange("in", {0: OffsetRange(5_000, 5_010), 1: OffsetRange(10, 10)})
    assert appended.narrowed(empty, {IN: 0, silent: 0}, output).size < 60_000


def test_records_that_were_removed_are_no_reason_to_look_further_back() -> None:
    logs = Logs({IN: [(100, 101, 50)], OUT: every(100, 100_000, 1_000)}, {IN: 10_000, OUT: 100_000})
    source = TopicRange("in", {0: OffsetRange(5_000, 5_010)})
    output = TopicRange("out", {0: OffsetRange(2_000, 100_000)})
    assert Appended(logs.next_stamp).narrowed(source, {IN: 4_000}, output) == output
