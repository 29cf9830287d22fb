"""What was fetched of a partition, and how it is handed out."""

from typing import Any

import pytest

from levada.client.consumer import fetched
from levada.client.consumer.deserializing import transform_for
from levada.client.consumer.fetched import Backlog, RecordReading
from levada.client.consumer.subscription import AssignedPartition, Position
from levada.client.errors import CorruptRecord, SerializationFailed
from levada.client.types import TopicPartition
from levada.protocol.messages.fetch import AbortedTransaction
from levada.records import Codec, ConsumerRecord, ControlType, build_batch, end_transaction_marker

PLACE = TopicPartition("t", 3)
COMMITTED = RecordReading(is_committed_only=True)
PLAIN = RecordReading()


def batch(base_offset: int, count: int, epoch: int = 5, **details: Any) -> bytes:
    records = [(1_000 + base_offset + index, None, b"%d" % (base_offset + index), ()) for index in range(count)]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch, **details)


def marker(base_offset: int, kind: ControlType, producer_id: int) -> bytes:
    return end_transaction_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=base_offset,
        partition_leader_epoch=5,
    )


def of(producer_id: int) -> dict[str, Any]:
    return {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}


def backlog(offset: int = 0) -> Backlog:
    position = Position(offset)
    state = AssignedPartition(position)
    return Backlog(PLACE, state, position)


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batches are small enough to be decoded together."""
    monkeypatch.setattr(fetched, "DECODED_TOGETHER", 0)


@pytest.mark.usefixtures("one_by_one")
def test_batches_are_handed_out_in_slices_and_positions_follow() -> None:
    mine = backlog()
    size = mine.add(batch(0, 10) + batch(10, 10, epoch=6), None)
    assert (mine.fetch_offset, mine.unread_bytes) == (20, size)
    assert offsets(mine.take(4, PLAIN)) == [0, 1, 2, 3]
    assert mine.state.position == Position(4, 5)
    assert mine.unread_bytes == len(batch(10, 10))
    # The next batch does not fit: another partition may be next.
    assert offsets(mine.take(12, PLAIN)) == list(range(4, 10))
    assert mine.state.position == Position(10, 5)
    assert offsets(mine.take(6, PLAIN)) == list(range(10, 16))
    assert mine.state.position == Position(16, 6)
    assert not mine.is_stale
    assert offsets(mine.take(100, PLAIN)) == [16, 17, 18, 19]
    assert mine.state.position == Position(20, 6)
    assert mine.is_empty
    assert mine.unread_bytes == 0
    assert mine.take(1, PLAIN) == []


@pytest.mark.usefixtures("one_by_one")
def test_batches_that_fit_come_together() -> None:
    mine = backlog()
    mine.add(b"".join(batch(offset, 2) for offset in range(0, 10, 2)), None)
    assert offsets(mine.take(7, PLAIN)) == list(range(6))
    assert offsets(mine.take(7, PLAIN)) == list(range(6, 10))


def test_small_batches_are_decoded_together_and_positions_follow() -> None:
    mine = backlog(1)
    size = mine.add(b"".join(batch(offset, 2, epoch=offset) for offset in range(0, 10, 2)), None)
    assert offsets(mine.take(4, PLAIN)) == [1, 2, 3, 4]
    assert mine.position == Position(5, 4)
    assert mine.unread_bytes == 0
    # The first three are read but for one record; what was decoded is decoded again elsewhere.
    assert [each.base_offset for each in mine.peek_batches(PLAIN)] == [4, 6, 8]
    assert offsets(mine.take(2, PLAIN)) == [5, 6]
    assert [each.base_offset for each in mine.peek_batches(PLAIN)] == [6, 8]
    mine.skip_batches(1)
    assert mine.position == Position(8, 6)
    assert offsets(mine.take(10, PLAIN)) == [8, 9]
    assert mine.is_empty
    assert size
    assert mine.unread_bytes == 0


def test_a_small_batch_that_cannot_be_decoded_does_not_spoil_those_before_it() -> None:
    damaged = bytearray(batch(4, 2))
    damaged[61] = 0x7F
    mine = backlog()
    mine.add(batch(0, 2) + batch(2, 2) + bytes(damaged), None)
    reading = RecordReading(checks_crcs=False)
    assert offsets(mine.take(10, reading)) == [0, 1, 2, 3]
    with pytest.raises(CorruptRecord, match="offset 4"):
        mine.take(10, reading)


def test_a_record_says_where_it_comes_from() -> None:
    mine = backlog()
    mine.add(batch(7, 1), None)
    assert mine.take(1, PLAIN) == [ConsumerRecord("t", 3, 7, 1_007, 0, None, b"7", (), 5)]


def test_reading_begins_in_the_middle_of_a_batch() -> None:
    mine = backlog(5)
    mine.add(batch(0, 10), None)
    assert offsets(mine.take(2, PLAIN)) == [5, 6]
    (whole,) = mine.peek_batches(PLAIN)
    assert (whole.base_offset, mine.position.offset) == (0, 7)


def test_a_batch_that_is_cut_off_is_fetched_again() -> None:
    mine = backlog()
    whole, cut = batch(0, 3), batch(3, 3)
    assert mine.add(whole + cut[:-1], None) == len(whole)
    assert mine.fetch_offset == 3
    assert offsets(mine.take(10, PLAIN)) == [0, 1, 2]
    for length in (0, 5, 16, 60):
        assert backlog().add(cut[:length], None) == 0


def test_gaps_that_compaction_left_are_stepped_over() -> None:
    records = [(0, b"k", b"2", ()), (0, b"k", b"5", ())]
    gappy = build_batch(records, base_offset=10, offset_deltas=[2, 5], last_offset_delta=9)
    nothing = build_batch([], base_offset=20, base_timestamp=0, max_timestamp=0, last_offset_delta=4)
    mine = backlog(13)
    mine.add(gappy + nothing, None)
    assert offsets(mine.take(10, PLAIN)) == [15]
    assert mine.state.position.offset == 25  # type: ignore[union-attr]
    assert mine.is_empty


def test_control_batches_are_stepped_over_also_at_the_end() -> None:
    mine = backlog()
    mine.add(marker(0, ControlType.COMMIT, 1) + batch(1, 2) + marker(3, ControlType.COMMIT, 1), None)
    assert offsets(mine.take(1, PLAIN)) == [1]
    assert mine.position.offset == 2
    assert offsets(mine.take(1, PLAIN)) == [2]
    assert mine.position.offset == 4
    mine.add(marker(4, ControlType.ABORT, 1), None)
    assert not mine.is_empty
    assert mine.take(1, PLAIN) == []
    assert mine.position == Position(5, 5)
    assert mine.is_empty


def test_aborted_records_are_left_out_and_those_after_the_abort_are_not() -> None:
    data = b"".join(
        (
            batch(0, 2, **of(1)),
            batch(2, 2, **of(2)),
            batch(4, 1),
            marker(5, ControlType.ABORT, 1),
            batch(6, 2, **of(1)),
            marker(8, ControlType.COMMIT, 2),
            marker(9, ControlType.COMMIT, 1),
            batch(10, 2, **of(2)),
            marker(12, ControlType.ABORT, 2),
        )
    )
    aborted = [
        AbortedTransaction(producer_id=2, first_offset=10),
        AbortedTransaction(producer_id=1, first_offset=0),
    ]
    mine = backlog()
    mine.add(data, aborted)
    assert offsets(mine.take(100, COMMITTED)) == [2, 3, 4, 6, 7]
    assert mine.position.offset == 13
    everything = backlog()
    everything.add(data, aborted)
    assert offsets(everything.take(100, PLAIN)) == [0, 1, 2, 3, 4, 6, 7, 10, 11]
    # What was aborted in one answer says nothing about the next.
    mine.add(batch(13, 1, **of(2)), [])
    assert offsets(mine.take(100, COMMITTED)) == [13]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_damaged_batch_is_told_after_those_before_it_and_can_be_stepped_over(codec: Codec) -> None:
    damaged = bytearray(batch(5, 5, codec=codec))
    damaged[-1] ^= 1
    mine = backlog()
    mine.add(batch(0, 5) + bytes(damaged) + batch(10, 5), None)
    assert offsets(mine.take(100, PLAIN)) == [0, 1, 2, 3, 4]
    assert mine.position.offset == 5
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"offset 5 of t-3.*checksum"):
            mine.take(1, PLAIN)
        with pytest.raises(CorruptRecord):
            mine.peek_batches(PLAIN)
    after = backlog(10)
    after.add(batch(10, 5), None)
    assert len(after.take(100, PLAIN)) == 5


def test_without_checksums_a_batch_that_cannot_be_decoded_is_told() -> None:
    damaged = bytearray(batch(0, 3))
    damaged[61] = 0x7F
    mine = backlog()
    mine.add(bytes(damaged), None)
    with pytest.raises(CorruptRecord, match="offset 0"):
        mine.take(1, RecordReading(checks_crcs=False))


@pytest.mark.parametrize(("position", "value"), [(16, 1), (8, 255), (11, 5)], ids=["old", "negative", "short"])
def test_what_is_no_batch_is_told_once_all_before_it_is_read(position: int, value: int) -> None:
    wrong = bytearray(batch(3, 3))
    wrong[position] = value
    mine = backlog()
    mine.add(batch(0, 3) + bytes(wrong), None)
    assert len(mine.take(100, PLAIN)) == 3
    assert isinstance(mine.failure, CorruptRecord)
    assert not mine.is_empty


def test_a_record_that_cannot_be_deserialized_is_told_in_its_turn() -> None:
    def picky(data: bytes) -> int:
        if data == b"6":
            raise ValueError("six")
        return int(data)

    reading = RecordReading(transform=transform_for(None, picky))
    mine = backlog()
    size = mine.add(batch(0, 5) + batch(5, 5), None)
    values: list[object] = [record.value for record in mine.take(100, reading)]
    assert values == [0, 1, 2, 3, 4, 5]
    assert mine.position == Position(6, 5)
    for _ in range(2):
        with pytest.raises(SerializationFailed, match="seek to 7"):
            mine.take(1, reading)
    assert 0 <= mine.unread_bytes < size
    assert not mine.is_empty


def test_whole_batches_may_be_peeked_at_and_then_count_as_read() -> None:
    mine = backlog()
    mine.add(batch(0, 5) + marker(5, ControlType.COMMIT, 1), None)
    mine.add(batch(6, 4) + batch(10, 2), None)
    assert offsets(mine.take(2, PLAIN)) == [0, 1]
    peeked = mine.peek_batches(PLAIN)
    assert [each.base_offset for each in peeked] == [0, 6, 10]
    mine.skip_batches(2)
    assert mine.position == Position(10, 5)
    assert offsets(mine.take(100, PLAIN)) == [10, 11]
    assert (mine.unread_bytes, mine.is_empty) == (0, True)


def test_peeking_ends_before_a_damaged_batch() -> None:
    damaged = bytearray(batch(5, 5))
    damaged[-1] ^= 1
    mine = backlog()
    mine.add(batch(0, 5) + bytes(damaged), None)
    mine.add(batch(10, 5), None)
    assert [each.base_offset for each in mine.peek_batches(PLAIN)] == [0]
    mine.skip_batches(1)
    assert mine.position.offset == 5
    with pytest.raises(CorruptRecord):
        mine.peek_batches(PLAIN)


def test_a_seek_makes_it_stale_also_to_the_same_place() -> None:
    mine = backlog()
    mine.add(batch(0, 5), None)
    mine.state.position = Position(0)
    assert mine.is_stale
