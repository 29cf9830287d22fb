"""Values as columns, and what is said of those that cannot be."""

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from levada.spark.rows import Rows, RowsError, parse, read
from levada.spark.rows.writing import outgoing
from tests.spark.rows_frames import NOON, frame, record, records

SCHEMA = "id string not null, amount double, place struct<city: string, number: int>, tags array<int>, at timestamp"

BROKEN = {
    b"not json": "the value is not JSON: not json",
    b"": "the value is empty",
    b"  ": "the value is empty",
    b"null": "the value is not a JSON object: null",
    b"5": "the value is not a JSON object: 5",
    b'[{"id":"a"}]': 'the value is not a JSON object: [{"id":"a"}]',
    b'{"id":"a"': 'the value is not JSON: {"id":"a"',
    b'{"id":"a"} x': "there is something after the JSON object",
    b'{"id":"a"}{"id":"b"}': "there is something after the JSON object",
    b'{"id":"a"}}': "there is something after the JSON object",
    b'{"id":"b"},"x":2': "there is something after the JSON object",
    b'{"id":"b"},"value":{"id":"c"}': "there is something after the JSON object",
    b'{"id":"b"},{"id":"c"}': "there is something after the JSON object",
    b'{"id":"b"},"end":true} x': "there is something after the JSON object",
    b'{"id":"b"}],"value":[{"id":"c"}': "there is something after the JSON object",
    b'{"id":"b"}]}} x': "there is something after the JSON object",
    b'{"id":"b"},{"~end":true}]}} x': "there is something after the JSON object",
    b'{"id":"b"},': "there is something after the JSON object",
    b'{"id":"b"},"': "there is something after the JSON object",
    b'{"id":"b"}} {"x":1': "there is something after the JSON object",
    b'{"id":"\xff"}': "the value is not UTF-8",
    b'{"id":"a","amount":"much"}': "field 'amount' is not double: much",
    b'{"id":"a","amount":"much","tags":[1,"b"]}': (
        "field 'amount' is not double: much; field 'tags' is not array<int>: [1,\"b\"]"
    ),
    b'{"id":"a","place":{"city":"x","number":"y"}}': "field 'place.number' is not int: y",
    b'{"id":"a","place":7}': "field 'place' is not struct<city:string,number:int>: 7",
    b'{"id":"a","at":"2026-13-45"}': "field 'at' is not timestamp: 2026-13-45",
    b'{"amount":1}': "field 'id' is missing",
    b'{"id":null}': "field 'id' is missing",
    b"{}": "field 'id' is missing",
}


def test_json_that_does_not_fit_is_rejected_with_what_is_wrong(spark: SparkSession) -> None:
    rows = parse(records(spark, BROKEN), SCHEMA, dead_letters="dead")
    found = {row._source.value: row._rejected.reason for row in rows.rejected.collect()}
    assert {bytes(value): reason for value, reason in found.items()} == BROKEN
    assert rows.good.count() == 0


def test_json_that_fits_becomes_columns_and_other_fields_are_ignored(spark: SparkSession) -> None:
    values = [
        {"id": "a", "amount": 1.5, "place": {"city": "x"}, "tags": [1, 2], "at": "2026-01-01T00:00:00Z", "more": 1},
        {"id": "b"},
    ]
    rows = parse(records(spark, values), SCHEMA, dead_letters="dead")
    first, second = rows.good.orderBy("id").collect()
    assert (first.id, first.amount, first.place.city, first.place.number, first.tags) == ("a", 1.5, "x", None, [1, 2])
    assert (second.id, second.amount, second.place, second.tags, second.at) == ("b", None, None, None, None)
    assert first._source.offset == 0
    assert rows.rejected.count() == 0
    assert rows.good.columns == ["id", "amount", "place", "tags", "at", "_source"]


def test_a_wrong_field_is_found_even_if_the_query_does_not_select_it(spark: SparkSession) -> None:
    rows = parse(records(spark, [{"id": "a", "amount": "x"}]), SCHEMA, dead_letters="dead")
    assert rows.good.select("id").collect() == []


