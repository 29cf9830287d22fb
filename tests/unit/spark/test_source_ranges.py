"""Which tasks read a micro-batch."""

import pickle

from levada.spark.source.ranges import FEW_RECORDS, OffsetRange, SmallRanges, together


def test_few_records_of_several_partitions_are_one_task() -> None:
    ranges = [OffsetRange("t", 0, 5, 9), OffsetRange("u", 3, 0, FEW_RECORDS - 4)]
    [task] = together(ranges)
    assert isinstance(task, SmallRanges)
    assert task.ranges == tuple(ranges)
    assert pickle.loads(pickle.dumps(task)).ranges == tuple(ranges)


def test_more_records_than_a_few_have_a_task_for_each_partition() -> None:
    ranges = [OffsetRange("t", 0, 0, FEW_RECORDS), OffsetRange("t", 1, 0, 1)]
    assert list(together(ranges)) == ranges


def test_one_range_stays_as_it_is() -> None:
    ranges = [OffsetRange("t", 0, 0, 1)]
    assert list(together(ranges)) == ranges
    assert list(together([])) == []
