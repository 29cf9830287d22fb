"""Values behind schema ids: what they are read as, what is written, and what becomes a dead letter."""

import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from levada.spark.rows import Rows, RowsError, parse, read, write
from levada.spark.rows.registry import SchemaSource, registry_of
from levada.spark.rows.registry.framing import prefix_of
from levada.spark.rows.writing import outgoing
from tests.protobufs import SHOP, field, protobuf
from tests.registries import RegistryServer, registry_server
from tests.spark.rows_frames import records

SUBJECT = "orders-value"
PASSWORD = "hush-4711"
NO_ROWS: list[tuple[Any, ...]] = []
OLD: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "string"}, {"name": "count", "type": "int"}, {"name": "gone", "type": "long"}],
}
NEW: dict[str, Any] = {
    **OLD,
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "tag", "type": ["null", "string"], "default": None},
    ],
}
ORDER_JSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "amount": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["id"],
}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as started:
        yield started


def framed(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return prefix_of(schema_id) + stream.getvalue()


def as_json(schema_id: int, value: Any) -> bytes:
    return prefix_of(schema_id) + json.dumps(value).encode()


def parsed(spark: SparkSession, values: list[Any], server: RegistryServer, **arguments: Any) -> Rows:
    given = {"registry": server.url, "subject": SUBJECT, "dead_letters": "dead", **arguments}
    return parse(records(spark, values), given.pop("schema", None), **given)


def good(rows: Rows) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in rows.good.orderBy("_source.offset").drop("_source").collect()]


def reasons(rows: Rows) -> dict[int, str]:
    return {row._source.offset: row._rejected.reason for row in rows.rejected.collect()}


def source(server: RegistryServer, message: str | None = None) -> SchemaSource:
    return SchemaSource(registry_of(server.url), SUBJECT, message)


def test_avro_of_several_schemas_is_read_as_the_latest_and_the_rest_rejected(
    spark: SparkSession, server: RegistryServer
) -> None:
    old, new = server.add(SUBJECT, OLD), server.add(SUBJECT, NEW)
    other = server.add("other", ORDER_JSON, "JSON")
    unlike = server.add("unlike", {**OLD, "fields": [{"name": "id", "type": "long"}]})
    values: list[bytes | None] = [
        framed(old, OLD, {"id": "a", "count": 1, "gone": 7}),
        framed(new, NEW, {"id": "b", "count": 2, "tag": "t"}),
        b"",
        b"\x00\x00\x01",
        b'{"id": "c"}',
        prefix_of(99) + b"x",
        prefix_of(other) + b"{}",
        prefix_of(new) + b"\x02",
        framed(new, NEW, {"id": "d", "count": 2, "tag": None}) + b"!",
        prefix_of(unlike) + b"\x02",
        None,
    ]
    rows = parsed(spark, values, server, format="avro")
    assert good(rows) == [{"id": "a", "count": 1, "tag": None}, {"id": "b", "count": 2, "tag": "t"}]
    found = reasons(rows)
    assert found.pop(7).startswith(f"the value is not Avro of its schema {new}: ")
    assert found.pop(9).startswith(f"the value cannot be read as the subject's schema from its schema {unlike}: ")
    assert found == {
        2: "the value has no schema id before it: it has 0 bytes, and 5 are those of an id",
        3: "the value has no schema id before it: it has 3 bytes, and 5 are those of an id",
        4: "the value has no schema id before it: its first byte is 123, not 0",
        5: "the registry has no schema 99, or none of those that it refers to",
        6: f"the schema {other} of the value is JSON Schema, not Avro",
        8: f"the value is not Avro of its schema {new}: 1 of its 10 bytes are left over",
        10: "the value is null",
    }
    # Each was asked for a few times at most: there are several workers, and more values than that.
    assert sum(asked == f"GET /schemas/ids/{old}" for asked in server.asked) <= 8


def test_the_readers_schema_is_fixed_when_the_rows_are_built(spark: SparkSession, server: RegistryServer) -> None:
    old = server.add(SUBJECT, OLD)
    rows = parsed(spark, [framed(old, OLD, {"id": "a", "count": 1, "gone": 7})], server, format="avro")
    server.add(SUBJECT, NEW)
    assert good(rows) == [{"id": "a", "count": 1, "gone": 7}]
    wanted = {**OLD, "fields": [{"name": "count", "type": "long"}]}
    given = parsed(spark, [framed(old, OLD, {"id": "a", "count": 1, "gone": 7})], server, format="avro", schema=wanted)
    assert good(given) == [{"count": 1}]


