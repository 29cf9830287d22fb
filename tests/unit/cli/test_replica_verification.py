"""What `levada replica-verification` finds when it compares replicas."""

import pytest

from levada.cli.replica_verification.comparison import NOTHING, Fetched, compare
from levada.client.types import TopicPartition
from levada.records import BatchView, build_batch

ORDERS = TopicPartition("orders", 3)


def batch(base_offset: int, *values: bytes) -> bytes:
    return build_batch([(0, None, value, ()) for value in values], base_offset=base_offset)


FIRST, SECOND = batch(0, b"a", b"b"), batch(2, b"c")


def test_replicas_that_hold_the_same_are_verified_to_their_end() -> None:
    verdict = compare(ORDERS, 0, {1: Fetched(3, FIRST + SECOND), 2: Fetched(3, FIRST + SECOND)})
    assert (verdict.next_offset, verdict.lag, verdict.faults) == (3, 0, [])


def test_what_a_replica_has_not_yet_is_lag() -> None:
    verdict = compare(ORDERS, 0, {1: Fetched(3, FIRST + SECOND), 2: Fetched(2, FIRST)})
    assert (verdict.next_offset, verdict.lag, verdict.faults) == (2, 1, [])


def test_what_is_not_committed_is_not_compared() -> None:
    other = batch(2, b"not c")
    verdict = compare(ORDERS, 0, {1: Fetched(2, FIRST + SECOND), 2: Fetched(2, FIRST + other)})
    assert (verdict.next_offset, verdict.lag, verdict.faults) == (2, 0, [])


def test_a_batch_that_is_cut_off_is_left_for_the_next_round() -> None:
    verdict = compare(ORDERS, 0, {1: Fetched(3, FIRST + SECOND), 2: Fetched(3, FIRST + SECOND[:-1])})
    assert (verdict.next_offset, verdict.lag, verdict.faults) == (2, 1, [])


def test_a_replica_that_cannot_be_read_holds_the_partition_up() -> None:
    verdict = compare(ORDERS, 0, {1: Fetched(3, FIRST + SECOND), 2: NOTHING})
    assert (verdict.next_offset, verdict.lag, verdict.faults) == (0, 3, [])


def test_other_records_under_the_same_offsets_are_told_and_passed_over() -> None:
    other = batch(0, b"a", b"x")
    verdict = compare(ORDERS, 0, {1: Fetched(3, FIRST + SECOND), 2: Fetched(3, other + SECOND)})
    ours, theirs = BatchView(FIRST).crc, BatchView(other).crc
    (fault,) = verdict.faults
    assert fault == (
        f"partition orders-3 has unmatched checksum at offset 1; replica 1's checksum {ours};"
        f" replica 2's checksum {theirs}"
    )
    assert (verdict.next_offset, verdict.is_hopeless) == (3, False)


def test_other_offsets_end_it() -> None:
    verdict = compare(ORDERS, 0, {1: Fetched(3, FIRST + SECOND), 2: Fetched(3, batch(0, b"a") + SECOND)})
    assert verdict.faults == ["partition orders-3: replica 1's offset 1 doesn't match replica 2's offset 0"]
    assert (verdict.next_offset, verdict.is_hopeless) == (0, True)


@pytest.mark.parametrize("at", [-1, 62])
def test_a_damaged_batch_is_found_also_in_a_replica_that_is_alone(at: int) -> None:
    damaged = bytearray(FIRST)
    damaged[at] ^= 1
    verdict = compare(ORDERS, 0, {1: Fetched(3, bytes(damaged) + SECOND)})
    (fault,) = verdict.faults
    assert fault == (
        f"partition orders-3 has a damaged batch at offset 1; replica 1's checksum {BatchView(FIRST).crc} does not fit"
        " its bytes"
    )
    assert verdict.next_offset == 3


def test_a_length_that_cannot_be_ends_the_reading_of_a_replica() -> None:
    verdict = compare(ORDERS, 0, {1: Fetched(3, FIRST + bytes(100))})
    assert verdict.next_offset == 2
    assert verdict.faults[0].startswith("partition orders-3: replica 1 cannot be read: batch length 0")
