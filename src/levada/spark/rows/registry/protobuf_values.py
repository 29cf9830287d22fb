"""Protobuf values behind schema ids as columns and back."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

from pyspark.sql import Column

from levada.spark.rows import arrow_values
from levada.spark.rows.arrow_values import ReadOne, WriteOne, told
from levada.spark.rows.registry.address import Registry
from levada.spark.rows.registry.framing import NotFramed, message_indexes_of, schema_id_of
from levada.spark.rows.registry.protobuf_types import (
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    MessageType,
    file_of,
    is_map,
    messages_of,
    type_name,
)
from levada.spark.rows.registry.subjects import KINDS, Registered
from levada.spark.rows.registry.writers import Unusable, writer_schemas

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def decoded(value: Column, wanted: MessageType, registry: Registry) -> Column:
    """A struct of `value`, the message's fields, and `problem`, why there are none."""
    return arrow_values.decoded(
        value, wanted.struct, partial(_reader, wanted.text, wanted.references, wanted.name, registry)
    )


def encoded(record: Column, wanted: MessageType, prefix: bytes) -> Column:
    """A struct of `value`, bytes or null, and `problem`, why there are none; both null for a null record."""
    make_writer = partial(_writer, wanted.text, wanted.references, wanted.name, prefix)
    return arrow_values.encoded(record, "Protobuf message", make_writer)


def parsed(message: Any, data: bytes) -> dict[str, Any]:
    """The fields of an empty message that is filled with the bytes; raises what is wrong with them."""
    message.ParseFromString(data)
    if not message.IsInitialized():
        raise ValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
    return fields_of(message)


def fields_of(message: Any) -> dict[str, Any]:
    """ValueError for a field that was written as something else than it is read as."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    descriptor = message.DESCRIPTOR
    for unknown in UnknownFieldSet(message):
        known = descriptor.fields_by_number.get(unknown.field_number)
        if known is not None:
            raise ValueError(f"field {known.name!r} was written with another type, or a name that its enum has not")
    return {field.name: _field_of(message, field) for field in descriptor.fields}


def fill(message: Any, record: Mapping[str, Any]) -> None:
    """Null is a field that is not set; fields that the record has not are not set either."""
    for field in message.DESCRIPTOR.fields:
        value = record.get(field.name)
        if value is None:
            continue
        try:
            _fill_field(message, field, value)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"field {field.name!r}: {error}") from None


def _reader(text: str, references: tuple[tuple[str, str], ...], name: str, registry: Registry) -> ReadOne:
    make = _message_class(text, references, name)

    def read(value: bytes) -> tuple[Any, str | None]:
        try:
            schema_id = schema_id_of(value)
            messages = writer_schemas().of(registry, schema_id, KINDS["protobuf"], _written_messages)
            indexes, start = message_indexes_of(value)
        except (NotFramed, Unusable) as error:
            return None, str(error)
        written = messages.get(indexes)
        if written != name:
            found = f"the message {written}" if written else f"no message of the schema {schema_id}"
            return None, f"the value is {found}, and {name} is read"
        try:
            return parsed(make(), value[start:]), None
        except Exception as error:  # Of the parser, and of numbers and times that Python has not.
            return None, f"the value is not Protobuf of {name}: {told(error)}"

    return read


def _written_messages(schema: Registered) -> dict[tuple[int, ...], str]:
    return messages_of(file_of(schema.text, schema.references))


def _writer(text: str, references: tuple[tuple[str, str], ...], name: str, prefix: bytes) -> WriteOne:
    make = _message_class(text, references, name)

    def write(record: dict[str, Any]) -> bytes:
        message = make()
        fill(message, record)
        written: bytes = message.SerializeToString()
        return prefix + written

    return write


@lru_cache(maxsize=64)
def _message_class(text: str, references: tuple[tuple[str, str], ...], name: str) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(file_of(text, references).pool.FindMessageTypeByName(name))


def _field_of(message: Any, field: Any) -> Any:
    if is_map(field):
        value_field = field.message_type.fields_by_name["value"]
        found = getattr(message, field.name)
        return [(key, _value_of(value_field, found[key])) for key in found]
    if field.is_repeated:
        return [_value_of(field, each) for each in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name) and not field.has_default_value:
        return None
    return _value_of(field, getattr(message, field.name))


def _value_of(field: Any, value: Any) -> Any:
    if not _is_message(field):
        if field.type == field.TYPE_ENUM:
            named = field.enum_type.values_by_number.get(value)
            if named is None:
                raise ValueError(f"field {field.name!r} has the number {value}, which its enum has no name for")
            return named.name
        return Decimal(value) if field.type in (field.TYPE_UINT64, field.TYPE_FIXED64) else value
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
    if name == DURATION:
        # Towards zero on both sides of it, where a division would go down.
        return timedelta(seconds=value.seconds, microseconds=int(value.nanos / 1_000))
    if name in WRAPPERS:
        return _value_of(value.DESCRIPTOR.fields_by_name["value"], value.value)
    return fields_of(value)


def _is_message(field: Any) -> bool:
    return type_name(field) in ("MESSAGE", "GROUP")


def _fill_field(message: Any, field: Any, value: Any) -> None:
    if is_map(field):
        _fill_map(getattr(message, field.name), field, value)
    elif field.is_repeated:
        _fill_list(getattr(message, field.name), field, value)
    elif _is_message(field):
        getattr(message, field.name).SetInParent()
        _fill_message(getattr(message, field.name), value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _fill_map(entries: Any, field: Any, value: Mapping[Any, Any]) -> None:
    key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    for key, each in value.items():
        _refuse_null(each)
        if _is_message(value_field):
            _fill_message(entries[_scalar(key_field, key)], each)
        else:
            entries[_scalar(key_field, key)] = _scalar(value_field, each)


def _fill_list(items: Any, field: Any, value: list[Any]) -> None:
    for each in value:
        _refuse_null(each)
        if _is_message(field):
            _fill_message(items.add(), each)
        else:
            items.append(_scalar(field, each))


def _refuse_null(value: Any) -> None:
    if value is None:
        raise ValueError("a part of it is null, which Protobuf cannot say")


def _fill_message(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name in (TIMESTAMP, DURATION):
        message.seconds, message.nanos = _seconds_and_nanos(value, name)
    elif name in WRAPPERS:
        message.value = _scalar(message.DESCRIPTOR.fields_by_name["value"], value)
    else:
        fill(message, value)


def _seconds_and_nanos(value: Any, name: str) -> tuple[int, int]:
    """A duration's parts have one sign, a timestamp's nanoseconds none."""
    if name == DURATION:
        microseconds = value // MICROSECOND
        sign = -1 if microseconds < 0 else 1
        seconds, rest = divmod(abs(microseconds), 1_000_000)
        return sign * seconds, sign * rest * 1_000
    # Times without a zone are in UTC, as everywhere in these sessions.
    since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH
    seconds, rest = divmod(since // MICROSECOND, 1_000_000)
    return seconds, rest * 1_000


def _scalar(field: Any, value: Any) -> Any:
    if field.type == field.TYPE_ENUM:
        named = field.enum_type.values_by_name.get(value)
        if named is None:
            raise ValueError(f"its enum has no {value!r}")
        return named.number
    if (
        isinstance(value, Decimal)
        and value == value.to_integral_value()
        and type_name(field) not in ("DOUBLE", "FLOAT")
    ):
        return int(value)
    return value
