"""What both kernels refuse, report and write, record by record."""

import gc
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.records import BatchView, Codec, CorruptBatch, Record, _kernel, build_batch, pure
from levada.records.batch import HEADER_SIZE
from levada.records.record import RecordInput, RecordSection, Scan
from levada.records.varint import encode_varint, encode_varlong

KERNELS = [pytest.param(_kernel, id="compiled"), pytest.param(pure, id="pure")]
MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

# length 6, attributes, timestamp delta, offset delta, null key, null value, no headers
EMPTY = bytes([12, 0, 0, 0, 1, 1, 0])


def record_bytes(*fields: bytes, length: int | None = None) -> bytes:
    inside = b"".join(fields)
    return encode_varint(len(inside) if length is None else length) + inside


def read_all(kernel: ModuleType, body: bytes, count: int) -> None:
    """Run every reader; each must refuse on its own."""
    raised = 0
    readers: list[Callable[[], object]] = [
        lambda: kernel.scan(body, count),
        lambda: kernel.decode(body, count, 0, 0, None),
        lambda: kernel.decode(body, count, 0, 0, 5),
        lambda: kernel.decode_for_consumer(body, count, 0, 0, None, "topic", 0, None),
        lambda: kernel.decode_columns([RecordSection(body, count, 0, 0, None)]),
    ]
    for read in readers:
        try:
            read()
        except CorruptBatch:
            raised += 1
    assert raised in (0, len(readers)), "the readers disagree"
    if raised:
        raise CorruptBatch


