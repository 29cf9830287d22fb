"""Both batch writers against each other and against the builder, on records that hypothesis makes up."""

from array import array
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levada.model import hashes
from levada.records import (
    BatchView,
    Codec,
    CorruptBatch,
    RecordInput,
    _kernel,
    _writer,
    build_batch,
    pure,
    pure_writer,
)
from levada.records.arrow_writer import arrow_records

TWINS = [pytest.param(_writer, id="compiled"), pytest.param(pure_writer, id="pure")]
BOTH: tuple[ModuleType, ModuleType] = (_writer, pure_writer)
PRODUCER: dict[str, Any] = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 70, "is_transactional": True}

INT64 = st.integers(-(2**63), 2**63 - 1)
BLOBS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), BLOBS), max_size=4).map(tuple)
TIMES = INT64 | st.integers(1_700_000_000_000, 1_700_000_100_000)
RECORDS = st.lists(st.tuples(TIMES, BLOBS, BLOBS, HEADERS), min_size=1, max_size=30)


@pytest.mark.parametrize("twin", TWINS)
@given(records=RECORDS, codec=st.sampled_from(Codec))
def test_a_writer_equals_the_builder(twin: ModuleType, records: list[RecordInput], codec: Codec) -> None:
    writer = twin.BatchWriter(1 << 20)
    assert [writer.append(*record) for record in records] == list(range(len(records)))
    assert writer.records() == records
    expected = build_batch(
        records, codec=codec, producer_id=9, producer_epoch=3, base_sequence=70, is_transactional=True
    )
    assert writer.seal(**PRODUCER, codec=codec) == expected
    assert writer.records() == records


@given(records=RECORDS, capacity=st.integers(1, 3000))
def test_writers_fill_up_alike(records: list[RecordInput], capacity: int) -> None:
    batches = []
    for twin in BOTH:
        writers = [twin.BatchWriter(capacity)]
        for record in records:
            if writers[-1].append(*record) < 0:
                writers.append(twin.BatchWriter(capacity))
                assert writers[-1].append(*record) == 0
        assert all(writer.size <= capacity or writer.count == 1 for writer in writers)
        assert [record for writer in writers for record in writer.records()] == records
        batches.append([bytes(writer.seal(**PRODUCER)) for writer in writers])
    assert batches[0] == batches[1]


@given(
    rows=st.lists(st.tuples(BLOBS, BLOBS, st.integers(0, 3)), max_size=40),
    capacity=st.integers(1, 1500),
    missing=st.integers(0, 4),
    has_keys=st.booleans(),
)
def test_rows_of_lists_are_written_alike(
    rows: list[tuple[bytes | None, bytes | None, int]], capacity: int, missing: int, has_keys: bool
) -> None:
    keys = [row[0] for row in rows] if has_keys else None
    values = [row[1] for row in rows]
    partitions = array("i", [row[2] for row in rows])
    traces = []
    for twin in BOTH:
        writers: list[Any] = [None if number == missing else twin.BatchWriter(capacity) for number in range(4)]
        full: list[Any] = []
        trace: list[int] = []
        row = 0
        while row < len(rows):
            row = twin.write_lists(writers, partitions, 1000 + row, keys, values, row, len(rows))
            trace.append(row)
            if row < len(rows):
                full.append(writers[partitions[row]])
                writers[partitions[row]] = twin.BatchWriter(capacity)
        batches = [bytes(writer.seal(**PRODUCER)) for writer in (*full, *writers) if writer and writer.count]
        traces.append((trace, batches))
    assert traces[0] == traces[1]
    written = sorted(
        (record.key or b"", record.value or b"") for batch in traces[0][1] for record in BatchView(batch).records()
    )
    assert written == sorted((key or b"" if has_keys else b"", value or b"") for key, value, _ in rows)


@given(records=RECORDS, slices=st.tuples(st.integers(0, 30), st.integers(0, 30)), is_large=st.booleans())
@example(records=[(0, None, None, ())] * 17, slices=(9, 3), is_large=False)
def test_rows_of_arrow_are_written_alike(records: list[RecordInput], slices: tuple[int, int], is_large: bool) -> None:
    times, keys, values, headers = zip(*records)
    binary = pa.large_binary() if is_large else pa.binary()
    header = pa.struct([("key", pa.utf8()), ("value", binary)])
    whole = pa.record_batch(
        {
            "timestamp": pa.array(times, pa.int64()),
            "key": pa.array(keys, binary),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers, pa.large_list(header) if is_large else pa.list_(header)),
        }
    )
    source, _ = arrow_records(whole.slice(*slices), 0)
    expected = records[slices[0] : slices[0] + slices[1]]
    for twin in BOTH:
        columns = twin.RecordColumns(source)
        writer = twin.BatchWriter(1 << 20)
        assert twin.write_columns([writer], None, columns, 0, len(expected)) == len(expected)
        assert writer.records() == expected
        found = [-1 if record[1] is None else hashes.partition_for_key(record[1], 7) for record in expected]
        assert list(twin.partitions_of_columns(columns, 7)) == found
        assert list(twin.partitions_of_list([record[1] for record in expected], 7)) == found


@given(data=st.binary(max_size=70))
def test_the_hash_of_a_key_is_the_models(data: bytes) -> None:
    assert _writer.murmur2(data) == _writer.murmur2(memoryview(data)) == hashes.murmur2(data)


@given(
    records=RECORDS,
    offset_delta=st.integers(-5, 70),
    at=st.integers(0, 10_000),
    byte=st.integers(0, 255),
    noise=st.binary(max_size=60),
)
def test_both_kernels_skip_alike(
    records: list[RecordInput], offset_delta: int, at: int, byte: int, noise: bytes
) -> None:
    whole = pure.encode(records, 0, [2 * index for index in range(len(records))])
    damaged = bytearray(whole)
    damaged[at % len(damaged)] = byte
    for data in (whole, bytes(damaged), whole + noise, whole[: at % len(whole)], noise):
        assert skip(_kernel, data, len(records), offset_delta) == skip(pure, data, len(records), offset_delta)


def skip(kernel: ModuleType, data: bytes, count: int, offset_delta: int) -> tuple[int, int] | None:
    try:
        answer: tuple[int, int] = kernel.skip_below(data, count, offset_delta)
    except CorruptBatch:
        return None
    return answer
