"""What a batch view shows, and what a produced payload must be."""

import struct

import pytest
from crc32c import crc32c

from levada.records import (
    BatchView,
    Codec,
    CorruptBatch,
    InvalidRecord,
    RecordsError,
    UnsupportedCompression,
    build_batch,
    end_transaction_marker,
    iter_batches,
    parse_produced,
    patch_header,
    with_codec,
    with_log_append_time,
    with_max_timestamp,
)
from levada.records.builder import ControlType
from levada.records.record import RecordInput

NOW_MS = 1_700_000_000_000
RECORDS: list[RecordInput] = [
    (NOW_MS, b"key", b"value", [("header", b"content")]),
    (NOW_MS + 5, None, b"value", ()),
    (NOW_MS + 3, b"key", None, ()),
]


def with_field(batch: bytes, at: int, layout: str, value: int, *, fix_crc: bool = True) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(layout, changed, at, value)
    if fix_crc:
        struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


def test_view_reads_a_batch_in_the_middle_of_a_buffer() -> None:
    batch = build_batch(RECORDS, base_offset=7)
    view = BatchView(b"." * 5 + batch + b"." * 3, 5)
    view.validate()
    assert view.size == len(batch)
    assert bytes(view.body) == batch[61:]
    assert [record.offset for record in view.records()] == [7, 8, 9]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_taken(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    batch = kind(build_batch(RECORDS))
    assert parse_produced(batch).records() == next(iter(iter_batches(batch))).records()


def test_last_sequence_wraps_around() -> None:
    view = BatchView(build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert view.last_sequence == 0


def test_iteration_ends_before_a_batch_that_is_cut_off() -> None:
    one = build_batch(RECORDS)
    for cut in range(1, len(one)):
        assert [view.start for view in iter_batches(one + one[:-cut])] == [0]
    assert [view.start for view in iter_batches(one + one)] == [0, len(one)]
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
def test_iteration_refuses_impossible_lengths(length: int) -> None:
    broken = with_field(build_batch(RECORDS), 8, ">i", length)
    with pytest.raises(CorruptBatch):
        list(iter_batches(broken))


def test_iteration_ends_before_a_batch_that_claims_to_be_huge() -> None:
    assert list(iter_batches(with_field(build_batch(RECORDS), 8, ">i", 2**31 - 1))) == []


@pytest.mark.parametrize("magic", [0, 1, 3, 127, -1])
def test_other_formats_are_refused_everywhere(magic: int) -> None:
    batch = with_field(build_batch(RECORDS), 16, ">b", magic)
    for read in (lambda data: list(iter_batches(data)), lambda data: BatchView(data).validate()):
        with pytest.raises(InvalidRecord, match="format"):
            read(batch)
    # As Apache does: an older format is not served, a newer one cannot be.
    with pytest.raises(InvalidRecord if magic in (0, 1) else CorruptBatch, match=r"format|magic"):
        parse_produced(batch)


def test_damage_anywhere_behind_the_checksum_is_found() -> None:
    batch = build_batch(RECORDS)
    for at in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[at] ^= 0x10
        with pytest.raises(CorruptBatch, match="checksum"):
            parse_produced(damaged)
        with pytest.raises(CorruptBatch, match="checksum"):
            BatchView(damaged).validate()
        assert not BatchView(damaged).crc_is_valid()


@pytest.mark.parametrize(
    ("at", "layout", "value", "error"),
    [
        pytest.param(57, ">i", 0, InvalidRecord, id="no records"),
        pytest.param(57, ">i", -1, InvalidRecord, id="negative count"),
        pytest.param(57, ">i", 4, InvalidRecord, id="count against last offset delta"),
        pytest.param(23, ">i", -1, InvalidRecord, id="negative last offset delta"),
        pytest.param(21, ">h", 0x20, InvalidRecord, id="control batch"),
        pytest.param(21, ">h", 5, UnsupportedCompression, id="codec 5"),
        pytest.param(21, ">h", 7, UnsupportedCompression, id="codec 7"),
        pytest.param(43, ">q", 9, InvalidRecord, id="producer without a sequence"),
        pytest.param(8, ">i", -1, CorruptBatch, id="negative length"),
        pytest.param(8, ">i", 13, CorruptBatch, id="tiny length"),
        pytest.param(8, ">i", 48, CorruptBatch, id="length below a header"),
        pytest.param(8, ">i", 10_000, InvalidRecord, id="batch cut off"),
        pytest.param(8, ">i", 49, InvalidRecord, id="bytes after the batch"),
    ],
)
def test_produced_batch_that_breaks_a_rule_is_refused(
    at: int, layout: str, value: int, error: type[RecordsError]
) -> None:
    with pytest.raises(error):
        parse_produced(with_field(build_batch(RECORDS), at, layout, value))


def test_produced_payload_is_exactly_one_batch() -> None:
    batch = build_batch(RECORDS)
    assert parse_produced(batch).record_count == 3
    for payload in (b"", batch + batch, batch + b"\x00", *(batch[:cut] for cut in range(1, len(batch)))):
        with pytest.raises(InvalidRecord):
            parse_produced(payload)


def test_client_cannot_write_a_transaction_marker() -> None:
    marker = end_transaction_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    with pytest.raises(InvalidRecord):
        parse_produced(marker)


def test_validate_refuses_what_no_log_may_hold() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(CorruptBatch):
        BatchView(batch[:-1]).validate()
    with pytest.raises(InvalidRecord):
        BatchView(with_field(batch, 23, ">i", -5)).validate()
    with pytest.raises(UnsupportedCompression):
        BatchView(with_field(batch, 21, ">h", 6)).validate()


def test_patched_header_moves_the_batch_and_keeps_the_checksum() -> None:
    view = BatchView(b"...." + build_batch(RECORDS), 4)
    stored = patch_header(view, 1234, 56) + view.bytes_after_patch
    moved = parse_produced(stored)
    assert (moved.base_offset, moved.partition_leader_epoch, moved.size) == (1234, 56, view.size)
    assert [record.offset for record in moved.records()] == [1234, 1235, 1236]


@pytest.mark.parametrize("codec", Codec)
def test_append_time_replaces_every_timestamp(codec: Codec) -> None:
    view = BatchView(b"." + build_batch(RECORDS, codec=codec), 1)
    stamped = parse_produced(with_log_append_time(view, NOW_MS + 99))
    assert stamped.is_log_append_time
    assert stamped.codec is codec
    assert stamped.max_timestamp == stamped.log_append_timestamp == NOW_MS + 99
    assert {record.timestamp_ms for record in stamped.records()} == {NOW_MS + 99}
    assert stamped.base_timestamp == NOW_MS


def test_maximum_timestamp_is_put_right() -> None:
    lying = build_batch(RECORDS, max_timestamp=NOW_MS + 1_000_000)
    corrected = with_max_timestamp(BatchView(lying), NOW_MS + 5)
    assert corrected == build_batch(RECORDS)
    assert with_max_timestamp(BatchView(with_log_append_time(BatchView(lying), 1)), NOW_MS + 5) == corrected


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_a_batch_with_another_codec_is_the_one_built_with_it(source: Codec, target: Codec) -> None:
    before, after = (
        build_batch(RECORDS, codec=codec, producer_id=4, producer_epoch=2, base_sequence=9, base_offset=12)
        for codec in (source, target)
    )
    view = BatchView(b"..." + before, 3)
    assert with_codec(view, view.uncompressed_body(), target) == after


def test_a_batch_with_another_codec_keeps_its_marks_but_the_cleaners() -> None:
    batch = build_batch(RECORDS, is_transactional=True, log_append_time_ms=NOW_MS, delete_horizon_ms=NOW_MS)
    view = BatchView(batch)
    assert BatchView(with_codec(view, view.body, Codec.ZSTD, 9)).attributes == 0x10 | 0x08 | Codec.ZSTD
