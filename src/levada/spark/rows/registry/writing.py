"""Rows as values behind schema ids: which schema, which columns, and how."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from levada.spark.rows import avro_values
from levada.spark.rows.arrow_values import PROBLEM, VALUE
from levada.spark.rows.avro_schemas import avro_schema
from levada.spark.rows.json_values import TO_JSON, missing_fields
from levada.spark.rows.problems import RowsError, one_of
from levada.spark.rows.registry import avro
from levada.spark.rows.registry.address import SchemaSource
from levada.spark.rows.registry.framing import message_indexes, prefix_of
from levada.spark.rows.registry.json_schemas import is_json_schema, json_struct, json_text
from levada.spark.rows.registry.reading import message_of, reading_of
from levada.spark.rows.registry.requests import REQUEST_S
from levada.spark.rows.registry.subjects import KINDS, latest, looked_up, refusal_of, registered

UNREGISTERED: Final = 0
"""The id of a schema that is only looked at: no registry gives it."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The columns that a value is made of, and what makes it: a struct of `value` and `problem` of one of them."""

    names: list[str]
    encoded: Callable[[Column], Column]


def encoding_of(
    source: SchemaSource, format: str, schema: Any, columns: StructType, *, is_only_checked: bool = False
) -> Encoding:
    """By the given schema, which is registered, else by the latest version of the subject.

    What is only checked is not registered, but refused if it could not be. RowsError says what is wrong.
    """
    one_of("the format of a write with a registry", format, tuple(KINDS))
    if source.message is not None and format != "protobuf":
        raise RowsError(f"message is for format 'protobuf': leave it out with {format!r}")
    return ENCODINGS[format](source, schema, columns, is_only_checked)


def _avro(source: SchemaSource, schema: Any, columns: StructType, is_only_checked: bool) -> Encoding:
    if schema is None:
        found = latest(source.registry, source.named_subject(), KINDS["avro"])
        schema_id, wanted = found.id, avro_schema(avro.whole_text(found))
    else:
        wanted = avro_schema(schema)
        schema_id = _id_of(source, "avro", json_text(schema), is_only_checked)
    names = [name for name in wanted.struct.fieldNames() if name in columns.names or name not in wanted.optional]
    return Encoding(names, partial(avro_values.encoded, schema=wanted, prefix=prefix_of(schema_id)))


def _json(source: SchemaSource, schema: Any, columns: StructType, is_only_checked: bool) -> Encoding:
    found = None
    if schema is None:
        found = latest(source.registry, source.named_subject(), KINDS["json"])
        struct = json_struct(found.text, found.references)
    elif is_json_schema(schema):
        struct = json_struct(json_text(schema))
    else:
        raise RowsError("write: with a registry the schema of format 'json' is a JSON Schema, as text or a dict")
    # Before it is registered, as there is no way back from that.
    _refuse_misfits(columns, struct)
    names = [field.name for field in struct.fields if field.name in columns.names or not field.nullable]
    _refuse_none(names, "the JSON Schema", struct)
    schema_id = found.id if found is not None else _id_of(source, "json", json_text(schema), is_only_checked)
    written = StructType([struct[name] for name in names])
    return Encoding(names, partial(_json_encoded, struct=written, prefix=prefix_of(schema_id)))


def _protobuf(source: SchemaSource, schema: Any, columns: StructType, is_only_checked: bool) -> Encoding:
    from levada.spark.rows.registry import protobuf_values

    found = message_of(source, schema)
    if found is None:
        _id_of(source, "protobuf", schema, is_only_checked)
        # The registry is what reads the text of a .proto file.
        found = None if is_only_checked else message_of(source, schema)
    if found is None:
        # What its fields are is known once it is registered.
        return Encoding([], _nothing)
    wanted, schema_id = found
    names = [name for name in wanted.struct.fieldNames() if name in columns.names or name in wanted.required]
    _refuse_none(names, f"the Protobuf message {wanted.name}", wanted.struct)
    prefix = prefix_of(schema_id) + message_indexes(wanted.indexes)
    return Encoding(names, partial(protobuf_values.encoded, wanted=wanted, prefix=prefix))


ENCODINGS: Final[dict[str, Callable[[SchemaSource, Any, StructType, bool], Encoding]]] = {
    "avro": _avro,
    "json": _json,
    "protobuf": _protobuf,
}


