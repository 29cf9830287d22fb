"""Both kernels against each other and against themselves, on records that hypothesis makes up."""

from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from levada.records import (
    BatchView,
    Codec,
    ConsumerRecord,
    CorruptBatch,
    Record,
    RecordsError,
    _kernel,
    build_batch,
    iter_batches,
    parse_produced,
    pure,
)
from levada.records.arrow import to_record_batch
from levada.records.record import Columns, RecordInput, RecordSection, Scan

KERNELS = [pytest.param(_kernel, id="compiled"), pytest.param(pure, id="pure")]

INT64 = st.integers(-(2**63), 2**63 - 1)
BLOBS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), BLOBS), max_size=4).map(tuple)
TIMES = INT64 | st.integers(1_700_000_000_000, 1_700_000_100_000)
RECORD = st.tuples(TIMES, BLOBS, BLOBS, HEADERS)
RECORDS = st.lists(RECORD, max_size=20)
SMALL_BODIES = st.lists(
    st.tuples(st.integers(0, 300), st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=5), HEADERS),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("kernel", KERNELS)
@given(records=RECORDS, base_offset=INT64, base_timestamp=TIMES)
def test_what_is_written_reads_back(
    kernel: ModuleType, records: list[RecordInput], base_offset: int, base_timestamp: int
) -> None:
    body = kernel.encode(records, base_timestamp)
    found = kernel.decode(body, len(records), base_offset, base_timestamp, None)
    assert [record[1:] for record in found] == records
    assert [record.offset for record in found] == [
        (base_offset + index + 2**63) % 2**64 - 2**63 for index in range(len(records))
    ]


@pytest.mark.parametrize("kernel", KERNELS)
@given(records=RECORDS, base_timestamp=TIMES, append_time=st.none() | INT64)
def test_columns_hold_what_records_do(
    kernel: ModuleType, records: list[RecordInput], base_timestamp: int, append_time: int | None
) -> None:
    body = kernel.encode(records, base_timestamp)
    table = to_record_batch(
        kernel.decode_columns([RecordSection(body, len(records), 7, base_timestamp, append_time)] * 2)
    )
    table.validate(full=True)
    rows = [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in table.to_pylist()
    ]
    assert rows == kernel.decode(body, len(records), 7, base_timestamp, append_time) * 2


@given(
    records=RECORDS,
    base_timestamp=TIMES,
    append_time=st.none() | INT64,
    data=st.data(),
)
def test_kernel_equals_twin_on_valid_records(
    records: list[RecordInput], base_timestamp: int, append_time: int | None, data: st.DataObject
) -> None:
    size = len(records)
    deltas = data.draw(st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), min_size=size, max_size=size))
    body = _kernel.encode(records, base_timestamp, deltas)
    assert body == pure.encode(records, base_timestamp, deltas)
    assert outcome(_kernel, body, size, base_timestamp, append_time) == outcome(
        pure, body, size, base_timestamp, append_time
    )


@settings(max_examples=400)
@given(records=SMALL_BODIES, data=st.data())
def test_kernel_equals_twin_on_damaged_bodies(records: list[RecordInput], data: st.DataObject) -> None:
    body = bytearray(pure.encode(records, 0))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    count = len(records) + data.draw(st.sampled_from((0, 0, 0, 1, -1)))
    assert_agreement(bytes(body), count)


@settings(max_examples=100)
@given(records=SMALL_BODIES)
def test_kernel_equals_twin_on_every_truncation(records: list[RecordInput]) -> None:
    body = pure.encode(records, 0)
    for cut in range(len(body)):
        assert_agreement(body[:cut], len(records))
    assert_agreement(body + b"\x00", len(records))


@settings(max_examples=400)
@given(body=st.binary(max_size=80), count=st.integers(-1, 12))
@example(body=bytes([12, 0, 0, 0, 1, 1, 0]), count=1)
def test_kernel_equals_twin_on_noise(body: bytes, count: int) -> None:
    assert_agreement(body, count)


@settings(max_examples=300)
@given(
    fields=st.lists(
        st.tuples(
            *[st.sampled_from((0, 1, 2, 3, 4, 5, 6, 0x7F, 0x80, 0x81, 0x82, 0xFF)) for _ in range(8)],
        ),
        max_size=3,
    )
)
def test_kernel_equals_twin_on_noise_that_resembles_records(fields: list[tuple[int, ...]]) -> None:
    body = b"".join(bytes([2 * len(field)]) + bytes(field) for field in fields)
    assert_agreement(body, len(fields))


@given(
    records=st.lists(RECORD, min_size=1, max_size=10),
    codec=st.sampled_from(Codec),
    base_offset=st.integers(0, 2**62),
    split=st.integers(0, 500),
)
def test_batches_survive_every_codec_and_cut(
    records: list[RecordInput], codec: Codec, base_offset: int, split: int
) -> None:
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    view = parse_produced(batch)
    assert [record[1:] for record in view.records()] == records
    assert view.max_timestamp == max(record[0] for record in records)
    tail = batch[: min(split, len(batch) - 1)]
    assert [found.records() for found in iter_batches(batch + batch + tail)] == [view.records()] * 2


@settings(max_examples=300)
@given(data=st.data(), codec=st.sampled_from(Codec))
def test_damaged_batches_raise_only_named_errors(data: st.DataObject, codec: Codec) -> None:
    batch = bytearray(build_batch([(1, b"key", b"value" * 20, [("header", b"x")])] * 3, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    view = BatchView(batch)
    readers: list[Callable[[], object]] = [lambda: parse_produced(batch), view.validate, view.records]
    for read in readers:
        with suppress(RecordsError):
            read()


def outcome(
    kernel: ModuleType, body: bytes, count: int, base_timestamp: int = 0, append_time: int | None = None
) -> tuple[Scan | None, list[Record] | None, Columns | None, list[ConsumerRecord] | None]:
    """What the four readers say, with None for a refusal; any other exception fails the test."""
    readers: list[Callable[[], Any]] = [
        lambda: kernel.scan(body, count),
        lambda: kernel.decode(body, count, 2**40, base_timestamp, append_time),
        lambda: kernel.decode_columns([RecordSection(body, count, 2**40, base_timestamp, append_time)]),
        lambda: kernel.decode_for_consumer(body, count, 2**40, base_timestamp, append_time, "topic", 3, None),
    ]
    results = []
    for read in readers:
        try:
            results.append(read())
        except CorruptBatch:
            results.append(None)
    return results[0], results[1], results[2], results[3]


def assert_agreement(body: bytes, count: int) -> None:
    compiled = outcome(_kernel, body, count)
    assert compiled == outcome(pure, body, count)
    assert len({result is None for result in compiled}) == 1