MALFORMED = {
    "too few records": (EMPTY, 2),
    "too many records": (EMPTY * 3, 2),
    "no count for the bytes": (EMPTY, 0),
    "negative count": (EMPTY, -1),
    "count of two billion": (EMPTY, 2**31 - 1),
    "bytes for no record": (b"", 1),
    "trailing byte": (EMPTY + b"\x00", 1),
    "negative record length": (b"\x0b" + EMPTY[1:], 1),
    "record length 0": (b"\x00" * 7, 1),
    "record length too small": (b"\x0a" + EMPTY[1:], 1),
    "record length too large": (b"\x0e" + EMPTY[1:], 1),
    "record longer than its fields": (record_bytes(EMPTY[1:], b"\x00"), 1),
    "record shorter than its fields": (record_bytes(EMPTY[1:], length=5) + EMPTY, 2),
    "record length of 2 GiB": (encode_varint(2**31 - 1) + EMPTY, 1),
    "overlong record length": (b"\x80\x80\x80\x80\x80\x00" + EMPTY, 1),
    "overlong timestamp": (record_bytes(b"\x00", b"\x80" * 10 + b"\x00", EMPTY[3:]), 1),
    "overlong offset": (record_bytes(b"\x00\x00", b"\x80" * 5 + b"\x00", EMPTY[4:]), 1),
    "key length -2": (record_bytes(b"\x00\x00\x00", b"\x03", b"\x01\x00"), 1),
    "key beyond the record": (record_bytes(b"\x00\x00\x00", b"\x08", b"\x01\x00") + EMPTY, 2),
    "key of 2 GiB": (record_bytes(b"\x00\x00\x00", encode_varint(2**31 - 1), b"\x01\x00"), 1),
    "value length -2": (record_bytes(b"\x00\x00\x00\x01", b"\x03", b"\x00"), 1),
    "value beyond the record": (record_bytes(b"\x00\x00\x00\x01", b"\x04", b"\x00") + EMPTY, 2),
    "negative header count": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x01"), 1),
    "header count of 2 billion": (record_bytes(b"\x00\x00\x00\x01\x01", encode_varint(2**31 - 1)), 1),
    "header missing": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x02"), 1),
    "header cut off": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x02", b"\x02a"), 1),
    "null header key": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x02", b"\x01\x01"), 1),
    "header key beyond the record": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x02", b"\x06a\x01"), 1),
    "header value length -2": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x02", b"\x02a\x03"), 1),
    "header value beyond the record": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x02", b"\x02a\x06x") + EMPTY, 2),
    "byte after the headers": (record_bytes(b"\x00\x00\x00\x01\x01", b"\x02", b"\x02a\x01", b"\x00"), 1),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_body_is_corrupt(kernel: ModuleType, name: str) -> None:
    body, count = MALFORMED[name]
    with pytest.raises(CorruptBatch):
        read_all(kernel, body, count)
    # A bad record behind a good one, too.
    with pytest.raises(CorruptBatch):
        read_all(kernel, EMPTY + body, count + 1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", [b"\xff", b"a\xc3", b"\xed\xa0\x80", "ü".encode()])
def test_header_keys_may_be_any_bytes_and_read_as_text(kernel: ModuleType, name: bytes) -> None:
    body = record_bytes(b"\x00\x00\x00\x01\x01", b"\x02", encode_varint(len(name)), name, b"\x01")
    expected = name.decode(errors="replace")
    assert kernel.scan(body, 1).record_count == 1
    [record] = kernel.decode(body, 1, 0, 0, None)
    assert record.headers == ((expected, None),)
    assert kernel.decode_columns([(body, 1, 0, 0, None)]).header_key_data == expected.encode()


@pytest.mark.parametrize("kernel", KERNELS)
def test_well_formed_body_is_not(kernel: ModuleType) -> None:
    read_all(kernel, EMPTY * 3, 3)
    read_all(kernel, b"", 0)
    # Apache reads any attributes byte and varints that are longer than they need be.
    read_all(kernel, record_bytes(b"\xff\x80\x00\x80\x80\x00\x81\x00\x81\x80\x00\x80\x00"), 1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_bits_beyond_a_java_number_are_dropped(kernel: ModuleType) -> None:
    body = record_bytes(b"\x00", b"\x80" * 9 + b"\x7f", b"\x80" * 4 + b"\x7f", EMPTY[4:])
    found = kernel.scan(body, 1)
    assert found.max_timestamp_delta == 2**62
    assert found.last_offset_delta == 0xF0000000 >> 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_scan_sums_up(kernel: ModuleType) -> None:
    records: list[RecordInput] = [(10, b"k", b"v", ()), (12, None, b"v", ()), (12, b"k", None, ()), (9, None, None, ())]
    body = kernel.encode(records, 10)
    assert kernel.scan(body, 4) == (4, 0, 3, True, -1, 2, 1, 2)
    gaps = kernel.encode(records, 100, [5, 6, 9, 7])
    assert kernel.scan(gaps, 4) == (4, 5, 7, False, -91, -88, 1, 2)
    assert kernel.scan(kernel.encode(records, 10, [0, 1, 2, 4]), 4).is_consecutive is False
    assert kernel.scan(b"", 0) == (0, 0, -1, True, 0, 0, -1, 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_timestamps_on_one_side_of_the_base_have_their_extremes(kernel: ModuleType) -> None:
    for side in (MIN_INT64, MAX_INT64):
        body = kernel.encode([(side, None, None, ()), (side, None, None, ())], 0)
        assert kernel.scan(body, 2)[4:7] == (side, side, 0)
    body = kernel.encode([(9, None, None, ()), (7, None, None, ()), (8, None, None, ())], 0)
    assert kernel.scan(body, 3)[4:7] == (7, 9, 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_times_of_a_plain_batch_are_those_that_a_scan_finds(kernel: ModuleType) -> None:
    for times in ([0], [5, 9, 2], [-1, 3, -1], [0, MAX_INT64]):
        batch = build_batch([(time, b"k", b"v", [("name", b"x")]) for time in times])
        view = BatchView(batch)
        found = kernel.scan(batch[HEADER_SIZE:], len(times))
        range_found = (view.base_timestamp + found.min_timestamp_delta, view.base_timestamp + found.max_timestamp_delta)
        assert range_found == (min(times), max(times))
        for plain in (kernel.plain_batch(batch), kernel.plain_batch_of_producer(batch)):
            assert plain[2:] == range_found


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_batch_with_a_damaged_record_is_not_plain(kernel: ModuleType) -> None:
    header = build_batch([(0, None, None, ())])[:HEADER_SIZE]
    for damaged in (EMPTY[:-1], EMPTY + b"x", EMPTY + EMPTY, b""):
        batch = bytearray(header + damaged)
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        assert kernel.plain_batch(batch) is None
        assert kernel.plain_batch_of_producer(batch) is None


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_plain_batch_is_told_from_all_others(kernel: ModuleType) -> None:
    records: list[RecordInput] = [(10, None, b"v", ()), (12, b"k", None, ()), (9, None, None, ())]
    good = build_batch(records)
    assert kernel.plain_batch(good) == (BatchView(good).crc, 2, 9, 12)
    assert kernel.plain_batch(build_batch([(-1, None, None, ())])) is not None
    others = [
        build_batch(records, base_offset=1),
        build_batch(records, codec=Codec.GZIP),
        build_batch(records, producer_id=0, producer_epoch=0, base_sequence=0),
        build_batch(records, log_append_time_ms=12),
        build_batch(records, is_control=True),
        build_batch(records, max_timestamp=13),
        build_batch(records, last_offset_delta=3),
        build_batch([(-2, None, None, ())]),
        good[:-1],
        good + b"\0",
        good[:60],
        b"",
    ]
    assert [kernel.plain_batch(other) for other in others] == [None] * len(others)
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    of_producers = [
        build_batch(records, **producer),
        build_batch(records, is_transactional=True, **producer),
    ]
    for batch in of_producers:
        assert kernel.plain_batch_of_producer(batch) == (BatchView(batch).crc, 2, 9, 12)
        assert kernel.plain_batch(batch) is None
    assert kernel.plain_batch_of_producer(good) == kernel.plain_batch(good)
    of_none = [other for other in others if not (len(other) > 61 and BatchView(other).producer_id == 0)]
    assert len(of_none) == len(others) - 1
    assert [kernel.plain_batch_of_producer(other) for other in of_none] == [None] * len(of_none)


@given(st.binary(min_size=61, max_size=90), st.integers(0, 89), st.integers(0, 255))
def test_both_kernels_agree_on_what_is_plain(noise: bytes, at: int, byte: int) -> None:
    damaged = bytearray(build_batch([(10, None, b"value", ()), (12, b"k", None, ())]))
    damaged[at % len(damaged)] = byte
    for data in (noise, damaged, damaged + noise):
        answers = {repr((kernel.plain_batch(data), kernel.plain_batch_of_producer(data))) for kernel in (_kernel, pure)}
        answers_on_extents = {repr(kernel.extents(data)) for kernel in (_kernel, pure)}
        assert len(answers) == len(answers_on_extents) == 1


@pytest.mark.parametrize("kernel", KERNELS)
def test_extents_are_of_whole_batches_that_follow_one_another(kernel: ModuleType) -> None:
    one, two = (build_batch([(0, None, b"v", ())] * count, base_offset=count) for count in (2, 9))
    first, second = len(one), len(one) + len(two)
    assert kernel.extents(one + two) == (2, [0, first, second], [3, 17])
    assert kernel.extents(one + two[:-1]) == (2, [0, first], [3])
    assert kernel.extents(one + one) == (2, [0, first], [3])
    assert kernel.extents(two[:61]) == kernel.extents(b"") == (0, [0], [])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_scan_is_of_the_shared_type(kernel: ModuleType) -> None:
    found = kernel.scan(EMPTY * 2, 2)
    assert type(found) is Scan
    assert found.null_key_count == 2
    assert found._replace(record_count=5).record_count == 5


@pytest.mark.parametrize("kernel", KERNELS)
def test_unfit_records_are_found_by_key_and_time(kernel: ModuleType) -> None:
    times = [100, 99, 100, 201, -1, 200, 5]
    keys = [b"", b"k", None, None, b"k", None, b"k"]
    body = kernel.encode([(time, key, b"v", ()) for time, key in zip(times, keys)], 50)
    assert kernel.find_unfit(body, 7, 50, 100, 200, False, 9) == [(1, 99), (3, 201), (6, 5)]
    assert kernel.find_unfit(body, 7, 50, 100, 200, True, 9) == [(1, 99), (2, None), (3, None), (5, None), (6, 5)]
    assert kernel.find_unfit(body, 7, 50, MIN_INT64, MAX_INT64, True, 9) == [(2, None), (3, None), (5, None)]
    assert kernel.find_unfit(body, 7, 50, MIN_INT64, MAX_INT64, False, 9) == []
    assert kernel.find_unfit(body, 7, 50, 100, 200, True, 2) == [(1, 99), (2, None)]
    assert kernel.find_unfit(b"", 0, 0, 0, 0, True, 2) == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_first_record_since_a_time_is_found_from_an_offset_on(kernel: ModuleType) -> None:
    times = [60, 49, 70, 50, 70]
    body = kernel.encode([(time, None, b"", ()) for time in times], 50)
    assert kernel.find_since(body, 5, 100, 50, None, 50, 0) == (100, 60)
    assert kernel.find_since(body, 5, 100, 50, None, 61, 0) == (102, 70)
    assert kernel.find_since(body, 5, 100, 50, None, 50, 103) == (103, 50)
    assert kernel.find_since(body, 5, 100, 50, None, 70, 103) == (104, 70)
    assert kernel.find_since(body, 5, 100, 50, None, 71, 0) is None
    assert kernel.find_since(body, 5, 100, 50, None, 0, 105) is None
    assert kernel.find_since(body, 5, 100, 50, 7, 7, 102) == (102, 7)
    assert kernel.find_since(body, 5, 100, 50, 7, 8, 0) is None
    with pytest.raises(CorruptBatch):
        kernel.find_since(body[:-1], 5, 100, 50, None, 71, 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_unfit_times_wrap_as_java_longs_do(kernel: ModuleType) -> None:
    body = kernel.encode([(1, b"k", None, ())], 0)
    assert kernel.find_unfit(body, 1, MAX_INT64, 0, MAX_INT64, False, 9) == [(0, MIN_INT64)]


@given(
    rows=st.lists(st.tuples(st.integers(-2, 6) | st.integers(MIN_INT64, MAX_INT64), st.none() | st.just(b"k"))),
    base_timestamp=st.integers(-2, 6) | st.integers(MIN_INT64, MAX_INT64),
    earliest_ms=st.integers(-2, 4),
    latest_ms=st.integers(2, 6),
    needs_keys=st.booleans(),
    limit=st.integers(1, 9),
)
def test_both_kernels_find_the_same_unfit_records(
    rows: list[tuple[int, bytes | None]],
    base_timestamp: int,
    earliest_ms: int,
    latest_ms: int,
    needs_keys: bool,
    limit: int,
) -> None:
    body = pure.encode([(time, key, None, ()) for time, key in rows], base_timestamp)
    expected: list[tuple[int, int | None]] = []
    for index, (time, key) in enumerate(rows):
        if needs_keys and key is None:
            expected.append((index, None))
        elif time != -1 and not earliest_ms <= time <= latest_ms:
            expected.append((index, time))
    for kernel in (_kernel, pure):
        found = kernel.find_unfit(body, len(rows), base_timestamp, earliest_ms, latest_ms, needs_keys, limit)
        assert found == expected[:limit]


@pytest.mark.parametrize("kernel", KERNELS)
def test_looking_for_unfit_records_reads_no_further_than_the_body(kernel: ModuleType) -> None:
    for body, count in ((EMPTY, 2), (EMPTY * 2 + EMPTY[:-1] + b"\x02", 3), (EMPTY, 2**31 - 1)):
        with pytest.raises(CorruptBatch):
            kernel.find_unfit(bytearray(body), count, 0, 0, 0, False, 9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_timestamps_and_offsets_wrap_as_java_longs_do(kernel: ModuleType) -> None:
    body = kernel.encode([(MIN_INT64, b"", b"", ())], MAX_INT64)
    assert body[2:3] == encode_varlong(1)
    [record] = kernel.decode(body, 1, 0, MAX_INT64, None)
    assert record.timestamp_ms == MIN_INT64
    body = kernel.encode([(0, None, None, ())] * 2, 0, [0, 2**31 - 1])
    assert [record.offset for record in kernel.decode(body, 2, MAX_INT64, 0, None)] == [
        MAX_INT64,
        MIN_INT64 + 2**31 - 2,
    ]
    columns = kernel.decode_columns([RecordSection(body, 2, MAX_INT64, 0, None)])
    assert list(memoryview(columns.offsets).cast("q")) == [MAX_INT64, MIN_INT64 + 2**31 - 2]


@pytest.mark.parametrize("kernel", KERNELS)
def test_append_time_counts_for_every_record(kernel: ModuleType) -> None:
    body = kernel.encode([(1, None, None, ()), (2, None, None, ())], 0)
    assert [record.timestamp_ms for record in kernel.decode(body, 2, 0, 0, 77)] == [77, 77]
    columns = kernel.decode_columns([RecordSection(body, 2, 0, 0, 77), RecordSection(body, 2, 0, 0, None)])
    assert list(memoryview(columns.timestamps).cast("q")) == [77, 77, 1, 2]


@pytest.mark.parametrize("kernel", KERNELS)
def test_records_are_of_the_shared_type_with_plain_bytes(kernel: ModuleType) -> None:
    body = kernel.encode([(1, bytearray(b"k"), memoryview(b"v"), [("h", None), ("ü", b"x")])], 0)
    [record] = kernel.decode(memoryview(body), 1, 3, 0, None)
    assert type(record) is Record
    assert record == Record(3, 1, b"k", b"v", (("h", None), ("ü", b"x")))
    assert [type(field) for field in record] == [int, int, bytes, bytes, tuple]
    assert record._replace(offset=4).offset == 4
    assert hash(record) == hash(tuple(record))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("record", "error"),
    [
        ((2**63, None, None, ()), OverflowError),
        ((-(2**63) - 1, None, None, ()), OverflowError),
        (("1", None, None, ()), TypeError),
        ((1, 5, None, ()), TypeError),
        ((1, "key", None, ()), TypeError),
        ((1, None, 5, ()), TypeError),
        ((1, None, None, ((b"name", b""),)), (TypeError, AttributeError)),
        ((1, None, None, (("name", 7),)), TypeError),
        ((1, None, None, (("name", "x"),)), TypeError),
        ((1, None, None, (("\ud800", b""),)), UnicodeEncodeError),
        ((1, None, None), ValueError),
        ((1, None, None, (), None), ValueError),
    ],
)
def test_what_cannot_be_written_is_refused(
    kernel: ModuleType, record: object, error: type[Exception] | tuple[type[Exception], ...]
) -> None:
    with pytest.raises(error):
        kernel.encode([(0, b"k", b"v", ()), record], 0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("deltas", [[2**31], [-(2**31) - 1], [0, 1], []])
def test_offset_deltas_are_32_bits_and_one_a_record(kernel: ModuleType, deltas: list[int]) -> None:
    with pytest.raises((OverflowError, ValueError)):
        kernel.encode([(0, None, None, ())], 0, deltas)


@pytest.mark.parametrize("kernel", KERNELS)
def test_large_fields_grow_the_output(kernel: ModuleType) -> None:
    records: list[RecordInput] = [(0, b"k" * 70_000, b"v" * 3_000_000, [("h" * 300, b"x" * 20_000)])] * 3
    body = kernel.encode(records, 0)
    assert [record[1:] for record in kernel.decode(body, 3, 0, 0, None)] == [
        (0, b"k" * 70_000, b"v" * 3_000_000, (("h" * 300, b"x" * 20_000),))
    ] * 3


def test_compiled_records_cost_the_collector_nothing() -> None:
    body = _kernel.encode([(0, b"k", b"v", [("h", b"x")])] * 10, 0)
    records = _kernel.decode(body, 10, 0, 0, None)
    assert not any(gc.is_tracked(record) or gc.is_tracked(record.headers) for record in records)
    gc.collect()
    assert records[9].headers == (("h", b"x"),)


def test_compiled_kernel_leaks_no_references() -> None:
    key, value, name = bytes(bytearray(b"key 1")), bytes(bytearray(b"value")), "".join(["he", "ader"])
    before = [sys.getrefcount(thing) for thing in (key, value, name)]
    records = [(0, key, value, [(name, value)])]
    for _ in range(50):
        body = _kernel.encode(records, 0)
        for broken in (body[:-1], body + b"\x00", body[:9]):
            with pytest.raises(CorruptBatch):
                _kernel.decode(broken, 1, 0, 0, None)
        with pytest.raises(TypeError):
            _kernel.encode(cast(list[RecordInput], [*records, (0, key, 5, ())]), 0)
        _kernel.decode_columns([RecordSection(body, 1, 0, 0, None)])
    del records
    assert [sys.getrefcount(thing) for thing in (key, value, name)] == before


def test_a_failed_read_lets_go_of_the_buffer() -> None:
    body = bytearray(EMPTY[:-1] + b"\x02")
    for read in (
        lambda: _kernel.scan(body, 1),
        lambda: _kernel.find_unfit(body, 1, 0, 0, 0, True, 9),
        lambda: _kernel.decode(body, 1, 0, 0, None),
        lambda: _kernel.decode_columns([RecordSection(body, 1, 0, 0, None)]),
    ):
        with pytest.raises(CorruptBatch):
            read()
    body.append(0)
