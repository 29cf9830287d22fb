"""Spells messages out as JSON, to the letter as Apache's tools do."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from levada.model.hashes import uuid_to_text
from levada.protocol.declare import Struct
from levada.protocol.schema import FieldSpec, fields_of


def plain_of(message: object, version: int) -> dict[str, Any]:
    """The fields that the version has, those in tags only where they are not the default; bytes are base64."""
    # The decorators make structs of classes that the type checker takes for others.
    assert isinstance(message, Struct)
    return dict(_fields(message, version))


def json_text(plain: Any) -> str:
    """JSON without blanks; the json module would spell control characters in small letters."""
    if isinstance(plain, str):
        return f'"{plain.translate(_ESCAPES)}"'
    if isinstance(plain, dict):
        return f"{{{','.join(f'{json_text(name)}:{json_text(value)}' for name, value in plain.items())}}}"
    if isinstance(plain, list):
        return f"[{','.join(map(json_text, plain))}]"
    if plain is None:
        return "null"
    return str(plain).lower()


_ESCAPES = {
    **{number: f"\\u{number:04X}" for number in range(32)},
    **str.maketrans({'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}),
}


def _fields(message: Struct, version: int) -> Iterator[tuple[str, Any]]:
    for spec in fields_of(type(message)):
        value = getattr(message, spec.name)
        if spec.lives_in(version) and (spec.tag is None or not _is_default(spec, value)):
            yield _camel_case(spec.name), _plain_value(spec, value, version)


def _plain_value(spec: FieldSpec, value: Any, version: int) -> Any:
    if value is None:
        return None
    if spec.is_array:
        return [_plain_item(spec, item, version) for item in value]
    return _plain_item(spec, value, version)


def _plain_item(spec: FieldSpec, item: Any, version: int) -> Any:
    if spec.struct is not None:
        return plain_of(item, version)
    if spec.wire == "uuid":
        return uuid_to_text(item)
    if isinstance(item, bytes):
        return b64encode(item).decode()
    return item


def _is_default(spec: FieldSpec, value: Any) -> bool:
    return bool(value == (spec.default if spec.default_factory is None else spec.default_factory()))


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
