"""Where a query is: its JSON, the limits of a batch, ranges for tasks, and what is lost."""

import itertools
import json
import logging

import pytest

from levada.client.types import TopicPartition
from levada.spark.source.admission import is_too_little, limited
from levada.spark.source.loss import DataLoss, Layout, begin, report, resume, within_log
from levada.spark.source.offsets import NOT_STARTED, BatchProgress, parse_progress
from levada.spark.source.ranges import OffsetRange, ranges_between, split

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_equal_progress_is_the_same_text_whatever_its_order() -> None:
    one = BatchProgress("g", {B0: 1, A1: 2, A0: 3}, {B0: 0, A0: 0}, {"b": "2", "a": "1"})
    other = BatchProgress("g", {A0: 3, A1: 2, B0: 1}, {A0: 0, B0: 0}, {"a": "1", "b": "2"})
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
    assert parse_progress(json.loads(json.dumps(one.to_json()))) == one


def test_progress_in_the_checkpoint_keeps_its_form() -> None:
    progress = BatchProgress("levada-spark-1", {TopicPartition("orders", 1): 7, TopicPartition("orders", 0): 5})
    assert progress.to_json() == {"~group": "levada-spark-1", "orders": {"0": 5, "1": 7}}
    assert parse_progress(NOT_STARTED) is None


def test_a_topics_many_partitions_are_in_the_order_of_their_numbers() -> None:
    progress = BatchProgress("g", {TopicPartition("a", number): 0 for number in (10, 9, 1)})
    assert list(progress.to_json()["a"]) == ["1", "9", "10"]


def test_a_batch_begins_where_the_one_before_ended_unless_it_says_otherwise() -> None:
    before = BatchProgress("g", {A0: 5, A1: 6})
    after = BatchProgress("g", {A0: 9, A1: 9, B0: 3}, {A1: 8, B0: 1})
    assert after.begin(before) == {A0: 5, A1: 8, B0: 1}
    assert BatchProgress("g", {A0: 9}, {A0: 2}).begin(None) == {A0: 2}


def test_a_limit_is_shared_in_proportion_to_the_lag() -> None:
    starts, ends = {A0: 0, A1: 100, B0: 7}, {A0: 750, A1: 350, B0: 7}
    assert limited(100, starts, ends) == {A0: 75, A1: 125, B0: 7}


def test_no_partition_with_a_lag_starves() -> None:
    assert limited(1, {A0: 0, A1: 0}, {A0: 1_000, A1: 1}) == {A0: 1, A1: 1}


def test_a_limit_above_the_lag_takes_everything() -> None:
    assert limited(10**12, {A0: 0, A1: 3}, {A0: 10, A1: 4}) == {A0: 10, A1: 4}
    assert limited(5, {A0: 4}, {A0: 4}) == {A0: 4}


def test_shares_are_rounded_down_as_spark_does() -> None:
    assert limited(10, {A0: 0, A1: 0, B0: 0}, {A0: 100, A1: 100, B0: 100}) == {A0: 3, A1: 3, B0: 3}


def test_a_batch_waits_for_the_minimum_until_its_time_is_up() -> None:
    starts, ends = {A0: 0, A1: 5}, {A0: 4, A1: 10}
    assert not is_too_little(None, starts, ends, waited_ms=0, max_wait_ms=100)
    assert is_too_little(10, starts, ends, waited_ms=99, max_wait_ms=100)
    assert not is_too_little(10, starts, ends, waited_ms=100, max_wait_ms=100)
    assert not is_too_little(9, starts, ends, waited_ms=0, max_wait_ms=100)


def test_there_is_a_range_only_where_there_is_something() -> None:
    assert ranges_between({A0: 1, A1: 5, B0: 6}, {A0: 3, A1: 5, B0: 2}) == [OffsetRange("a", 0, 1, 3)]


def sizes(ranges: list[OffsetRange]) -> list[tuple[str, int]]:
    return [(each.topic, each.size) for each in ranges]


def test_large_ranges_are_split_in_proportion_and_small_ones_stay_whole() -> None:
    large, small = OffsetRange("a", 0, 0, 100), OffsetRange("b", 0, 0, 5)
    assert split([large, small], None, None) == [large, small]
    assert split([large, small], 2, None) == [large, small]
    assert sizes(split([large, small], 5, None)) == [("a", 25)] * 4 + [("b", 5)]
    assert split([], 5, None) == []


def test_parts_follow_each_other_and_cover_the_whole() -> None:
    parts = split([OffsetRange("a", 0, 10, 110)], 7, None)
    assert len(parts) == 7
    assert parts[0].start == 10
    assert parts[-1].end == 110
    assert all(one.end == other.start for one, other in itertools.pairwise(parts))