def test_a_null_deep_inside_that_must_not_be_is_rejected(spark: SparkSession) -> None:
    item = StructType([StructField("sku", StringType(), nullable=False), StructField("count", IntegerType())])
    schema = StructType([StructField("items", ArrayType(item, containsNull=False)), StructField("id", StringType())])
    values = [{"items": [{"sku": "a"}, {"count": 1}]}, {"items": [None]}, {"items": [{"sku": "a"}]}, {"id": "no items"}]
    rows = parse(records(spark, values), schema, dead_letters="dead")
    assert sorted(row._source.offset for row in rows.rejected.collect()) == [0, 1]
    assert {row._rejected.reason for row in rows.rejected.collect()} == {
        "field 'items' has a part that must not be null and is"
    }


@pytest.mark.parametrize(("tombstones", "good", "rejected"), [("reject", 1, 1), ("drop", 1, 0), ("keep", 2, 0)])
def test_a_tombstone_is_treated_as_asked(spark: SparkSession, tombstones: Any, good: int, rejected: int) -> None:
    for format, schema, value in (("json", "id string not null", {"id": "a"}), ("string", None, b"a")):
        source = frame(spark, [record(value), record(None, 1, key=b"k")])
        rows = parse(source, schema, format=format, dead_letters="dead", tombstones=tombstones)  # type: ignore[arg-type]
        assert (rows.good.count(), rows.rejected.count()) == (good, rejected)
        for row in rows.rejected.collect():
            assert (row._rejected.reason, row._rejected.stage) == ("the value is null", "parse")


def test_strings_and_bytes_are_one_column(spark: SparkSession) -> None:
    source = records(spark, [b"a", b"\xff"])
    text = parse(source, format="string", dead_letters="dead")
    assert [row.value for row in text.good.collect()] == ["a"]
    assert [row._rejected.reason for row in text.rejected.collect()] == ["the value is not UTF-8"]
    raw = parse(source, format="binary", dead_letters="dead")
    assert [bytes(row.value) for row in raw.good.orderBy("_source.offset").collect()] == [b"a", b"\xff"]


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "items", "type": {"type": "array", "items": {
            "type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}}},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}  # fmt: skip
ORDER = {
    "id": "a",
    "amount": Decimal("12.34"),
    "at": datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC),
    "day": date(2026, 1, 1),
    "state": "PAID",
    "before": None,
    "counts": {"x": 2**60},
    "items": [{"sku": "s"}],
    "token": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
}


def avro(value: Any, schema: Any = AVRO) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return stream.getvalue()


def plain_avro() -> bytes:
    """As another writer writes it, who does not know that a token is a uuid."""
    fields = [field if field["name"] != "token" else {"name": "token", "type": "string"} for field in AVRO["fields"]]
    return avro(ORDER, {**AVRO, "fields": fields})


def test_avro_becomes_columns_and_broken_avro_is_rejected(spark: SparkSession) -> None:
    whole = plain_avro()
    source = records(spark, [whole, whole[:10], whole + b"xy", b""])
    rows = parse(source, AVRO, format="avro", dead_letters="dead")
    (good,) = rows.good.drop("_source").collect()
    found = good.asDict(recursive=True)
    assert found == {**ORDER, "at": ORDER["at"].replace(tzinfo=None)}  # type: ignore[attr-defined]
    reasons = [row._rejected.reason for row in rows.rejected.orderBy("_source.offset").collect()]
    assert [reason.partition(": ")[0] for reason in reasons] == ["the value is not Avro of this schema"] * 3
    assert f"2 of its {len(whole) + 2} bytes are left over" in reasons[1]


def test_avro_that_no_column_can_hold_is_rejected_and_the_others_are_not(spark: SparkSession) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    schema, written_as = avro_record(decimal), avro_record("bytes")
    numbers = [1234, 123456, -9999, 10**40]
    values = [avro({"a": number.to_bytes(20, "big", signed=True)}, written_as) for number in numbers]
    rows = parse(records(spark, values), schema, format="avro", dead_letters="dead")
    assert sorted(row.a for row in rows.good.collect()) == [Decimal("-99.99"), Decimal("12.34")]
    reasons = {row._source.offset: row._rejected.reason for row in rows.rejected.collect()}
    assert set(reasons) == {1, 3}
    assert all(reason.startswith("the value does not fit the types of its fields: ") for reason in reasons.values())
    too_large = [avro({"a": number}, avro_record("long")) for number in (7, 2**40)]
    whole = parse(records(spark, too_large), avro_record("int"), format="avro", dead_letters="dead")
    assert ([row.a for row in whole.good.collect()], whole.rejected.count()) == ([7], 1)


def test_a_time_that_avro_cannot_write_is_a_dead_letter_and_the_others_are_not(spark: SparkSession) -> None:
    schema = avro_record({"type": "long", "logicalType": "timestamp-micros"})
    values = [{"a": "2026-01-01T00:00:00Z"}, {"a": "+12026-01-01T00:00:00Z"}]
    rows = parse(records(spark, values), "a timestamp", dead_letters="dead")
    assert rows.rejected.count() == 0
    written = outgoing(rows, "out", format="avro", schema=schema).collect()
    assert sorted(row.topic for row in written) == ["dead", "out"]


def test_avro_that_was_read_is_written_with_the_same_bytes(spark: SparkSession) -> None:
    whole = plain_avro()
    rows = parse(records(spark, [whole, b"\x00"]), json.dumps(AVRO), format="avro", dead_letters="dead")
    written = {row.topic: bytes(row.value) for row in outgoing(rows, "out", format="avro", schema=AVRO).collect()}
    assert written == {"out": whole, "dead": b"\x00"}


def test_a_row_that_does_not_fit_the_avro_schema_becomes_a_dead_letter(spark: SparkSession) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
    rows = parse(records(spark, [{"id": "a"}, {"id": None}]), "id string", dead_letters="dead")
    written = outgoing(rows, "out", format="avro", schema=schema).collect()
    assert {row.topic: bytes(row.value) for row in written} == {"out": b"\x02a", "dead": b'{"id": null}'}
    (letter,) = [row for row in written if row.topic == "dead"]
    headers = {header.key: bytes(header.value).decode() for header in letter.headers}
    assert headers["levada-dead-letter-stage"] == "write"
    assert headers["levada-dead-letter-reason"].startswith("the row does not fit the Avro schema: ")


def parsed(spark: SparkSession, schema: Any = "id int", **arguments: Any) -> Rows:
    return parse(records(spark, []), schema, dead_letters="dead", **arguments)


def avro_record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}