def test_json_is_read_by_the_fields_of_its_schema_or_of_the_given_ones(
    spark: SparkSession, server: RegistryServer
) -> None:
    schema_id = server.add(SUBJECT, ORDER_JSON, "JSON")
    avro_id = server.add("other", OLD)
    values = [
        as_json(schema_id, {"id": "a", "amount": 1, "at": "2026-01-01T12:00:00Z", "place": {"city": "x"}, "more": 1}),
        as_json(schema_id, {"amount": 1}),
        as_json(schema_id, {"id": "b", "place": {}}),
        prefix_of(schema_id) + b"{",
        as_json(avro_id, {"id": "c"}),
        b'{"id": "d"}',
        as_json(77, {"id": "e"}),
    ]
    rows = parsed(spark, values, server, format="json")
    noon = datetime(2026, 1, 1, 12)
    assert good(rows) == [{"id": "a", "amount": 1.0, "at": noon, "place": {"city": "x"}}]
    assert reasons(rows) == {
        1: "field 'id' is missing",
        2: "field 'place.city' is missing",
        3: "the value is not JSON: {",
        4: f"the schema {avro_id} of the value is Avro, not JSON Schema",
        5: "the value has no schema id before it: its first byte is 123, not 0",
        6: "the registry has no schema 77, or none of those that it refers to",
    }
    short = parsed(spark, values[:2], server, format="json", schema="amount int")
    assert good(short) == [{"amount": 1}, {"amount": 1}]


def test_protobuf_is_read_by_its_message_and_other_messages_are_rejected(
    spark: SparkSession, server: RegistryServer
) -> None:
    small = (
        f'name: "s" package: "shop" syntax: "proto3" message_type {{ name: "Order" {field("id", 1, "string")} }} '
        f'message_type {{ name: "Refund" {field("id", 1, "string")} }}'
    )
    old, new = server.add(SUBJECT, protobuf(small), "PROTOBUF"), server.add(SUBJECT, protobuf(SHOP), "PROTOBUF")
    other = server.add("other", OLD)
    values = [
        prefix_of(old) + b"\x00\x0a\x01a",
        prefix_of(new) + b"\x02\x00\x0a\x01b\x48\x00",
        prefix_of(new) + b"\x00\x0a\x01c\x4a\x03\x0a\x01s\x62\x02\x08\x01\x5a\x05\x0a\x01k\x10\x05",
        prefix_of(new) + b"\x02\x02\x0a\x01d",
        prefix_of(new) + b"\x02\x0a\x0a\x01d",
        prefix_of(new),
        prefix_of(new) + b"\x00\x0a\x05d",
        prefix_of(new) + b"\x00\x40\x09",
        prefix_of(other) + b"\x00\x0a\x01e",
    ]
    rows = parsed(spark, values, server, format="protobuf")
    found = good(
        rows.with_frame(rows.frame.select("id", "count", "state", "items", "at", "counts", "_source", "_rejected"))
    )
    nothing: dict[str, Any] = {"count": None, "state": "NEW", "items": [], "at": None, "counts": {}}
    at = datetime(1970, 1, 1, 0, 0, 1)
    assert found[0] == {"id": "a", **nothing}
    assert found[1:] == [{"id": "c", **nothing, "items": [{"sku": "s"}], "at": at, "counts": {"k": 5}}]
    said = reasons(rows)
    assert said.pop(6).startswith("the value is not Protobuf of shop.Order: DecodeError")
    assert said == {
        1: "the value is not Protobuf of shop.Order: ValueError: field 'items' was written with another type, or a "
        "name that its enum has not",
        3: "the value is the message shop.Refund, and shop.Order is read",
        4: f"the value is no message of the schema {new}, and shop.Order is read",
        5: "the value has no whole message index before it",
        7: "the value is not Protobuf of shop.Order: ValueError: field 'state' has the number 9, which its enum has no "
        "name for",
        8: f"the schema {other} of the value is Avro, not Protobuf",
    }
    refunds = parsed(spark, values, server, format="protobuf", message="Refund")
    assert good(refunds) == [{"id": "d"}]