def check_writable(source: SchemaSource, format: str, schema: Any, limit_s: float = REQUEST_S) -> None:
    """What can be known without the rows; nothing is registered."""
    if schema is None:
        reading_of(source, format, None, limit_s)
        return
    if format == "avro":
        avro_schema(schema)
    elif format == "json":
        json_struct(json_text(schema))
    _checked_id(source, format, json_text(schema), limit_s)


def _id_of(source: SchemaSource, format: str, text: str, is_only_checked: bool) -> int:
    if is_only_checked:
        return _checked_id(source, format, text, REQUEST_S)
    return registered(source.registry, source.named_subject(), KINDS[format], text)


def _checked_id(source: SchemaSource, format: str, text: str, limit_s: float) -> int:
    registry, subject, kind = source.registry, source.named_subject(), KINDS[format]
    found = looked_up(registry, subject, kind, text, limit_s)
    refusal = None if found is not None else refusal_of(registry, subject, kind, text, limit_s)
    if refusal is not None:
        raise RowsError(refusal)
    return UNREGISTERED if found is None else found


def _json_encoded(record: Column, struct: StructType, prefix: bytes) -> Column:
    text = sf.to_json(record, TO_JSON).cast("binary")
    missing = missing_fields(record, struct)
    problem = sf.when(record.isNotNull() & (missing != ""), missing)
    return sf.struct(sf.when(problem.isNull(), sf.concat(sf.lit(prefix), text)).alias(VALUE), problem.alias(PROBLEM))


def _nothing(record: Column) -> Column:
    return sf.struct(sf.lit(b"").alias(VALUE), sf.lit(None).cast("string").alias(PROBLEM))


def _refuse_none(names: list[str], what: str, struct: StructType) -> None:
    if not names:
        raise RowsError(f"write: there is no column for any field of {what}: {', '.join(struct.fieldNames())}")


def _refuse_misfits(columns: StructType, struct: StructType) -> None:
    """Columns whose values would be of another type than the JSON Schema says."""
    known = [field for field in struct.fields if field.name in columns.names]
    for field in known:
        said = _misfit(columns[field.name].dataType, field.dataType, field.name)
        if said is not None:
            raise RowsError(f"write: {said}: cast it, or change the schema")


def _misfit(given: DataType, wanted: DataType, path: str) -> str | None:
    """What is wrong, if anything."""
    if isinstance(wanted, StructType) and isinstance(given, StructType):
        return _struct_misfit(given, wanted, path)
    if isinstance(wanted, ArrayType) and isinstance(given, ArrayType):
        return _misfit(given.elementType, wanted.elementType, f"{path}[]")
    if isinstance(wanted, MapType) and isinstance(given, MapType):
        return _misfit(given.valueType, wanted.valueType, f"{path}.*")
    if any(isinstance(wanted, kind) and isinstance(given, fitting) for kind, fitting in FITTING):
        return None
    if isinstance(wanted, LongType) and isinstance(given, DecimalType) and given.scale == 0:
        return None
    return f"column {path!r} is {given.simpleString()}, and {wanted.simpleString()} is what the JSON Schema has"


def _struct_misfit(given: StructType, wanted: StructType, path: str) -> str | None:
    missing: Collection[str] = [field.name for field in wanted.fields if not field.nullable]
    for name in missing:
        if name not in given.names:
            return f"column {path!r} has no field {name!r}, which the JSON Schema requires"
    for field in given.fields:
        if field.name not in wanted.names:
            return f"column {path!r} has a field {field.name!r}, which the JSON Schema does not"
        said = _misfit(field.dataType, wanted[field.name].dataType, f"{path}.{field.name}")
        if said is not None:
            return said
    return None


FITTING: Final[tuple[tuple[type[DataType], tuple[type[DataType], ...]], ...]] = (
    (StringType, (StringType, DateType, TimestampType, TimestampNTZType)),
    (LongType, (IntegralType,)),
    (DoubleType, (NumericType,)),
    (BooleanType, (BooleanType,)),
    (DateType, (DateType, StringType)),
    (TimestampType, (TimestampType, StringType)),
)
"""Types of a JSON Schema's fields, each with those of columns that are written as such."""
