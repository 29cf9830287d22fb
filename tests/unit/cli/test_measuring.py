"""The pure parts of the measuring tools: figures, payloads, and the names of errors."""

import pytest

from levada.cli.kit.refusals import Refused
from levada.cli.producer_perf_test.payloads import numbered_payloads, random_payloads, split_entries
from levada.cli.producer_perf_test.stats import Stats, percentiles_of
from levada.cli.verifiable_producer import java_exception
from levada.client.errors import KafkaError, RecordTooLarge, TimedOut, error_for
from levada.model.error_codes import ErrorCode


def test_the_total_is_about_all_records() -> None:
    stats = Stats(4, 5_000, now_ms=1_000)
    assert stats.record([1, 2, 3], 3 << 20, now_ms=1_500) == []
    assert stats.record([10], 1 << 20, now_ms=2_000) == []
    assert stats.total_line(3_000) == (
        "4 records sent, 2.000000 records/sec (2.00 MB/sec), 4.00 ms avg latency, 10.00 ms max latency,"
        " 3 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99.9th, 10 ms 99.99th."
    )


def test_a_window_is_about_the_records_since_the_last_one() -> None:
    stats = Stats(100, 1_000, now_ms=0)
    assert stats.record([4, 6], 1 << 20, now_ms=1_000) == [
        "2 records sent, 2.0 records/sec (1.00 MB/sec), 5.0 ms avg latency, 6.0 ms max latency."
    ]
    assert stats.record([1], 0, now_ms=1_999) == []
    assert stats.record([2], 1 << 20, now_ms=3_000) == [
        "2 records sent, 1.0 records/sec (0.50 MB/sec), 1.5 ms avg latency, 2.0 ms max latency."
    ]


def test_the_steady_state_is_announced_once() -> None:
    stats = Stats(10, 100, now_ms=0, is_steady=True)
    assert stats.record([1], 1, now_ms=100)[0] == "In steady state."
    assert stats.record([1], 1, now_ms=200)[0].startswith("1 records sent")
    assert stats.total_line(300).startswith("2 steady state records sent")


def test_only_samples_of_many_latencies_are_kept() -> None:
    stats = Stats(1_500_000, 1e9, now_ms=0)
    # Each third is a sample, also across batches.
    stats.record([0, 9, 9, 1], 0, now_ms=1)
    stats.record([9, 9, 2], 0, now_ms=1)
    assert "0 ms 50th" not in stats.total_line(2)
    assert "1 ms 50th, 2 ms 95th" in stats.total_line(2)


def test_without_records_there_are_zeros() -> None:
    assert percentiles_of([], [0.5]) == [0]
    assert Stats(1, 1, now_ms=0).total_line(0).startswith("0 records sent, 0.000000 records/sec (0.00 MB/sec), 0.00 ms")


@pytest.mark.parametrize(
    ("text", "entries"),
    [("a\nb", [b"a", b"b"]), ("a\nb\n", [b"a", b"b"]), ("\na\n\n", [b"a", b""]), ("\n", []), ("", [])],
)
def test_a_delimiter_at_either_end_delimits_nothing(text: str, entries: list[bytes]) -> None:
    assert split_entries(text, "\\n") == entries


def test_a_delimiter_that_is_no_expression_is_refused() -> None:
    with pytest.raises(Refused):
        split_entries("a", "(")


def test_payloads_have_their_size_and_differ() -> None:
    payloads = random_payloads(50)
    made = [next(payloads) for _ in range(2_000)]
    assert {len(payload) for payload in made} == {50}
    assert len(set(made)) == len(made)
    assert all(payload.isupper() for payload in made)


def test_numbers_begin_at_zero() -> None:
    payloads = numbered_payloads()
    assert [next(payloads) for _ in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (TimedOut("x"), "TimeoutException"),
        (RecordTooLarge("x"), "RecordTooLargeException"),
        (error_for(ErrorCode.INVALID_TOPIC_EXCEPTION), "InvalidTopicException"),
        (error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER), "NotLeaderOrFollowerException"),
    ],
)
def test_errors_are_named_as_in_java(error: KafkaError, name: str) -> None:
    assert java_exception(error) == f"org.apache.kafka.common.errors.{name}"
