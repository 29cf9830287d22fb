"""Records as consumers get them, one by one from both kernels and as columns of several partitions."""

import gc
import sys
from datetime import UTC, datetime
from types import ModuleType

import pyarrow as pa
import pytest

from levada.records import (
    BatchView,
    Codec,
    ConsumerRecord,
    CorruptBatch,
    DecompressedTooLarge,
    _kernel,
    arrow,
    build_batch,
    kernel,
    pure,
)
from levada.records.arrow import CONSUMER_SCHEMA, PartitionBatches, decode_arrow_partitions
from levada.records.record import Header

KERNELS = [pytest.param(_kernel, id="compiled"), pytest.param(pure, id="pure")]
RECORDS: list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]] = [
    (1000, b"key", b"value", ()),
    (1000, None, b"value", (("one", b"1"), ("zwölf", None), ("", b""))),
    (1002, b"", None, ()),
    (999, None, None, (("two", b"2"),)),
]


@pytest.fixture(params=KERNELS)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Either kernel, with the Arrow reader upon it."""
    found: ModuleType = request.param
    for name in ("data_of_runs", "decode_columns", "ends_of_runs", "skip_below"):
        monkeypatch.setattr(arrow, name, getattr(found, name))
    return found


@pytest.mark.parametrize("append_time", [None, 5000])
def test_a_record_says_where_it_came_from(twin: ModuleType, append_time: int | None) -> None:
    body = kernel.encode(RECORDS, 1000)
    found = twin.decode_for_consumer(body, len(RECORDS), 70, 1000, append_time, "topic", 3, 12)
    assert found == [
        ConsumerRecord(
            topic="topic",
            partition=3,
            offset=70 + index,
            timestamp_ms=time if append_time is None else append_time,
            timestamp_type=0 if append_time is None else 1,
            key=key,
            value=value,
            headers=headers,
            leader_epoch=12,
        )
        for index, (time, key, value, headers) in enumerate(RECORDS)
    ]
    assert all(type(record) is ConsumerRecord for record in found)
    assert found[0]._replace(offset=4).offset == 4
    assert hash(found[0]) == hash(tuple(found[0]))
    assert twin.decode_for_consumer(b"", 0, 0, 0, None, "topic", 0, None) == []


def test_a_damaged_section_gives_no_records(twin: ModuleType) -> None:
    body = kernel.encode(RECORDS, 1000)
    for damaged, count in ((body[:-1], 4), (body + b"\0", 4), (body, 3), (body, 5), (body, -1)):
        with pytest.raises(CorruptBatch):
            twin.decode_for_consumer(damaged, count, 0, 0, None, "topic", 0, None)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_hands_out_its_records(codec: Codec) -> None:
    view = BatchView(build_batch(RECORDS, base_offset=40, codec=codec, partition_leader_epoch=7))
    found = view.consumer_records("topic", 5)
    assert [(record.offset, *record[3:4], *record[5:8]) for record in found] == view.records()
    assert {record[:2] + record[4:5] + record[8:] for record in found} == {("topic", 5, 0, 7)}
    unknown = BatchView(build_batch(RECORDS, log_append_time_ms=8)).consumer_records("topic", 5)
    assert {(record.leader_epoch, record.timestamp_type, record.timestamp_ms) for record in unknown} == {(None, 1, 8)}
    with pytest.raises(DecompressedTooLarge):
        view.consumer_records("topic", 5, 10)


def test_records_below_an_offset_are_skipped(twin: ModuleType) -> None:
    body = kernel.encode(RECORDS, 1000, [2, 5, 6, 300])
    sizes = [len(kernel.encode(RECORDS[:count], 1000, [2, 5, 6, 300][:count])) for count in range(5)]
    wanted = {-1: 0, 0: 0, 2: 0, 3: 1, 5: 1, 6: 2, 7: 3, 300: 3, 301: 4, 2**40: 4}
    for offset_delta, skipped in wanted.items():
        assert twin.skip_below(body, 4, offset_delta) == (skipped, sizes[skipped])
    assert twin.skip_below(b"", 0, 5) == (0, 0)
    with pytest.raises(CorruptBatch):
        twin.skip_below(body[:10], 1, 2**40)
    with pytest.raises(CorruptBatch):
        twin.skip_below(body, 1000, 0)


def test_runs_of_rows_have_their_ends(twin: ModuleType) -> None:
    runs = [(2, 3), (0, 9), (1, 0), (3, 1)]
    assert list(memoryview(twin.ends_of_runs(runs)).cast("i")) == [0, 3, 6, 6, 7, 8, 9]
    assert twin.ends_of_runs([]) == bytes(4)
    for wrong in ([(1, 2**31)], [(2**20, 2**20)], [(1, 2**30)] * 2, [(-1, 1)], [(1, -1)]):
        with pytest.raises(ValueError):
            twin.ends_of_runs(wrong)


def test_runs_of_rows_have_their_data(twin: ModuleType) -> None:
    runs = [(2, b"abc"), (0, b"xyz"), (1, b""), (3, b"d"), (7, b"ef"), (1, b"end")]
    assert bytes(twin.data_of_runs(runs)) == b"abcabcdddefefefefefefefend"
    assert bytes(twin.data_of_runs([(1_001, b"\xff\x00\x01\x02")])) == b"\xff\x00\x01\x02" * 1_001
    assert bytes(twin.data_of_runs([])) == b""
    with pytest.raises(ValueError):
        twin.data_of_runs([(-1, b"a")])


def rows(table: pa.RecordBatch) -> list[ConsumerRecord]:
    table.validate(full=True)
    assert table.schema == CONSUMER_SCHEMA
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        ConsumerRecord(
            row["topic"],
            row["partition"],
            row["offset"],
            round((row["timestamp"] - epoch).total_seconds() * 1000),
            row["timestampType"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            None,
        )
        for row in table.to_pylist()
    ]


def test_partitions_become_one_table(twin: ModuleType) -> None:
    def batch(base_offset: int, codec: Codec = Codec.NONE, append_time: int | None = None) -> BatchView:
        return BatchView(build_batch(RECORDS, base_offset=base_offset, codec=codec, log_append_time_ms=append_time))

    partitions = [
        PartitionBatches("first", 0, 12, [batch(10), batch(20, Codec.ZSTD), batch(30, append_time=77)]),
        PartitionBatches("first", 1, 0, []),
        PartitionBatches("größer", 2, 103, [batch(100, Codec.LZ4)]),
        PartitionBatches("größer", 3, 104, [batch(100)]),
        PartitionBatches("größer", 4, 0, [batch(0, append_time=5)]),
    ]
    expected = [
        record
        for topic, partition, first_offset, batches in partitions
        for view in batches
        for record in view.consumer_records(topic, partition)
        if record.offset >= first_offset
    ]
    found = decode_arrow_partitions(partitions)
    assert rows(found) == expected
    assert found.num_rows == 2 + 4 + 4 + 1 + 0 + 4
    assert rows(decode_arrow_partitions([])) == []


def test_the_bound_covers_all_partitions_together(twin: ModuleType) -> None:
    view = BatchView(build_batch([(0, None, bytes(100_000), ())], codec=Codec.ZSTD))
    partitions = [PartitionBatches("topic", number, 0, [view]) for number in range(2)]
    assert decode_arrow_partitions(partitions, 200_100).num_rows == 2
    with pytest.raises(DecompressedTooLarge):
        decode_arrow_partitions(partitions, 199_999)


def test_compiled_consumer_records_cost_the_collector_nothing() -> None:
    body = kernel.encode(RECORDS * 10, 1000)
    topic = "".join(["to", "pic"])
    references = sys.getrefcount(topic)
    records = _kernel.decode_for_consumer(body, 40, 0, 1000, None, topic, 0, None)
    assert not any(gc.is_tracked(record) or gc.is_tracked(record.headers) for record in records)
    gc.collect()
    assert sys.getrefcount(topic) == references + 40
    del records
    for _ in range(50):
        with pytest.raises(CorruptBatch):
            _kernel.decode_for_consumer(body + b"\0", 40, 0, 1000, None, topic, 0, None)
    assert sys.getrefcount(topic) == references
