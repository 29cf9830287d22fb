"""Avro records as Spark's structs."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from levada.spark.rows.problems import RowsError

PRIMITIVES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
LOGICAL: dict[tuple[str, str], DataType] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
    ("string", "uuid"): StringType(),
}


@dataclass(frozen=True, slots=True)
class AvroSchema:
    text: str
    """JSON, which travels to the workers."""
    struct: StructType
    """The record's fields; those that may not be null in Avro are not nullable here."""
    optional: frozenset[str]
    """Fields that have a default, so that a writer may leave them out."""


def avro_schema(given: object) -> AvroSchema:
    """From JSON text or a dict; raises RowsError for what is no record, or has types that Spark has not."""
    record = _as_json(given)
    if not isinstance(record, Mapping) or record.get("type") != "record":
        raise RowsError("an Avro schema must be a record, as JSON text or a dict: {'type': 'record', 'name': ...}")
    text = usable_avro(record)
    names: dict[str, Mapping[str, Any] | None] = {}
    struct = _record(record, names)
    if not struct.fields:
        raise RowsError(f"the Avro record {record.get('name')!r} has no fields")
    return AvroSchema(text, struct, frozenset(field["name"] for field in record["fields"] if "default" in field))


def usable_avro(schema: object) -> str:
    """JSON that the decoder takes; raises RowsError for what it does not."""
    text = json.dumps(_without_uuid(schema))
    _refuse_invalid(text)
    return text


def _as_json(given: object) -> object:
    if isinstance(given, StructType):
        raise RowsError("format 'avro' needs an Avro schema, as JSON text or a dict, and not a struct of Spark")
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError as error:
        raise RowsError(f"the Avro schema is not JSON: {error}") from None


def _refuse_invalid(text: str) -> None:
    import fastavro

    try:
        fastavro.parse_schema(json.loads(text))
    except (fastavro.schema.SchemaParseException, KeyError, TypeError, ValueError) as error:
        raise RowsError(f"the Avro schema cannot be used: {type(error).__name__}: {error}") from None


def _without_uuid(node: Any) -> Any:
    """A uuid is text on the wire and text in Spark; the decoder would make an object of it in between."""
    if isinstance(node, Mapping):
        kept = {name: _without_uuid(value) for name, value in node.items()}
        if kept.get("logicalType") == "uuid" and kept.get("type") == "string":
            del kept["logicalType"]
        return kept
    return [_without_uuid(each) for each in node] if isinstance(node, list) else node


def _record(node: Mapping[str, Any], names: dict[str, Mapping[str, Any] | None]) -> StructType:
    _remember(node, names, None)
    fields = []
    for field in node["fields"]:
        kind, nullable = _kind(field["type"], names)
        fields.append(StructField(field["name"], kind, nullable))
    _remember(node, names, node)
    return StructType(fields)


def _remember(
    node: Mapping[str, Any], names: dict[str, Mapping[str, Any] | None], done: Mapping[str, Any] | None
) -> None:
    """A named type may be used again by its name; while it is None, its own fields are being read."""
    name = str(node["name"])
    space = node.get("namespace")
    names[name.rpartition(".")[2]] = done
    names[f"{space}.{name}" if space and "." not in name else name] = done


def _kind(node: Any, names: dict[str, Mapping[str, Any] | None]) -> tuple[DataType, bool]:
    """The type, and whether it may be null."""
    if isinstance(node, list):
        return _union(node, names)
    if isinstance(node, str):
        if node in PRIMITIVES:
            return PRIMITIVES[node], False
        return _named(node, names), False
    kind = node["type"]
    if isinstance(kind, Mapping | list):
        return _kind(kind, names)
    if "logicalType" in node:
        return _logical(node), False
    if kind in COMPLEX:
        return COMPLEX[kind](node, names), False
    if kind in ("enum", "fixed"):
        _remember(node, names, node)
    return _kind(kind, names) if kind not in PRIMITIVES else (PRIMITIVES[kind], False)


def _named(name: str, names: dict[str, Mapping[str, Any] | None]) -> DataType:
    if name not in names:
        # With the namespace that is around its definition.
        name = name.rpartition(".")[2]
    found = names.get(name)
    if found is None:
        said = "contains itself, which a table cannot show" if name in names else "is not defined before it is used"
        raise RowsError(f"the Avro type {name!r} {said}")
    return _kind(found, dict(names))[0]


def _union(node: list[Any], names: dict[str, Mapping[str, Any] | None]) -> tuple[DataType, bool]:
    others = [each for each in node if each != "null"]
    if len(others) != 1:
        raise RowsError(f"an Avro union may be of null and one other type, not {json.dumps(node)}")
    kind, nullable = _kind(others[0], names)
    return kind, nullable or len(node) > len(others)


def _logical(node: Mapping[str, Any]) -> DataType:
    base, logical = node["type"], node["logicalType"]
    if logical == "decimal":
        return DecimalType(int(node["precision"]), int(node.get("scale", 0)))
    found = LOGICAL.get((base, logical))
    if found is None:
        raise RowsError(f"the Avro type {logical!r} of {base!r} has no counterpart in Spark: leave logicalType out")
    return found


def _array(node: Mapping[str, Any], names: dict[str, Mapping[str, Any] | None]) -> DataType:
    return ArrayType(*_kind(node["items"], names))


def _map(node: Mapping[str, Any], names: dict[str, Mapping[str, Any] | None]) -> DataType:
    return MapType(StringType(), *_kind(node["values"], names))


COMPLEX: dict[str, Callable[[Mapping[str, Any], dict[str, Mapping[str, Any] | None]], DataType]] = {
    "record": _record,
    "array": _array,
    "map": _map,
}
