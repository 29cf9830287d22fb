"""What a built batch says of itself, and what control records say."""

import pytest

from levada.records import (
    BatchView,
    Codec,
    ControlType,
    InvalidRecord,
    Record,
    build_batch,
    end_transaction_marker,
    parse_control_record,
    parse_produced,
)
from levada.records.record import RecordInput

NOW_MS = 1_700_000_000_000
RECORDS: list[RecordInput] = [(NOW_MS + i % 7, b"key-%d" % i, b"value " * i, [("n", b"%d" % i)]) for i in range(50)]


@pytest.mark.parametrize("codec", Codec)
def test_batch_reads_back_with_every_codec(codec: Codec) -> None:
    view = parse_produced(build_batch(RECORDS, base_offset=10, codec=codec))
    assert view.codec is codec
    assert [record[1:] for record in view.records()] == [(t, k, v, tuple(h)) for t, k, v, h in RECORDS]
    assert [record.offset for record in view.records()] == list(range(10, 60))
    assert (view.base_timestamp, view.max_timestamp) == (NOW_MS, NOW_MS + 6)


@pytest.mark.parametrize("level", [1, 9])
@pytest.mark.parametrize("codec", Codec)
def test_level_is_taken_with_every_codec(codec: Codec, level: int) -> None:
    assert len(parse_produced(build_batch(RECORDS, codec=codec, level=level)).records()) == 50


def test_any_kind_of_buffer_may_be_written() -> None:
    kinds: list[RecordInput] = [(0, bytearray(b"k"), memoryview(b".v.")[1:2], [("h", bytearray(b"x"))])]
    assert build_batch(kinds) == build_batch([(0, b"k", b"v", [("h", b"x")])])


def test_a_record_written_again_is_the_same() -> None:
    records = BatchView(build_batch(RECORDS)).records()
    assert build_batch([record[1:] for record in records]) == build_batch(RECORDS)


def test_compaction_keeps_gaps_the_last_offset_and_the_horizon() -> None:
    batch = build_batch(
        RECORDS[:2], base_offset=100, offset_deltas=[3, 8], last_offset_delta=49, delete_horizon_ms=NOW_MS + 86_400_000
    )
    view = BatchView(batch)
    view.validate()
    assert [record.offset for record in view.records()] == [103, 108]
    assert [record.timestamp_ms for record in view.records()] == [NOW_MS, NOW_MS + 1]
    assert (view.last_offset, view.next_offset, view.record_count) == (149, 150, 2)
    assert view.delete_horizon_ms == NOW_MS + 86_400_000


@pytest.mark.parametrize("codec", Codec)
def test_batch_without_records_is_a_header_alone(codec: Codec) -> None:
    batch = build_batch([], codec=codec, last_offset_delta=9, producer_id=5, producer_epoch=1, base_sequence=9)
    view = BatchView(batch)
    view.validate()
    assert len(batch) == 61
    assert view.records() == []
    assert (view.last_sequence, view.base_timestamp, view.max_timestamp) == (18, -1, -1)


def test_as_many_offset_deltas_as_records() -> None:
    with pytest.raises(ValueError):
        build_batch(RECORDS, offset_deltas=[0])


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_marker_says_how_the_transaction_ended(control_type: ControlType) -> None:
    marker = end_transaction_marker(
        control_type, producer_id=7, producer_epoch=3, coordinator_epoch=11, timestamp_ms=NOW_MS, base_offset=20
    )
    view = BatchView(marker)
    view.validate()
    assert view.is_control
    assert view.is_transactional
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.last_sequence) == (7, 3, -1, -1)
    [record] = view.records()
    control = parse_control_record(record)
    assert control.type is control_type
    assert control.coordinator_epoch == 11


def test_unknown_control_type_is_not_an_error() -> None:
    assert parse_control_record(Record(0, 0, b"\x00\x00\x00\x63", b"future")).type is None


def test_later_versions_of_a_marker_are_read() -> None:
    record = Record(0, 0, b"\x00\x01\x00\x01more", b"\x00\x01\x00\x00\x00\x07more")
    assert parse_control_record(record).coordinator_epoch == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00\x00\x00", b""),
        (b"\xff\xff\x00\x00", b"\x00" * 6),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00" * 5),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_malformed_control_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        parse_control_record(Record(0, 0, key, value))
