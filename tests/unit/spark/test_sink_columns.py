"""The sink's columns: which are taken, and how rows are parted by topic."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.spark.options import OptionError
from levada.spark.sink.columns import RowRefused, check_columns, rows_by_topic

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
HEADERS = ArrayType(HEADER)
TEXT, BYTES = StringType(), BinaryType()
Columns = list[tuple[str, DataType]]


def schema(columns: Columns) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


def refusal(columns: Columns, topic: str | None = "orders") -> str:
    with pytest.raises(OptionError) as refused:
        check_columns(schema(columns), topic)
    line = str(refused.value)
    assert "\n" not in line
    return line


def parted(batch: pa.RecordBatch, topic: str | None = None, *, writes_headers: bool = True) -> dict[str, Any]:
    return {name: rows.to_pydict() for name, rows in rows_by_topic(batch, topic, writes_headers=writes_headers)}


@pytest.mark.parametrize(
    "columns",
    [
        [("value", BYTES)],
        [("value", TEXT), ("key", TEXT)],
        [
            ("key", BYTES),
            ("value", BYTES),
            ("headers", HEADERS),
            ("topic", TEXT),
            ("partition", IntegerType()),
            ("timestamp", TimestampType()),
        ],
    ],
)
def test_the_columns_of_records_are_taken(columns: Columns) -> None:
    check_columns(schema(columns), "orders")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([("value", LongType())], "column 'value' must be string or binary, not bigint: cast it"),
        ([("value", TEXT), ("key", IntegerType())], "column 'key' must be string or binary, not int: cast it"),
        ([("value", TEXT), ("partition", LongType())], "column 'partition' must be int, not bigint: cast it"),
        ([("value", TEXT), ("timestamp", TEXT)], "column 'timestamp' must be timestamp, not string: cast it"),
        (
            [("value", TEXT), ("headers", MapType(TEXT, BYTES))],
            "column 'headers' must be array<struct<key: string, value: binary>>, not map<string,binary>: cast it",
        ),
        ([("key", TEXT)], "there is no column 'value': select what is to be written under that name"),
        ([("value", TEXT), ("value", TEXT)], "column 'value' comes twice: drop one of them"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(columns: Columns, expected: str) -> None:
    assert refusal(columns) == expected


def test_an_unknown_column_is_refused_by_name() -> None:
    assert refusal([("value", TEXT), ("amount", LongType())]).startswith(
        "column 'amount' cannot be written to a topic: "
    )


def test_the_options_or_a_column_have_to_name_a_topic() -> None:
    assert refusal([("value", TEXT)], None) == "no topic is named: set the option 'topic', or add a column 'topic'"
    check_columns(schema([("value", TEXT), ("topic", TEXT)]), None)


def test_the_topic_of_the_option_wins_over_the_column() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["1", "2"], "topic": ["a", None]})
    assert parted(batch, "orders") == {"orders": {"value": ["1", "2"]}}


def test_a_row_without_a_topic_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["1", "2"], "topic": ["a", None]})
    with pytest.raises(RowRefused, match="column 'topic' is null in 1 row"):
        parted(batch)


def test_headers_can_be_left_out() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["1"], "headers": [[{"key": "k", "value": b"v"}]]})
    assert parted(batch, "orders", writes_headers=False) == {"orders": {"value": ["1"]}}
    assert "headers" in parted(batch, "orders")["orders"]


@given(st.lists(st.sampled_from(["a", "b", "c", "é"]), min_size=1, max_size=40), st.integers(0, 5))
def test_each_topic_gets_its_rows_in_their_order(topics: list[str], offset: int) -> None:
    offset = min(offset, len(topics) - 1)
    numbers = list(range(len(topics)))
    batch = pa.RecordBatch.from_pydict({"value": [str(each) for each in numbers], "topic": topics}).slice(offset)
    expected: dict[str, list[str]] = {}
    for number in numbers[offset:]:
        expected.setdefault(topics[number], []).append(str(number))
    assert {name: rows["value"] for name, rows in parted(batch).items()} == expected