def test_avro_is_written_behind_the_id_of_its_schema(spark: SparkSession, server: RegistryServer) -> None:
    rows = parse(
        records(spark, [{"id": "a", "count": 1}, {"id": None, "count": 2}]), "id string, count int", dead_letters="dead"
    )
    written = outgoing(rows, "orders", format="avro", schema=NEW, source=source(server)).collect()
    schema_id = server.store.subjects[SUBJECT][0]
    assert {row.topic: bytes(row.value) for row in written}["orders"] == framed(schema_id, NEW, {"id": "a", "count": 1})
    (letter,) = [row for row in written if row.topic == "dead"]
    headers = {header.key: bytes(header.value).decode() for header in letter.headers}
    assert headers["levada-dead-letter-stage"] == "write"
    assert headers["levada-dead-letter-reason"].startswith("the row does not fit the Avro schema: ")
    again = outgoing(rows, "orders", format="avro", source=source(server)).collect()
    assert sorted(row.value for row in again) == sorted(row.value for row in written)
    assert len(server.store.schemas) == 1


def test_json_is_written_behind_the_id_of_its_schema(spark: SparkSession, server: RegistryServer) -> None:
    values = [{"id": "a", "amount": 2.5, "place": {"city": "x"}}, {"amount": 1}, {"id": "b", "place": {}}]
    rows = parse(records(spark, values), "id string, amount double, place struct<city: string>", dead_letters="dead")
    written = outgoing(rows, "orders", format="json", schema=ORDER_JSON, source=source(server)).collect()
    assert [bytes(row.value) for row in written if row.topic == "orders"] == [
        prefix_of(1) + b'{"id":"a","amount":2.5,"place":{"city":"x"}}'
    ]
    said = sorted(
        bytes(header.value).decode()
        for row in written
        for header in row.headers or ()
        if header.key == "levada-dead-letter-reason"
    )
    assert said == ["field 'id' is missing", "field 'place.city' is missing"]
    assert json.loads(server.store.schemas[0].text) == ORDER_JSON
    assert server.store.schemas[0].kind == "JSON"


@pytest.mark.parametrize(("message", "indexes"), [(None, b"\x00"), ("Refund", b"\x02\x02")])
def test_protobuf_is_written_behind_its_id_and_its_message(
    spark: SparkSession, server: RegistryServer, message: str | None, indexes: bytes
) -> None:
    server.add(SUBJECT, protobuf(SHOP), "PROTOBUF")
    rows = parse(records(spark, [{"id": "a"}]), "id string", dead_letters="dead")
    (written,) = outgoing(rows, "orders", format="protobuf", source=source(server, message)).collect()
    assert bytes(written.value) == prefix_of(1) + indexes + b"\x0a\x01a"


def test_every_type_of_protobuf_is_written_as_it_was_read(spark: SparkSession, server: RegistryServer) -> None:
    server.add(SUBJECT, protobuf(SHOP), "PROTOBUF")
    columns = {
        "id": sf.lit("a"), "amount": sf.lit(0.5), "count": sf.lit(0),
        "big": sf.lit("18446744073709551615").cast("decimal(20,0)"),
        "small": sf.lit(4294967295), "raw": sf.lit(b"\x00\xff"), "paid": sf.lit(True), "state": sf.lit("PAID"),
        "items": sf.array(sf.struct(sf.lit("s").alias("sku"))), "tags": sf.array(sf.lit("t")),
        "counts": sf.create_map(sf.lit("k"), sf.lit(5)), "at": sf.timestamp_micros(sf.lit(1_700_000_000_123_456)),
        "took": sf.expr("INTERVAL '1 02:03:04.000005' DAY TO SECOND"), "note": sf.lit("n"),
        "by_name": sf.create_map(sf.lit("z"), sf.struct(sf.lit("y").alias("sku"))),
    }  # fmt: skip
    frame = spark.range(1).select(*(column.alias(name) for name, column in columns.items()))
    (written,) = outgoing(frame, "orders", format="protobuf", source=source(server)).collect()
    (found,) = good(parsed(spark, [bytes(written.value)], server, format="protobuf"))
    assert [found] == [row.asDict(recursive=True) for row in frame.collect()]
    (again,) = outgoing(
        parsed(spark, [bytes(written.value)], server, format="protobuf"),
        "orders",
        format="protobuf",
        source=source(server),
    ).collect()
    assert bytes(again.value) == bytes(written.value)


