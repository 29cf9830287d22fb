"""Schemas of values in Spark's workers: kept, bounded, waited for, and what makes dead letters or ends a query."""

import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry import Registry, registry_of
from levada.spark.rows.registry.avro import _reader, whole_text
from levada.spark.rows.registry.framing import prefix_of
from levada.spark.rows.registry.subjects import Registered, schema_by_id
from levada.spark.rows.registry.writers import Unusable, WriterSchemas
from tests.registries import RegistryServer, registry_server


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": each[0], "type": each[1]} for each in fields]}


class Time:
    """A clock that only sleeping moves; something may happen at some time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        self.then: dict[float, Any] = {}

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        for at in [at for at in self.then if at <= self.now_s]:
            self.then.pop(at)()


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as started:
        yield started


@pytest.fixture
def registry(server: RegistryServer) -> Registry:
    return registry_of(server.url, {"registry_wait": "10 minutes"})


def text_of(schema: Registered) -> str:
    return schema.text


def test_a_schema_is_asked_for_once_and_kept_within_a_bound(server: RegistryServer, registry: Registry) -> None:
    schemas = WriterSchemas(most=2)
    ids = [server.add(f"s{number}", record((f"f{number}", "int"))) for number in range(3)]
    for schema_id in (ids[0], ids[0], ids[1], ids[0], ids[2], ids[0]):
        schemas.of(registry, schema_id, "AVRO", text_of)
    assert len(server.asked) == 3
    schemas.of(registry, ids[1], "AVRO", text_of)
    assert len(server.asked) == 4


def test_an_id_that_is_not_known_is_asked_for_again_after_a_while(server: RegistryServer, registry: Registry) -> None:
    time = Time()
    schemas = WriterSchemas(clock=time.clock, sleep=time.sleep)
    for _ in range(3):
        with pytest.raises(Unusable, match="the registry has no schema 1, or none of those that it refers to"):
            schemas.of(registry, 1, "AVRO", text_of)
    assert len(server.asked) == 1
    server.add("s", record(("f", "int")))
    time.now_s += 11
    assert "R" in schemas.of(registry, 1, "AVRO", text_of)


def test_a_schema_of_another_type_or_without_use_is_the_values_fault(
    server: RegistryServer, registry: Registry
) -> None:
    schema_id = server.add("s", record(("f", "int")))
    with pytest.raises(Unusable, match="the schema 1 of the value is Avro, not JSON Schema"):
        WriterSchemas().of(registry, schema_id, "JSON", text_of)

    def refuse(schema: Registered) -> None:
        raise RecursionError("deep")

    with pytest.raises(Unusable, match="the schema 1 of the value cannot be used: RecursionError: deep"):
        WriterSchemas().of(registry, schema_id, "AVRO", refuse)
    server.raw = b'"' + b"x" * (8 << 20) + b'"'
    with pytest.raises(Unusable, match="the schema 1 is too large"):
        WriterSchemas().of(registry, schema_id, "AVRO", text_of)


def test_a_registry_that_is_away_is_waited_for_and_said(
    server: RegistryServer, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    time = Time()
    schemas = WriterSchemas(clock=time.clock, sleep=time.sleep)
    schema_id = server.add("s", record(("f", "int")))
    server.stop()
    fail = {"status": 503}
    time.then = {5.0: server.start, 100.0: lambda: server.__setattr__("status", None)}
    server.status = fail["status"]
    with caplog.at_level(logging.WARNING):
        assert schemas.of(registry, schema_id, "AVRO", text_of)
    assert 100 <= time.now_s < 120
    assert time.slept[:4] == [0.2, 0.4, 0.8, 1.6]
    assert max(time.slept) == 15.0
    said = [entry.getMessage() for entry in caplog.records]
    assert 3 <= len(said) <= 5
    assert said[0].startswith(f"waiting for the schema registry, 600 s at most: {server.url} cannot be reached: ")
    assert "answers 503" in said[-1]


def test_the_wait_has_an_end_that_ends_the_query(server: RegistryServer, registry: Registry) -> None:
    time = Time()
    server.stop()
    with pytest.raises(RowsError, match=r"was away for 600 s \(registry_wait\): .* cannot be reached") as raised:
        WriterSchemas(clock=time.clock, sleep=time.sleep).of(registry, 1, "AVRO", text_of)
    assert type(raised.value) is RowsError
    assert time.now_s == 600


def test_a_login_that_is_refused_ends_the_query_at_once(server: RegistryServer) -> None:
    server.login = ("ann", "right")
    time = Time()
    wrong = registry_of(server.url_with("ann:wrong"))
    with pytest.raises(RowsError, match="refuses the login") as raised:
        WriterSchemas(clock=time.clock, sleep=time.sleep).of(wrong, 1, "AVRO", text_of)
    assert time.slept == []
    assert "wrong" not in str(raised.value)


def test_two_logins_do_not_share_what_is_kept(server: RegistryServer) -> None:
    schemas = WriterSchemas()
    schema_id = server.add("s", record(("f", "int")))
    schemas.of(registry_of(server.url_with("ann:a")), schema_id, "AVRO", text_of)
    server.login = ("ann", "a")
    with pytest.raises(RowsError, match="refuses the login"):
        schemas.of(registry_of(server.url_with("bob:b")), schema_id, "AVRO", text_of)


def test_avro_is_read_by_the_rules_between_its_schema_and_the_readers(
    server: RegistryServer, registry: Registry
) -> None:
    old = server.add("s", record(("id", "string"), ("n", "int"), ("gone", "string")))
    other = server.add("t", record(("id", "string"), name="Other"))
    wanted = record(("id", "string"), ("n", "long"))
    wanted["fields"].append({"name": "tag", "type": "string", "default": "none"})
    read = _reader(json.dumps(wanted), registry)
    assert read(prefix_of(old) + b"\x02a\x0e\x02g") == ({"id": "a", "n": 7, "tag": "none"}, None)
    for value, said in (
        (prefix_of(old) + b"\x02a\x0e", "the value is not Avro of its schema 1: "),
        (prefix_of(old) + b"\x02a\x0e\x02gx", "1 of its 11 bytes are left over"),
        (prefix_of(other) + b"\x02a", "the value cannot be read as the subject's schema from its schema 2: "),
        (prefix_of(99) + b"\x02a", "the registry has no schema 99"),
        (b"\x02a\x0e\x02g", "the value has no schema id before it: its first byte is 2"),
    ):
        record_read, problem = read(value)
        assert record_read is None
        assert problem is not None
        assert said in problem
        assert len(problem) < 400


def test_schemas_that_are_referred_to_are_put_where_they_are_used_first(
    server: RegistryServer, registry: Registry
) -> None:
    money = {**record(("cents", "long"), name="Money"), "namespace": "bank"}
    plain = record(("x", "int"), name="Plain")
    server.add("money", money)
    server.add("plain", plain)
    order = {
        **record(("a", "bank.Money"), ("b", ["null", "bank.Money"]), ("c", {"type": "array", "items": "Plain"})),
        "namespace": "shop",
    }
    references = [
        {"name": "bank.Money", "subject": "money", "version": 1},
        {"name": "Plain", "subject": "plain", "version": 1},
    ]
    found = json.loads(whole_text(schema_by_id(registry, server.add("order", order, references=references), "AVRO")))
    assert [field["type"] for field in found["fields"]] == [
        money,
        ["null", "bank.Money"],
        {"type": "array", "items": {**plain, "namespace": ""}},
    ]
    read = _reader(json.dumps(found), registry)
    assert read(prefix_of(3) + b"\x02\x00\x02\x0a\x00") == ({"a": {"cents": 1}, "b": None, "c": [{"x": 5}]}, None)


def test_a_schema_that_refers_to_very_many_others_is_the_values_fault(
    server: RegistryServer, registry: Registry
) -> None:
    references = []
    for number in range(201):
        server.add(f"s{number}", record((f"f{number}", "int"), name=f"R{number}"))
        references.append({"name": f"R{number}", "subject": f"s{number}", "version": 1})
    schema_id = server.add("order", record(("a", "R0"), name="Order"), references=references)
    with pytest.raises(
        Unusable, match=f"the schema {schema_id} of the value cannot be used: it refers to more than 200"
    ):
        WriterSchemas().of(registry, schema_id, "AVRO", text_of)


def long_of(number: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    return stream.getvalue()


EMPTY = {"type": "array", "items": "null"}
NOTHING = record(name="Nothing")


@pytest.mark.parametrize(
    "items",
    ["null", NOTHING, {"type": "fixed", "size": 0, "name": "F"}, record(("a", "null"), ("b", NOTHING), name="Two")],
)
@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_value_has_no_more_items_without_bytes_than_fit_into_memory(
    server: RegistryServer, registry: Registry, items: Any, is_wanted: bool
) -> None:
    """Also where only the writer's schema has them, so that they are passed over."""
    written = record(("many", {"type": "array", "items": items}), ("x", "int"))
    wanted = written if is_wanted else record(("x", "int"))
    read = _reader(json.dumps(wanted), registry)
    prefix = prefix_of(server.add("s", written))
    found, problem = read(prefix + long_of(3) + long_of(-2) + long_of(0) + b"\0\x0a")
    assert problem is None
    assert found["x"] == 5
    if is_wanted:
        assert len(found["many"]) == 5
    began = time.monotonic()
    for count in (100_000_000, -100_000_000):
        found, problem = read(prefix + long_of(count) + (long_of(0) if count < 0 else b"") + b"\0\x0a")
        assert found is None
        assert (
            problem
            == "the value is not Avro of its schema 1: ValueError: more than 10000 items of arrays have no bytes"
        )
    assert time.monotonic() - began < 1


def test_values_around_items_without_bytes_are_walked_over(server: RegistryServer, registry: Registry) -> None:
    node = record(
        ("next", ["null", "Node"]),
        ("tags", {"type": "map", "values": "string"}),
        ("list", {"type": "array", "items": ["null", "double"]}),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("rest", {"type": "array", "items": EMPTY}),
        ("b", "bytes"), ("f", {"type": "fixed", "name": "Four", "size": 4}), ("t", "boolean"), ("g", "float"),
        name="Node",
    )  # fmt: skip
    leaf = {"next": None, "tags": {"a": "b"}, "list": [None, 1.5], "e": "B", "rest": [[None], []],
            "b": b"xyz", "f": b"1234", "t": True, "g": 0.5}  # fmt: skip
    value = {**leaf, "next": leaf}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(node), value)
    read = _reader(json.dumps(node), registry)
    assert read(prefix_of(server.add("s", node)) + stream.getvalue()) == (value, None)
    assert read(prefix_of(1) + stream.getvalue()[:-3])[0] is None