UNUSABLE: dict[str, Callable[[SparkSession], Any]] = {
    "the format must be one of json, string, avro, protobuf, binary, not 'xml'": lambda spark: read("t", format="xml"),  # type: ignore[arg-type]
    "read: name the fields of values": lambda spark: parsed(spark, None),
    "read: 'id strong' is not a schema": lambda spark: parsed(spark, "id strong"),
    "the schema has a field '_source'": lambda spark: parsed(spark, "_source int"),
    "the schema has two fields 'id'": lambda spark: parsed(spark, "id int, ID int"),
    "read: format 'string' takes no schema": lambda spark: parsed(spark, format="string"),
    "the Avro schema is not JSON": lambda spark: parsed(spark, format="avro"),
    "an Avro schema must be a record": lambda spark: parsed(spark, '"string"', format="avro"),
    "an Avro union may be of null and one other type": lambda spark: parsed(
        spark, avro_record(["int", "string"]), format="avro"
    ),
    "the Avro type 'R' contains itself": lambda spark: parsed(spark, avro_record(["null", "R"]), format="avro"),
    "the Avro schema cannot be used": lambda spark: parsed(spark, avro_record("strong"), format="avro"),
    "read: name at least one topic": lambda spark: read([], "id int"),
    "read: several topics have no dead-letter topic of their own": lambda spark: read(["a", "b"], "id int"),
    "read: option 'includeHeaders' is set already": lambda spark: read("a", "id int", includeHeaders=False),
    "tombstones must be one of reject, drop, keep": lambda spark: parsed(spark, tombstones="eat"),
    "the frame has no column 'topic'": lambda spark: parse(spark.range(1).toDF("value"), "id int", dead_letters="d"),
    "rows need the column '_source'": lambda spark: Rows(spark.range(1), "d"),
}


@pytest.mark.parametrize("said", UNUSABLE)
def test_what_cannot_be_read_is_refused_in_one_line(spark: SparkSession, said: str) -> None:
    with pytest.raises(RowsError) as raised:
        UNUSABLE[said](spark)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_a_record_keeps_all_that_it_was(spark: SparkSession) -> None:
    rows = parse(frame(spark, [record(b"x", 7, key=b"k")]), format="string", dead_letters="dead")
    (row,) = rows.good.collect()
    source = row._source
    assert (source.topic, source.partition, source.offset) == ("orders", 0, 7)
    assert source.timestamp.replace(tzinfo=UTC) == NOON
    assert (bytes(source.key), bytes(source.value)) == (b"k", b"x")
    assert [(header.key, bytes(header.value)) for header in source.headers] == [("h", b"1")]
