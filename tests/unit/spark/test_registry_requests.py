"""Requests to a registry: what its answers mean, that they are bounded, and that no login is ever shown."""

import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry import registry_of, schema_source
from levada.spark.rows.registry.requests import Invalid, NotThere, RegistryAway, TooLarge, Unfit, ask
from levada.spark.rows.registry.subjects import latest, refusal_of, registered, schema_by_id
from tests.protobufs import protobuf
from tests.registries import RegistryServer, registry_server

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "string"}]}
SECRET = "s3cr&t/?"
QUOTED = "s3cr%26t%2F%3F"


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as started:
        yield started


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_trouble_of_its_own_may_pass(server: RegistryServer, status: int) -> None:
    server.status = status
    with pytest.raises(RegistryAway, match=f"answers {status}: as the test wants it"):
        ask(registry_of(server.url), "GET", "/subjects")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "refuses the login (401): check registry_user and registry_password"),
        (403, "forbids this user GET /subjects (403): let its operator allow it"),
        (301, "leads elsewhere (301): give the address that it leads to"),
        (400, "answers GET /subjects with 400: as the test wants it"),
    ],
)
def test_a_refusal_stays(server: RegistryServer, status: int, said: str) -> None:
    server.status = status
    with pytest.raises(RowsError) as raised:
        ask(registry_of(server.url), "GET", "/subjects")
    assert type(raised.value) is RowsError
    assert str(raised.value) == f"{server.url} {said}"


@pytest.mark.parametrize(("status", "kind"), [(409, Unfit), (422, Invalid)])
def test_a_schema_that_is_not_taken_is_told_apart(server: RegistryServer, status: int, kind: type[RowsError]) -> None:
    server.status = status
    with pytest.raises(kind, match="as the test wants it"):
        ask(registry_of(server.url), "GET", "/subjects")


def test_what_is_not_there_is_told_apart_from_a_proxy_without_a_registry(server: RegistryServer) -> None:
    registry = registry_of(server.url)
    with pytest.raises(NotThere):
        ask(registry, "GET", "/schemas/ids/7")
    with pytest.raises(RegistryAway, match="answers 404 and is no schema registry"):
        ask(registry, "GET", "/nothing/of/a/registry")


@pytest.mark.parametrize("raw", [b"<html></html>", b"", b"null", b"[" * 100_000])
def test_an_answer_that_is_no_json_is_no_registrys(server: RegistryServer, raw: bytes) -> None:
    server.raw = raw
    with pytest.raises(RegistryAway, match="is no schema registry"):
        ask(registry_of(server.url), "GET", "/subjects")


@pytest.mark.parametrize("raw", [b"[]", b"{}", b'{"schema": 3}', b'{"schema": "{}", "references": [{}]}', b'"x"'])
def test_an_answer_of_another_shape_is_no_registrys(server: RegistryServer, raw: bytes) -> None:
    server.raw = raw
    with pytest.raises(RegistryAway, match="no schema registry"):
        schema_by_id(registry_of(server.url), 1, "AVRO")


def test_answers_are_bounded_in_size_and_in_time(server: RegistryServer) -> None:
    registry = registry_of(server.url)
    server.raw = b'"' + b"x" * (8 << 20) + b'"'
    with pytest.raises(TooLarge, match="more than 8 MiB"):
        ask(registry, "GET", "/subjects")
    server.raw, server.slow_s = None, 5.0
    began = time.monotonic()
    with pytest.raises(RegistryAway, match=r"gives no answer within 0\.3 s"):
        ask(registry, "GET", "/subjects", limit_s=0.3)
    server.slow_s, server.drip_s, server.raw = 0.0, 0.1, b'"' + b"x" * 100 + b'"'
    with pytest.raises(RegistryAway, match=r"gives no answer within 0\.3 s"):
        ask(registry, "GET", "/subjects", limit_s=0.3)
    assert time.monotonic() - began < 4


def test_a_registry_that_is_not_there_is_away(server: RegistryServer) -> None:
    server.stop()
    with pytest.raises(RegistryAway, match="cannot be reached: Connection refused"):
        ask(registry_of(server.url), "GET", "/subjects")


def test_a_login_comes_from_the_address_or_from_options(server: RegistryServer) -> None:
    server.login = ("ann", SECRET)
    for registry in (
        registry_of(server.url_with(f"ann:{QUOTED}")),
        registry_of(server.url, {"registry_user": "ann", "registry_password": SECRET}),
    ):
        assert ask(registry, "GET", "/subjects") == []
        for shown in (repr(registry), str(registry), registry.shown):
            assert SECRET not in shown
            assert QUOTED not in shown
            assert "ann" not in shown
    with pytest.raises(RowsError, match="refuses the login") as raised:
        ask(registry_of(server.url_with(f"bob:{QUOTED}")), "GET", "/subjects")
    assert QUOTED not in str(raised.value)


