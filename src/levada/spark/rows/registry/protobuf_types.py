"""Protobuf messages as Spark's structs; the package `protobuf` is loaded only where one is used."""

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry.subjects import Registered

UNSIGNED_LONG: Final = DecimalType(20, 0)
"""Spark has no whole numbers without a sign; half of these would be negative."""

PRIMITIVES: Final[Mapping[str, DataType]] = {
    "DOUBLE": DoubleType(), "FLOAT": FloatType(), "BOOL": BooleanType(), "STRING": StringType(),
    "BYTES": BinaryType(), "ENUM": StringType(),
    "INT32": IntegerType(), "SINT32": IntegerType(), "SFIXED32": IntegerType(),
    "INT64": LongType(), "SINT64": LongType(), "SFIXED64": LongType(),
    "UINT32": LongType(), "FIXED32": LongType(), "UINT64": UNSIGNED_LONG, "FIXED64": UNSIGNED_LONG,
}  # fmt: skip

TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages with a field `value`, from before fields could be absent."""

KNOWN_FILE: Final = re.compile(r"google/protobuf/[a-z_]+\.proto")
ROOT: Final = "levada/registered.proto"
"""What the schema's own file is called: in a registry it need not have a name."""


MOST_FIELDS: Final = 10_000
"""That are looked at once, and not with each value."""


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message of a schema: what it is made of, and its place among the others."""

    text: str
    references: tuple[tuple[str, str], ...]
    name: str
    indexes: tuple[int, ...]
    struct: StructType
    required: frozenset[str]
    """Fields that every value must have, of which younger schemas have none."""


def message_type(schema: Registered, name: str | None) -> MessageType:
    """The message of that name, or the first of the schema; RowsError for what is none or Spark has no types for."""
    file = file_of(schema.text, schema.references)
    messages = messages_of(file)
    chosen = name or next(iter(messages.values()), None)
    found = next((indexes for indexes, known in messages.items() if chosen in (known, known.rpartition(".")[2])), None)
    if found is None:
        known_names = ", ".join(messages.values()) or "none"
        raise RowsError(f"the Protobuf schema has no message {name!r}; it has {known_names}")
    full_name = messages[found]
    descriptor = file.pool.FindMessageTypeByName(full_name)
    struct = _struct(descriptor, ())
    if not struct.fields:
        raise RowsError(f"the Protobuf message {full_name!r} has no fields")
    required = frozenset(field.name for field in descriptor.fields if field.is_required)
    return MessageType(schema.text, schema.references, full_name, found, struct, required)


@lru_cache(maxsize=64)
def file_of(text: str, references: tuple[tuple[str, str], ...]) -> Any:
    """The descriptor of a schema's file, in a pool of its own with all that it imports."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    try:
        for name, other in references:
            _add(pool, _proto(other), name)
        _add(pool, _proto(text), ROOT)
        return pool.FindFileByName(ROOT)
    except (KeyError, TypeError) as error:
        raise RowsError(f"the Protobuf schema cannot be used: {' '.join(str(error).split())}") from None


def messages_of(file: Any) -> dict[tuple[int, ...], str]:
    """Full names of all messages of a file, by their indexes, those outside first."""
    return _messages(list(file.message_types_by_name.values()), ())


@lru_cache(maxsize=MOST_FIELDS)
def is_map(field: Any) -> bool:
    return bool(field.type == field.TYPE_MESSAGE and field.message_type.GetOptions().map_entry)


def require_protobuf() -> None:
    try:
        import_module("google.protobuf.descriptor_pool")
    except ImportError:
        raise RowsError("format 'protobuf' needs the package protobuf: pip install 'levada[protobuf]'") from None


@lru_cache(maxsize=MOST_FIELDS)
def type_name(field: Any) -> str:
    """`INT32` of a field that Protobuf calls 5."""
    return next(name for name in (*PRIMITIVES, "MESSAGE", "GROUP") if getattr(field, f"TYPE_{name}") == field.type)


def _messages(descriptors: Sequence[Any], outer: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    """Java's clients do not count the messages that maps are made of, Python's do; where the two differ, Java's win."""
    alone = [each for each in descriptors if not each.GetOptions().map_entry]
    found = {(*outer, index): each.full_name for index, each in enumerate(alone)}
    for index, each in enumerate(alone):
        found |= _messages(list(each.nested_types), (*outer, index))
    for index, each in enumerate(descriptors):
        if each in alone:
            found.setdefault((*outer, index), each.full_name)
    return found


def _proto(text: str) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (ValueError, DecodeError):
        raise RowsError("the registry gives no descriptors of Protobuf schemas (?format=serialized)") from None


def _add(pool: Any, proto: Any, name: str) -> None:
    """What is imported for options alone, such as rules for values, is not needed, and often in no registry."""
    proto.name = name
    missing = [imported for imported in proto.dependency if not _is_known(pool, imported)]
    public = [proto.dependency[index] for index in proto.public_dependency]
    kept = [imported for imported in proto.dependency if imported not in missing]
    for field in ("dependency", "public_dependency", "weak_dependency"):
        proto.ClearField(field)
    proto.dependency.extend(kept)
    proto.public_dependency.extend(kept.index(imported) for imported in public if imported in kept)
    try:
        pool.Add(proto)
    except TypeError:
        if not missing:
            raise
        raise RowsError(
            f"the Protobuf schema imports {missing[0]!r}, which is not among its references in the registry"
        ) from None


def _is_known(pool: Any, name: str) -> bool:
    """Whether the pool has the file; Protobuf's own are put into it, as they are in no registry."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    try:
        pool.FindFileByName(name)
        return True
    except KeyError:
        pass
    if KNOWN_FILE.fullmatch(name) is None:
        return False
    try:
        import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        known = descriptor_pool.Default().FindFileByName(name)
    except (ImportError, KeyError):
        return False
    proto = descriptor_pb2.FileDescriptorProto()
    known.CopyToProto(proto)
    _add(pool, proto, name)
    return True


def _struct(descriptor: Any, around: tuple[str, ...]) -> StructType:
    if descriptor.full_name in around:
        raise RowsError(f"the Protobuf message {descriptor.full_name!r} contains itself, which a table cannot show")
    inside = (*around, descriptor.full_name)
    return StructType([StructField(field.name, *_kind(field, inside)) for field in descriptor.fields])


def _kind(field: Any, around: tuple[str, ...]) -> tuple[DataType, bool]:
    """The type, and whether it may be null."""
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return MapType(_alone(key, around), _alone(value, around), False), False
    if field.is_repeated:
        return ArrayType(_alone(field, around), False), False
    return _alone(field, around), field.has_presence and not field.is_required and not field.has_default_value


def _alone(field: Any, around: tuple[str, ...]) -> DataType:
    name = type_name(field)
    if name not in ("MESSAGE", "GROUP"):
        return PRIMITIVES[name]
    message = field.message_type
    if message.full_name == TIMESTAMP:
        return TimestampType()
    if message.full_name == DURATION:
        return DayTimeIntervalType()
    if message.full_name in WRAPPERS:
        return PRIMITIVES[type_name(message.fields_by_name["value"])]
    return _struct(message, around)
