"""Requests with very many elements in one of their arrays: each follows its schema, and none may hold the loop."""

import random
from collections.abc import Iterator
from typing import Any

from levada.broker.route import Route
from levada.protocol.codec import encode_bytes
from levada.protocol.declare import NO_UUID, Struct
from levada.protocol.schema import FieldSpec, fields_of
from tests.fuzz.streams import ROUTES, request

COUNTS = (1_001, 2_000, 5_000, 20_000, 50_000)
PLACES = frozenset(("partition", "partition_index", "index", "partition_indexes", "partitions", "partition_id"))
TOPIC_RESOURCE = 2


def large_request(chance: random.Random) -> tuple[str, bytes]:
    """What it is, and its frame."""
    route, path = chance.choice(ARRAYS)
    version, count = route.versions[-1], chance.choice(COUNTS)
    message = _made(route.message, path, version, count, 0)
    return f"{route.api_key.name} {'.'.join(path)} x {count}", request(route, version, encode_bytes(message, version))


def _arrays(cls: type[Struct], path: tuple[str, ...], version: int) -> Iterator[tuple[str, ...]]:
    for spec in fields_of(cls):
        if not spec.lives_in(version) or spec.tag is not None:
            continue
        here = (*path, spec.name)
        if spec.is_array:
            yield here
        if spec.struct is not None and (spec.is_array or not spec.nullable_in(version)):
            yield from _arrays(spec.struct, here, version)


ARRAYS: list[tuple[Route, tuple[str, ...]]] = [
    (route, path) for route in ROUTES.values() for path in _arrays(route.message, (), route.versions[-1])
]


def _made(cls: type[Any], path: tuple[str, ...], version: int, count: int, number: int) -> Any:
    """With so many elements at the end of a path, and one in every other array."""
    values: dict[str, Any] = {}
    for spec in fields_of(cls):
        if not spec.lives_in(version) or spec.tag is not None:
            continue
        rest = path[1:] if path[:1] == (spec.name,) else ()
        if spec.is_array:
            many = count if path == (spec.name,) else 1
            values[spec.name] = [_element(spec, rest, version, count, at) for at in range(many)]
        elif spec.struct is not None:
            values[spec.name] = None if spec.nullable_in(version) else _made(spec.struct, rest, version, count, number)
        else:
            values[spec.name] = _scalar(spec, number)
    return cls(**values)


def _element(spec: FieldSpec, path: tuple[str, ...], version: int, count: int, number: int) -> Any:
    return _scalar(spec, number) if spec.struct is None else _made(spec.struct, path, version, count, number)


def _scalar(spec: FieldSpec, number: int) -> Any:
    """A value that gets past the first look of a handler."""
    by_wire: dict[str, Any] = {
        "string": "consumer" if "protocol_type" in spec.name else f"{spec.name[:1]}{number}",
        "bytes": b"",
        "records": b"",
        "uuid": NO_UUID[:12] + number.to_bytes(4, "big"),
        "bool": False,
        "float64": 1.0,
    }
    if spec.wire in by_wire:
        return by_wire[spec.wire]
    if spec.name in PLACES:
        return number
    if spec.name == "resource_type":
        return TOPIC_RESOURCE
    return 30_000 if "timeout" in spec.name else 0
