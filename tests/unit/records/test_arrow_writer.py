"""Arrow batches as records to be written: what fits is taken where it lies, what does not is refused by name."""

from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from levada.records import RecordInput, _writer, pure_writer
from levada.records.arrow import PartitionBatches, decode_arrow_partitions
from levada.records.arrow_writer import arrow_records
from levada.records.batch import BatchView
from levada.records.sources import RecordSource

TWINS = [pytest.param(_writer, id="compiled"), pytest.param(pure_writer, id="pure")]
HEADERS = pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))


def written(twin: ModuleType, source: RecordSource) -> list[RecordInput]:
    columns = twin.RecordColumns(source)
    writer = twin.BatchWriter(1 << 20)
    assert twin.write_columns([writer], None, columns, 0, columns.row_count) == columns.row_count
    records: list[RecordInput] = writer.records()
    return records


def everything() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([b"a", None, b"", b"d"]),
            "value": pa.array(["eins", "zwölf", None, ""]),
            "headers": pa.array(
                [[("one", b"1"), ("zwei", None)], None, [], [("", b"")]],
                pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())])),
            ),
            "timestamp": pa.array([5, None, -7, 2**50], pa.int64()),
            "partition": pa.array([3, None, 0, 1], pa.int32()),
        }
    )


ROWS = [
    (5, b"a", b"eins", (("one", b"1"), ("zwei", None))),
    (99, None, "zwölf".encode(), ()),
    (-7, b"", None, ()),
    (2**50, b"d", b"", (("", b""),)),
]


@pytest.mark.parametrize("twin", TWINS)
def test_every_slice_of_a_batch_is_its_rows(twin: ModuleType) -> None:
    whole = everything()
    for start in range(5):
        for stop in range(start, 5):
            source, partitions = arrow_records(whole.slice(start, stop - start), 99)
            assert written(twin, source) == ROWS[start:stop]
            assert partitions is not None
            assert list(partitions) == [3, -1, 0, 1][start:stop]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    "value_type",
    [
        pa.binary(),
        pa.utf8(),
        pa.large_binary(),
        pa.large_utf8(),
        pa.string_view(),
        pa.binary_view(),
        pa.binary(3),
        pa.dictionary(pa.int8(), pa.utf8()),
        pa.dictionary(pa.int32(), pa.large_binary()),
    ],
    ids=str,
)
def test_bytes_and_text_of_any_kind_are_written(twin: ModuleType, value_type: pa.DataType) -> None:
    texts = [b"abc", None, b"xyz", b"abc"]
    plain = value_type.value_type if pa.types.is_dictionary(value_type) else value_type
    is_text = pa.types.is_unicode(plain)
    column = pa.array([text.decode() if text and is_text else text for text in texts], plain)
    if plain is not value_type:
        column = column.dictionary_encode().cast(value_type)
    batch = pa.record_batch({"value": column, "key": column})
    expected = [(7, text, text, ()) for text in texts]
    assert written(twin, arrow_records(batch, 7).source) == expected
    assert written(twin, arrow_records(batch.slice(1, 2), 7).source) == expected[1:3]


@pytest.mark.parametrize("twin", TWINS)
def test_nulls_may_have_no_type(twin: ModuleType) -> None:
    batch = pa.record_batch({"value": pa.nulls(2), "key": pa.nulls(2)})
    assert written(twin, arrow_records(batch, 7).source) == [(7, None, None, ())] * 2


@pytest.mark.parametrize("twin", TWINS)
def test_the_only_column_is_the_value(twin: ModuleType) -> None:
    batch = pa.record_batch({"anything": pa.array([b"x"])})
    source, partitions = arrow_records(batch, 7)
    assert written(twin, source) == [(7, None, b"x", ())]
    assert partitions is None
    assert written(twin, arrow_records(batch.slice(0, 0), 7).source) == []


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    ("unit", "number", "timestamp_ms"),
    [("s", 2, 2000), ("ms", 2001, 2001), ("us", 2_001_999, 2001), ("ns", 2_001_999_999, 2001)],
)
@pytest.mark.parametrize("tz", [None, "UTC", "Europe/Berlin"])
def test_times_come_in_any_unit(twin: ModuleType, unit: str, number: int, timestamp_ms: int, tz: str | None) -> None:
    times = pa.array([number, None], pa.int64()).cast(pa.timestamp(unit, tz))
    batch = pa.record_batch({"value": pa.array([b"x", b"y"]), "timestamp": times})
    assert [row[0] for row in written(twin, arrow_records(batch, 7).source)] == [timestamp_ms, 7]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize(
    "header_type",
    [
        HEADERS,
        pa.large_list(pa.struct([("key", pa.large_utf8()), ("value", pa.large_binary())])),
        pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.utf8())])),
        pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())])),
        pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.null())])),
    ],
    ids=str,
)
def test_headers_come_in_any_list(twin: ModuleType, header_type: pa.DataType) -> None:
    found = header_type.value_type.field(1).type
    content: Any = None if pa.types.is_null(found) else "1" if pa.types.is_string(found) else b"1"
    column = pa.array([[], [("one", content), ("two", None)], None, [("three", content)]], header_type)
    batch = pa.record_batch({"value": pa.array([b""] * 4), "headers": column})
    plain = None if content is None else b"1"
    expected = [(), (("one", plain), ("two", None)), (), (("three", plain),)]
    assert [row[3] for row in written(twin, arrow_records(batch, 7).source)] == expected
    assert [row[3] for row in written(twin, arrow_records(batch.slice(1), 7).source)] == expected[1:]


