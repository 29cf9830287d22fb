"""Batches as Arrow: the same rows as the records have, over the kernel's own buffers."""

from collections.abc import Iterable
from types import ModuleType

import pyarrow as pa
import pytest

from levada.records import (
    BatchView,
    Codec,
    CorruptBatch,
    DecompressedTooLarge,
    Record,
    _kernel,
    build_batch,
    end_transaction_marker,
    iter_batches,
    pure,
)
from levada.records.arrow import CONSUMER_SCHEMA, PartitionBatches, decode_arrow_partitions, to_record_batch
from levada.records.builder import ControlType
from levada.records.compression import MAX_DECOMPRESSED_BYTES
from levada.records.record import RecordInput, RecordSection

RECORDS: list[RecordInput] = [
    (1000, b"key", b"value", ()),
    (1001, None, b"value", [("one", b"1"), ("zwölf", None), ("", b"")]),
    (1002, b"", None, ()),
    (1003, None, None, [("two", b"2")]),
    *((1004 + i, b"k%d" % i, b"v%d" % i, ()) for i in range(20)),
]


def decode_arrow(batches: Iterable[BatchView], max_size: int = MAX_DECOMPRESSED_BYTES) -> pa.RecordBatch:
    data = [batch for batch in batches if not batch.is_control]
    return decode_arrow_partitions([PartitionBatches("orders", 0, 0, data)], max_size)


def rows(table: pa.RecordBatch) -> list[Record]:
    timestamps = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Record(
            row["offset"],
            timestamp,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row, timestamp in zip(table.to_pylist(), timestamps, strict=True)
    ]


@pytest.mark.parametrize("codec", Codec)
def test_rows_equal_records(codec: Codec) -> None:
    view = BatchView(build_batch(RECORDS, base_offset=40, codec=codec))
    table = decode_arrow([view])
    table.validate(full=True)
    assert table.schema == CONSUMER_SCHEMA
    assert rows(table) == view.records()


def test_several_batches_become_one() -> None:
    data = build_batch(RECORDS, base_offset=0, codec=Codec.LZ4)
    data += build_batch(RECORDS, base_offset=100, log_append_time_ms=5000)
    data += build_batch([], base_offset=200)
    data += end_transaction_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0, base_offset=201
    )
    data += build_batch(RECORDS[:3], base_offset=300)
    table = decode_arrow(iter_batches(data))
    table.validate(full=True)
    expected = [record for view in iter_batches(data) if not view.is_control for record in view.records()]
    assert rows(table) == expected
    assert len(expected) == 2 * len(RECORDS) + 3


def test_no_batches_are_an_empty_table() -> None:
    table = decode_arrow([])
    table.validate(full=True)
    assert (table.num_rows, table.schema) == (0, CONSUMER_SCHEMA)


@pytest.mark.parametrize("kernel", [pytest.param(_kernel, id="compiled"), pytest.param(pure, id="pure")])
def test_arrow_reads_the_kernels_buffers_in_place(kernel: ModuleType) -> None:
    columns = kernel.decode_columns([RecordSection(kernel.encode(RECORDS, 1000), len(RECORDS), 0, 1000, None)])
    table = to_record_batch(columns)
    table.validate(full=True)
    data = table.column("value").buffers()[2]
    assert data.address == pa.py_buffer(columns.values.data).address
    assert table.column("offset").buffers()[1].address == pa.py_buffer(columns.offsets).address
    assert table.column("key").null_count == 2
    assert table.column("timestamp").to_pylist() == [record[0] for record in RECORDS]


def test_columns_outlive_the_batch_they_came_from() -> None:
    data = bytearray(build_batch(RECORDS))
    expected = BatchView(data).records()
    table = decode_arrow([BatchView(data)])
    data[:] = bytes(len(data))
    assert rows(table) == expected


def test_bound_covers_all_batches_together() -> None:
    batch = BatchView(build_batch([(0, None, bytes(100_000), ())], codec=Codec.ZSTD))
    assert decode_arrow([batch, batch], 200_100).num_rows == 2
    with pytest.raises(DecompressedTooLarge):
        decode_arrow([batch, batch], 199_999)


def test_damaged_batch_is_corrupt() -> None:
    data = bytearray(build_batch(RECORDS))
    data[61] ^= 0x40
    with pytest.raises(CorruptBatch):
        decode_arrow([BatchView(data)])