def test_a_registry_may_be_below_a_path() -> None:
    with registry_server("/apis/ccompat/v7") as server:
        registry = registry_of(f"{server.url}/")
        assert ask(registry, "GET", "/subjects") == []
        assert registry.shown == server.url


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        ("localhost:8081", {}, "must be one http or https address"),
        ("ftp://ann:hush@h", {}, "must be one http or https address"),
        ("http://ann:hush@h:1,http://h:2", {}, "not a URL"),
        ("http://ann:hu/sh@h:8081", {}, "not a URL"),
        ("http://ann:hush@h:8081?x=1", {}, "must end before any"),
        ("http://[ann:hush@h", {}, "not a URL"),
        ("http://ann:hush@h", {"registry_user": "b"}, "give it once"),
        ("http://h", {"registry_password": "hush"}, "registry_password needs a registry_user"),
        (
            "http://h",
            {"registry_pasword": "hush"},
            "unknown option 'registry_pasword'; did you mean registry_password?",
        ),
        ("http://h", {"registry_wait": "often"}, "registry_wait must be a length of time"),
        ("http://h", {"registry_ca": "ca.pem"}, "registry_ca is for https"),
        ("https://h", {"registry_ca": "no/such/ca.pem"}, "registry_ca: cannot read no/such/ca.pem"),
    ],
)
def test_a_wrong_address_is_refused_without_being_shown(address: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(RowsError) as raised:
        registry_of(address, options)
    assert said in str(raised.value)
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_options_without_a_registry_are_refused_and_those_with_one_are_taken() -> None:
    options = {"registry_user": "ann", "startingOffsets": "earliest"}
    with pytest.raises(RowsError, match="registry_user is for a schema registry; name that as well"):
        schema_source(None, None, None, dict(options))
    source = schema_source("http://h", "s", None, options)
    assert source is not None
    assert (source.registry.user, options) == ("ann", {"startingOffsets": "earliest"})


def test_a_certificate_must_be_trusted(server: RegistryServer, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.stop()
    server.tls = context
    server.start()
    assert ask(registry_of(server.url, {"registry_ca": str(certificate)}), "GET", "/subjects") == []
    with pytest.raises(
        RowsError, match=r"certificate of https://127\.0\.0\.1:.* is not trusted .* registry_ca="
    ) as raised:
        ask(registry_of(server.url), "GET", "/subjects")
    assert not isinstance(raised.value, RegistryAway)


def test_a_schema_is_registered_once_and_found_after_that(server: RegistryServer) -> None:
    registry = registry_of(server.url)
    text = '{"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}'
    first = registered(registry, "a/b value", "AVRO", text)
    asked = len(server.asked)
    assert registered(registry, "a/b value", "AVRO", text) == first
    assert server.asked[asked:] == ["POST /subjects/a%2Fb%20value"]
    assert latest(registry, "a/b value", "AVRO").text == text


def test_a_schema_that_does_not_fit_is_refused_with_what_to_do(server: RegistryServer) -> None:
    registry = registry_of(server.url)
    server.add("orders-value", ORDER)
    changed = '{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}'
    said = (
        f"the schema does not fit those of the subject 'orders-value' at {server.url} (the type of field 'id' has "
        "changed): change it so that it does, write to another subject=..., or let its operator change the subject's "
        "compatibility"
    )
    with pytest.raises(RowsError) as raised:
        registered(registry, "orders-value", "AVRO", changed)
    assert str(raised.value) == said
    assert refusal_of(registry, "orders-value", "AVRO", changed) == said
    assert refusal_of(registry, "new-value", "AVRO", changed) is None
    with pytest.raises(RowsError, match=f"{server.url} does not take the schema: Invalid schema"):
        registered(registry, "new-value", "AVRO", '{"type": "recor"}')
    assert list(server.store.subjects) == ["orders-value"]


def test_a_subject_that_is_not_there_or_of_another_kind_is_named(server: RegistryServer) -> None:
    registry = registry_of(server.url)
    with pytest.raises(RowsError, match=r"has no subject 'orders-value': give schema=\.\.\., or name one"):
        latest(registry, "orders-value", "AVRO")
    server.add("orders-value", ORDER)
    with pytest.raises(RowsError, match="the subject 'orders-value' is Avro, and JSON Schema is asked for"):
        latest(registry, "orders-value", "JSON")


@pytest.mark.parametrize("gives_descriptors", [True, False])
def test_descriptors_of_protobuf_are_asked_for_where_they_are_not_given(
    server: RegistryServer, gives_descriptors: bool
) -> None:
    server.gives_descriptors = gives_descriptors
    descriptor = protobuf('name: "a" syntax: "proto3"')
    server.add("base", descriptor, "PROTOBUF")
    uses_it = protobuf('name: "b" syntax: "proto3" dependency: "a.proto"')
    schema_id = server.add("own", uses_it, "PROTOBUF", [{"name": "a.proto", "subject": "base", "version": 1}])
    found = schema_by_id(registry_of(server.url), schema_id, "PROTOBUF")
    assert (found.text, found.references) == (uses_it, (("a.proto", descriptor),))
    assert any("format=serialized" in asked for asked in server.asked) == gives_descriptors


def test_references_are_followed_each_once_and_not_for_ever(server: RegistryServer) -> None:
    registry = registry_of(server.url)
    server.add("a", ORDER)
    b = {"type": "record", "name": "B", "fields": [{"name": "a", "type": "shop.Order"}]}
    server.add("b", b, references=[{"name": "shop.Order", "subject": "a", "version": 1}])
    c = {"type": "record", "name": "C", "fields": [{"name": "b", "type": "B"}, {"name": "a", "type": "shop.Order"}]}
    both = [{"name": "B", "subject": "b", "version": 1}, {"name": "shop.Order", "subject": "a", "version": 1}]
    schema_id = server.add("c", c, references=both)
    found = schema_by_id(registry, schema_id, "AVRO")
    assert [name for name, _ in found.references] == ["shop.Order", "B"]
    # One that refers to itself.
    server.store.schemas[0].references.append({"name": "B", "subject": "b", "version": 1})
    assert {name for name, _ in schema_by_id(registry, schema_id, "AVRO").references} == {"shop.Order", "B"}