def test_what_fits_is_not_copied() -> None:
    batch = everything()
    source, partitions = arrow_records(batch.slice(1), 99)
    for column, name in ((source.keys, "key"), (source.values, "value")):
        assert column is not None
        buffers = batch.column(name).buffers()
        assert pa.py_buffer(column.data).address == buffers[2].address
        assert pa.py_buffer(column.ends).address == buffers[1].address
    assert source.timestamps is not None
    assert pa.py_buffer(source.timestamps.numbers).address == batch.column("timestamp").buffers()[1].address
    whole = pa.record_batch({"value": pa.array([b"a", b"b"]), "partition": pa.array([4, 5], pa.int32())})
    partitions = arrow_records(whole.slice(1), 99).partitions
    assert partitions is not None
    assert pa.py_buffer(partitions).address == whole.column("partition").buffers()[1].address + 4


@pytest.mark.parametrize("twin", TWINS)
def test_a_description_keeps_the_memory(twin: ModuleType) -> None:
    columns = twin.RecordColumns(arrow_records(everything(), 99).source)
    writer = twin.BatchWriter(1 << 20)
    assert twin.write_columns([writer], None, columns, 0, 4) == 4
    assert writer.records() == ROWS


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"key": pa.array([b"a"]), "partition": pa.array([1])}, ValueError, "'value'"),
        ({"value": pa.array([b"a"]), "topic": pa.array(["t"])}, ValueError, "'topic'"),
        ({"value": pa.array([1])}, TypeError, "'value' holds int64"),
        ({"value": pa.array([[b"a"]])}, TypeError, "'value' holds list"),
        ({"value": pa.array([b"a"]), "key": pa.array([1.5])}, TypeError, "'key' holds double"),
        ({"value": pa.array([b"a"]), "timestamp": pa.array(["now"])}, TypeError, "'timestamp' holds string"),
        ({"value": pa.array([b"a"]), "timestamp": pa.array([1], pa.int32())}, TypeError, "'timestamp' holds int32"),
        (
            {"value": pa.array([b"a"]), "timestamp": pa.array([2**62]).cast(pa.timestamp("s"))},
            ValueError,
            "'timestamp'",
        ),
        ({"value": pa.array([b"a"]), "partition": pa.array(["1"])}, TypeError, "'partition' holds string"),
        ({"value": pa.array([b"a"]), "partition": pa.array([2**31])}, ValueError, "'partition'"),
        ({"value": pa.array([b"a"]), "headers": pa.array([b"x"])}, TypeError, "'headers' holds binary"),
        ({"value": pa.array([b"a"]), "headers": pa.array([[1]])}, TypeError, "'headers' holds list"),
        ({"value": pa.array([b"a"]), "headers": pa.array([[None]], HEADERS)}, ValueError, "'headers' has a null"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    columns: dict[str, pa.Array], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        arrow_records(pa.record_batch(columns), 0)


def test_a_column_comes_once_and_a_table_not_at_all() -> None:
    with pytest.raises(ValueError, match="twice"):
        arrow_records(pa.RecordBatch.from_arrays([pa.array([b"a"])] * 2, names=["value", "value"]), 0)
    with pytest.raises(TypeError, match="Table"):
        arrow_records(pa.table({"value": [b"a"]}), 0)


@pytest.mark.parametrize("twin", TWINS)
def test_a_header_without_a_key_is_told_when_it_is_written(twin: ModuleType) -> None:
    column = pa.array([[(None, b"x")]], HEADERS)
    source = arrow_records(pa.record_batch({"value": pa.array([b"a"]), "headers": column}), 0).source
    with pytest.raises(ValueError, match="key"):
        written(twin, source)


@pytest.mark.parametrize("twin", TWINS)
def test_a_null_header_outside_of_the_slice_does_no_harm(twin: ModuleType) -> None:
    column = pa.array([[("one", b"1")], [None]], HEADERS)
    batch = pa.record_batch({"value": pa.array([b"a", b"b"]), "headers": column})
    assert written(twin, arrow_records(batch.slice(0, 1), 0).source) == [(0, None, b"a", (("one", b"1"),))]
    with pytest.raises(ValueError, match="null"):
        arrow_records(batch.slice(1, 1), 0)


def test_what_a_consumer_reads_can_be_written_again() -> None:
    writer = _writer.BatchWriter(1 << 20)
    for row in ROWS:
        writer.append(*row)
    sealed = writer.seal(producer_id=-1, producer_epoch=-1, base_sequence=-1, is_transactional=False)
    table = decode_arrow_partitions([PartitionBatches("topic", 3, 0, [BatchView(sealed)])])
    source, partitions = arrow_records(table.select(["key", "value", "partition", "timestamp", "headers"]), 0)
    assert written(_writer, source) == ROWS
    assert partitions is not None
    assert list(partitions) == [3] * 4
