"""Keys and values to bytes and back: by a name, by the name of Java's class, or by a callable of the user's.

A serializer is a callable that takes a value and returns bytes (or None, which is a tombstone); a deserializer takes
bytes. Neither is asked about None: a record without a key or value has none on either side.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from levada.client.errors import ConfigurationError, SerializationFailed

Serializer: TypeAlias = Callable[[Any], bytes | None]
Deserializer: TypeAlias = Callable[[bytes], Any]

_BUFFERS = (bytes, bytearray, memoryview)


def resolve_serializer(value: object) -> Serializer | None:
    """The callable that `key.serializer` or `value.serializer` stands for; None passes bytes through.

    >>> resolve_serializer("int")(7)
    b'\\x00\\x00\\x00\\x07'
    """
    found: Serializer | None = _resolve(value, _SERIALIZERS, "Serializer")
    return found


def resolve_deserializer(value: object) -> Deserializer | None:
    """The callable that `key.deserializer` or `value.deserializer` stands for; None passes bytes through."""
    found: Deserializer | None = _resolve(value, _DESERIALIZERS, "Deserializer")
    return found


def serialize(serializer: Serializer | None, value: Any, topic: str, part: str = "value") -> bytes | None:
    """A record's key or value as bytes; SerializationFailed says what could not be, and how it could."""
    if value is None or (serializer is None and type(value) is bytes):
        return value
    try:
        data: Any = _pass_bytes(value, part) if serializer is None else serializer(value)
    except Exception as error:
        text = f"the {part} of a record for topic {topic!r} could not be serialized: {_said(error)}"
        raise SerializationFailed(text, topic=topic) from error
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, _BUFFERS):
        return bytes(data)
    text = f"the {part} serializer for topic {topic!r} must return bytes, not {type(data).__name__}"
    raise SerializationFailed(text, topic=topic)


def deserialize(
    deserializer: Deserializer | None, data: bytes | None, topic: str, partition: int, offset: int, part: str = "value"
) -> Any:
    """What a fetched key or value stands for; SerializationFailed names the record, so that one can seek past it."""
    if data is None or deserializer is None:
        return data
    try:
        return deserializer(data)
    except Exception as error:
        text = (
            f"the {part} of the record at offset {offset} of {topic}-{partition} could not be deserialized: "
            f"{_said(error)}; seek to {offset + 1} to go on without it"
        )
        raise SerializationFailed(text, topic=topic, partition=partition, offset=offset) from error


def advice(value: object, part: str) -> str:
    """What to do with a key or value that is not bytes.

    >>> advice("text", "value")
    'encode it, or give the producer a serializer: value_serializer=str.encode'
    """
    fitting = "str.encode" if isinstance(value, str) else '"json"' if isinstance(value, dict | list) else "..."
    return f"encode it, or give the producer a serializer: {part}_serializer={fitting}"


def _resolve(value: object, known: dict[str, Any], what: str) -> Any:
    if value is None:
        return None
    name = _TYPES.get(value) if isinstance(value, type) else value
    if isinstance(name, str):
        name = name.strip()
        short = name.removeprefix("org.apache.kafka.common.serialization.")
        if short != name and short.endswith(what):
            name = _JAVA.get(short.removesuffix(what), name)
        if name in known:
            return known[name]
        raise ConfigurationError(f"must be one of {', '.join(known)}, a callable or one of Java's own, not {value!r}")
    if callable(value):
        return value
    raise ConfigurationError(f"must be a name or a callable, not {value!r}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _pass_bytes(value: object, part: str) -> bytes:
    if isinstance(value, _BUFFERS):
        return bytes(value)
    raise TypeError(f"a {type(value).__name__} is not bytes; {advice(value, part)}")


def _from_str(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is not a str")
    return value.encode()


def _to_str(data: bytes) -> str:
    return str(data, "utf-8")


def _from_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _packer(layout: str) -> Serializer:
    return struct.Struct(layout).pack


def _unpacker(layout: str) -> Deserializer:
    unpack = struct.Struct(layout).unpack
    return lambda data: unpack(data)[0]


# Big endian, as Java's serializers write them.
_NUMBERS = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}

_SERIALIZERS: dict[str, Serializer | None] = {
    "bytes": None,
    "str": _from_str,
    "json": _from_json,
    **{name: _packer(layout) for name, layout in _NUMBERS.items()},
}
_DESERIALIZERS: dict[str, Deserializer | None] = {
    "bytes": None,
    "str": _to_str,
    "json": json.loads,
    **{name: _unpacker(layout) for name, layout in _NUMBERS.items()},
}
_JAVA = {
    "ByteArray": "bytes",
    "ByteBuffer": "bytes",
    "Bytes": "bytes",
    "String": "str",
    "Short": "short",
    "Integer": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
}
# The types themselves are callable and would do something else: bytes(7) is seven zeros.
_TYPES: dict[type, str] = {bytes: "bytes", str: "str", int: "int"}
