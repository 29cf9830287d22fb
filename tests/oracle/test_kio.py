"""Every declared message, in every version, has the bytes that the independent codec kio gives it."""

import datetime
import random
import uuid
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from io import BytesIO
from typing import Any

import pytest
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from levada.protocol.api import ApiKey, request_class, response_class
from levada.protocol.codec import decode, encode_bytes
from levada.protocol.declare import NO_UUID, Struct
from levada.protocol.messages import consumer_protocol, data
from levada.protocol.schema import FieldSpec, fields_of

ROUNDS = 10
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
ERRORS = [code.value for code in ErrorCode]


def declared() -> Iterator[tuple[type[Any], str, EntityType]]:
    for key in (one for one in ApiKey if not one.is_private):
        yield request_class(key), key.name.lower(), EntityType.request
        yield response_class(key), key.name.lower(), EntityType.response
    yield consumer_protocol.ConsumerProtocolSubscription, "consumer_protocol_subscription", EntityType.data
    yield consumer_protocol.ConsumerProtocolAssignment, "consumer_protocol_assignment", EntityType.data
    yield data.ControlRecordTypeSchema, "control_record_type_schema", EntityType.data
    yield data.DefaultPrincipalData, "default_principal_data", EntityType.data
    yield data.EndTxnMarker, "end_txn_marker", EntityType.data


@pytest.mark.parametrize(("cls", "name", "kind"), [pytest.param(*case, id=case[0].__name__) for case in declared()])
def test_bytes_equal_kios_in_both_directions(cls: type[Any], name: str, kind: EntityType) -> None:
    for version in cls.versions:
        peer = load_entity_schema(name, version, kind)  # type: ignore[arg-type]
        read, write = entity_reader(peer), entity_writer(peer)
        for round_ in range(ROUNDS):
            chance = random.Random(f"{cls.__name__} {version} {round_}")
            ours = random_struct(chance, cls, peer, version)
            encoded = encode_bytes(ours, version)
            theirs, size = read(encoded, 0)
            assert size == len(encoded), (version, ours)
            assert_same(ours, theirs, version)
            rewritten = BytesIO()
            write(rewritten, theirs)
            assert rewritten.getvalue() == encoded, (version, ours)
            decoded = decode(cls, version, memoryview(encoded))
            assert_same(decoded, theirs, version)
            assert encode_bytes(decoded, version) == encoded


def test_no_message_of_a_public_api_is_left_out() -> None:
    from kio.schema.index import api_key_map

    quorum_only = {52, 53, 54, 59, 70, 80, 81, 82}
    assert {int(key) for key in ApiKey if not key.is_private} == set(api_key_map) - quorum_only


def live_pairs(cls: type[Struct], peer: type[Any], version: int) -> list[tuple[FieldSpec, Any]]:
    """Our fields of a version beside kio's; both keep the wire order, kio drops units from some names."""
    ours = [spec for spec in fields_of(cls) if spec.lives_in(version)]
    theirs = fields(peer)
    assert len(ours) == len(theirs), (cls, version, [spec.name for spec in ours], [field.name for field in theirs])
    for spec, field in zip(ours, theirs):
        assert spec.name.replace("_", "").startswith(field.name.replace("_", "")), (spec.name, field.name)
    return list(zip(ours, theirs))


def random_struct(chance: random.Random, cls: type[Any], peer: type[Any], version: int) -> Any:
    values = {spec.name: random_field(chance, spec, field, version) for spec, field in live_pairs(cls, peer, version)}
    absent = {
        spec.name: (spec.default_factory() if spec.default_factory else spec.default)
        for spec in fields_of(cls)
        if spec.name not in values
    }
    return cls(**values, **absent)


def random_field(chance: random.Random, spec: FieldSpec, field: Any, version: int) -> Any:
    if spec.nullable_in(version) and chance.random() < 0.3:
        return None
    if spec.tag is not None and chance.random() < 0.3:
        return spec.default_factory() if spec.default_factory is list else spec.default
    if spec.is_array:
        return [random_value(chance, spec, field, version) for _ in range(chance.choice((0, 1, 1, 2, 3, 20)))]
    return random_value(chance, spec, field, version)


def random_value(chance: random.Random, spec: FieldSpec, field: Any, version: int) -> Any:
    if spec.struct is not None:
        return random_struct(chance, spec.struct, peer_struct(field.type), version)
    if field.metadata["kafka_type"] == "error_code":
        return chance.choice(ERRORS)
    if "timedelta" in field.metadata["kafka_type"] or "datetime" in field.metadata["kafka_type"]:
        return chance.randrange(2**31)
    match spec.wire:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.choice((0.0, -1.5, 1e300, chance.random()))
        case "uuid":
            return chance.choice((NO_UUID, chance.randbytes(16)))
        case "string":
            return "".join(chance.choice("aZ0-é中😀") for _ in range(chance.choice((0, 1, 5, 126, 127, 200))))
        case "bytes" | "records":
            return chance.randbytes(chance.choice((0, 1, 126, 127, 300)))
        case integer:
            bits = int(integer.lstrip("uint"))
            low, high = (0, 2**bits - 1) if integer[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            return chance.choice((low, high, 0 if low <= 0 else low, chance.randint(low, high)))


def peer_struct(hint: Any) -> type[Any]:
    """The dataclass somewhere inside a kio annotation."""
    if is_dataclass(hint):
        return hint  # type: ignore[return-value]
    found = [peer_struct(part) for part in getattr(hint, "__args__", ()) if part is not type(None) and part is not ...]
    assert len(found) == 1, hint
    return found[0]


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    for spec, field in live_pairs(type(ours), type(theirs), version):
        mine, other = getattr(ours, spec.name), getattr(theirs, field.name)
        if spec.tag is not None and spec.struct is not None and not spec.is_array and mine is None:
            mine = spec.struct()
        if spec.is_array and mine is None:
            assert other is None, spec.name
            continue
        if spec.is_array:
            assert len(mine) == len(other), spec.name
            pairs = list(zip(mine, other))
        else:
            pairs = [(mine, other)]
        for a, b in pairs:
            if is_dataclass(a):
                assert_same(a, b, version)
            else:
                assert a == plain(b, spec), (spec.name, a, b)


def plain(value: Any, spec: FieldSpec) -> Any:
    """A kio value as the wire's number, text or bytes."""
    if spec.wire == "uuid":
        return NO_UUID if value is None else value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, ErrorCode):
        return value.value
    assert not isinstance(value, uuid.UUID)
    return value