def test_ranges_have_at_most_the_records_that_are_allowed() -> None:
    assert sizes(split([OffsetRange("a", 0, 0, 25), OffsetRange("b", 0, 0, 10)], None, 10)) == [
        ("a", 8),
        ("a", 8),
        ("a", 9),
        ("b", 10),
    ]
    assert len(split([OffsetRange("a", 0, 0, 25)], 10, 10)) == 10


def test_more_tasks_than_records_are_not_made() -> None:
    assert sizes(split([OffsetRange("a", 0, 0, 3)], 10, None)) == [("a", 1)] * 3


NOW = Layout(frozenset({A0}), {"a": "id"})


def test_a_query_goes_on_where_it_was() -> None:
    going_on = resume(BatchProgress("g", {A0: 5}, topic_ids={"a": "id"}), NOW, {A0: 2}, {A0: 9})
    assert (going_on.starts, going_on.moved, going_on.losses) == ({A0: 5}, {}, [])


def test_a_new_partition_is_read_from_its_beginning() -> None:
    now = Layout(frozenset({A0, A1}))
    going_on = resume(BatchProgress("g", {A0: 5}), now, {A0: 0, A1: 0}, {A0: 9, A1: 4})
    assert (going_on.starts, going_on.moved, going_on.losses) == ({A0: 5, A1: 0}, {A1: 0}, [])


@pytest.mark.parametrize(
    ("before", "now", "first", "end", "line"),
    [
        (BatchProgress("g", {A0: 5, A1: 7}), NOW, 0, 9, "a-1, read up to offset 7, is gone"),
        (BatchProgress("g", {A0: 5}), NOW, 6, 9, "offsets 5 to 5 of a-0 are deleted; it begins at offset 6"),
        (BatchProgress("g", {A0: 5}), NOW, 0, 4, "a-0 was read up to offset 5 and ends at offset 4"),
        (
            BatchProgress("g", {A0: 5}, topic_ids={"a": "old"}),
            NOW,
            0,
            9,
            "a-0, read up to offset 5, was deleted and made",
        ),
        (BatchProgress("g", {}), NOW, 3, 9, "a-0 is new and begins at offset 3, not 0"),
    ],
)
def test_what_is_lost_is_named(before: BatchProgress, now: Layout, first: int, end: int, line: str) -> None:
    going_on = resume(before, now, {A0: first}, {A0: end})
    assert len(going_on.losses) == 1
    assert going_on.losses[0].startswith(line)
    assert going_on.starts[A0] == (5 if "a-1" in line else first)


def test_a_log_that_is_known_to_be_the_same_and_was_cut_off_is_not_read_again() -> None:
    going_on = resume(BatchProgress("g", {A0: 5}, topic_ids={"a": "id"}), NOW, {A0: 0}, {A0: 4})
    assert (going_on.starts, going_on.moved) == ({A0: 4}, {A0: 4})
    assert going_on.losses[0].startswith("a-0 was read up to offset 5 and ends at offset 4")


def test_a_beginning_outside_of_the_log_is_a_loss_and_moved_into_it() -> None:
    starts, losses = begin({A0: 1, A1: 5, B0: 9}, {A0: 2, A1: 0, B0: 0}, {A0: 4, A1: 5, B0: 8})
    assert starts == {A0: 2, A1: 5, B0: 8}
    assert losses == [
        "a-0 has no offset 1 to begin at; it has offsets 2 to 4",
        "b-0 has no offset 9 to begin at; it has offsets 0 to 8",
    ]


def test_of_a_range_that_is_wanted_only_what_is_in_the_log_is_read() -> None:
    ranges, losses = within_log(
        {A0: 1, A1: 5, B0: 0}, {A0: 9, A1: 6, B0: 4}, {A0: 3, A1: 0, B0: 0}, {A0: 7, A1: 2, B0: 4}
    )
    assert ranges == [OffsetRange("a", 0, 3, 7), OffsetRange("b", 0, 0, 4)]
    assert losses == [
        "offsets 1 to 2 of a-0 are deleted; it begins at offset 3",
        "a-0 has no offset 8; it ends at offset 7",
        "a-1 has no offset 5; it ends at offset 2",
    ]


def test_a_loss_is_an_error_or_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLoss, match=r"^data loss: one \(and 1 more\); set option failOnDataLoss to false"):
        report(["one", "two"], fails=True)
    with caplog.at_level(logging.WARNING):
        report(["one", "two"], fails=False)
    assert [record.getMessage() for record in caplog.records] == [
        "data loss: one; going on with what is there",
        "data loss: two; going on with what is there",
    ]
    report([], fails=True)