def test_no_login_is_in_a_plan_a_repr_or_a_failure(spark: SparkSession, server: RegistryServer) -> None:
    schema_id = server.add(SUBJECT, NEW)
    server.login = ("ann", PASSWORD)
    value = framed(schema_id, NEW, {"id": "a", "count": 1, "tag": None})
    rows = parsed(spark, [value], server, format="avro", registry=server.url_with(f"ann:{PASSWORD}"))
    assert good(rows) == [{"id": "a", "count": 1, "tag": None}]
    plan = rows.frame._jdf.queryExecution().toString()
    written = outgoing(
        rows, "o", format="avro", source=SchemaSource(registry_of(server.url_with(f"ann:{PASSWORD}")), SUBJECT)
    )
    plan += written._jdf.queryExecution().toString()
    assert "decode" in plan
    server.login = ("ann", "changed")
    fresh = {"registry_wait": "11 minutes"}
    with pytest.raises(Exception, match=r"refuses the login \(401\)") as raised:
        good(
            parsed(
                spark, [value], server, format="avro", schema=NEW, registry=server.url_with(f"ann:{PASSWORD}"), **fresh
            )
        )
    assert PASSWORD not in plan + repr(rows) + str(raised.value)


def parsed_empty(spark: SparkSession, server: RegistryServer, **arguments: Any) -> Rows:
    return parsed(spark, [], server, **arguments)


def written_empty(spark: SparkSession, server: RegistryServer, columns: str, **arguments: Any) -> Any:
    frame = spark.createDataFrame(NO_ROWS, columns)
    return write(frame, "orders", registry=server.url, bootstrap="localhost:1", **arguments)


UNUSABLE: dict[str, Callable[[SparkSession, RegistryServer], Any]] = {
    "the format of a read with a registry must be one of avro, json, protobuf, not 'string'": lambda spark, server: (
        parsed_empty(spark, server, format="string")
    ),
    "message is for format 'protobuf'": lambda spark, server: parsed_empty(spark, server, format="avro", message="A"),
    "read: format 'protobuf' needs a schema registry": lambda spark, server: read("t", format="protobuf"),
    "subject is for a schema registry": lambda spark, server: read("t", "id int", subject="s"),
    "registry_user is for a schema registry": lambda spark, server: read("t", "a int", registry_user="s"),
    "read: several topics have no subject of their own": lambda spark, server: (
        read(["a", "b"], format="avro", registry=server.url, dead_letters="d")
    ),
    "the registry's subject is not known without a topic": lambda spark, server: (
        parsed_empty(spark, server, format="avro", subject=None)
    ),
    "parse has no option 'startingOffsets'": lambda spark, server: (
        parsed_empty(spark, server, format="avro", startingOffsets="x")
    ),
    "the schema has a field '_source'": lambda spark, server: (
        parsed_empty(spark, server, format="json", schema={"properties": {"_source": {"type": "string"}}})
    ),
    "write: column 'id' is int, and string is what the JSON Schema has: cast it": lambda spark, server: (
        written_empty(spark, server, "id int", format="json", schema=ORDER_JSON)
    ),
    "write: column 'place' has no field 'city', which the JSON Schema requires": lambda spark, server: (
        written_empty(spark, server, "id string, place struct<zip: string>", format="json", schema=ORDER_JSON)
    ),
    "write: column 'place' has a field 'zip', which the JSON Schema does not": lambda spark, server: (
        written_empty(
            spark, server, "id string, place struct<city: string, zip: int>", format="json", schema=ORDER_JSON
        )
    ),
    "the schema of 'orders-value': there is no column 'id'": lambda spark, server: (
        written_empty(spark, server, "amount double", format="json", schema=ORDER_JSON)
    ),
    "write: with a registry the schema of format 'json' is a JSON Schema": lambda spark, server: (
        written_empty(spark, server, "id string", format="json", schema="id string")
    ),
    "the schema does not fit those of the subject 'before'": lambda spark, server: (
        written_empty(spark, server, "id long", format="avro", subject="before",
                      schema={**OLD, "fields": [{"name": "id", "type": "long"}]})
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", UNUSABLE)
def test_what_cannot_be_is_refused_in_one_line_before_anything_runs(
    spark: SparkSession, server: RegistryServer, said: str
) -> None:
    server.add("before", OLD)
    with pytest.raises(RowsError) as raised:
        UNUSABLE[said](spark, server)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)
    assert server.store.subjects.get(SUBJECT) is None or "orders-value" in said
