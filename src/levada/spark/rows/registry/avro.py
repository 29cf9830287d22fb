"""Avro values behind schema ids: written with one schema, read with another by Avro's rules."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from typing import Any

from pyspark.sql import Column

from levada.spark.rows import arrow_values
from levada.spark.rows.arrow_values import ReadOne
from levada.spark.rows.avro_bounds import Guard, guard_of
from levada.spark.rows.avro_schemas import PRIMITIVES, AvroSchema, usable_avro
from levada.spark.rows.avro_values import read_record
from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry.address import Registry
from levada.spark.rows.registry.framing import PREFIX_BYTES, NotFramed, schema_id_of
from levada.spark.rows.registry.subjects import AVRO, Registered
from levada.spark.rows.registry.writers import Unusable, writer_schemas


def decoded(value: Column, wanted: AvroSchema, registry: Registry) -> Column:
    """A struct of `value`, the record as the wanted schema has it, and `problem`, why there is none."""
    return arrow_values.decoded(value, wanted.struct, partial(_reader, wanted.text, registry))


def whole_text(schema: Registered) -> str:
    """The schema with those that it refers to inside of it, each where it is first used."""
    if not schema.references:
        return schema.text
    return json.dumps(_whole(_json(schema.text), {name: _json(text) for name, text in schema.references}, set(), ""))


def _reader(wanted_text: str, registry: Registry) -> ReadOne:
    wanted = _parsed(wanted_text)
    # In a batch most values are of one schema, and large ones take long to compare.
    resolvers: dict[int, tuple[Any, Any, str, Guard | None]] = {}

    def read(value: bytes) -> tuple[Any, str | None]:
        try:
            schema_id = schema_id_of(value)
            if schema_id not in resolvers:
                written = writer_schemas().of(registry, schema_id, AVRO, _writer_schema)
                other = None if written == wanted else wanted
                resolvers[schema_id] = (written, other, f"its schema {schema_id}", guard_of(written))
        except (NotFramed, Unusable) as error:
            return None, str(error)
        return read_record(value, PREFIX_BYTES, *resolvers[schema_id])

    return read


def _writer_schema(schema: Registered) -> Any:
    return _parsed(usable_avro(_json(whole_text(schema))))


@lru_cache(maxsize=32)
def _parsed(text: str) -> Any:
    import fastavro

    return fastavro.parse_schema(json.loads(text))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowsError(f"the Avro schema is not JSON: {error}") from None


def _whole(node: Any, others: Mapping[str, Any], known: set[str], space: str) -> Any:
    """`known` are the types that are defined already, `space` is the namespace around the node."""
    if isinstance(node, list):
        return [_whole(each, others, known, space) for each in node]
    if isinstance(node, str):
        return _definition(node, others, known, space)
    if not isinstance(node, Mapping):
        return node
    kind = node.get("type")
    if kind in ("record", "error", "enum", "fixed") and "name" in node:
        full_name, space = _full_name(str(node["name"]), node.get("namespace", space))
        known.add(full_name)
    found = dict(node)
    for key in ("type", "items", "values"):
        if key in node and not (key == "type" and _is_word(kind)):
            found[key] = _whole(node[key], others, known, space)
    if isinstance(node.get("fields"), Iterable) and not isinstance(node["fields"], str):
        found["fields"] = [_whole_field(field, others, known, space) for field in node["fields"]]
    return found


def _whole_field(field: Any, others: Mapping[str, Any], known: set[str], space: str) -> Any:
    if not isinstance(field, Mapping) or "type" not in field:
        return field
    return {**field, "type": _whole(field["type"], others, known, space)}


def _definition(name: str, others: Mapping[str, Any], known: set[str], space: str) -> Any:
    full_name, _ = _full_name(name, space)
    found_name = full_name if full_name in others else name
    if name in PRIMITIVES or full_name in known or found_name not in others:
        return name
    node = others[found_name]
    if isinstance(node, Mapping) and "." not in str(node.get("name", "")):
        # It had no namespace around it where it comes from.
        node = {**node, "namespace": node.get("namespace", "")}
    return _whole(node, others, known, "")


def _full_name(name: str, space: Any) -> tuple[str, str]:
    if "." in name:
        return name, name.rpartition(".")[0]
    return (f"{space}.{name}" if space else name), str(space or "")


def _is_word(kind: Any) -> bool:
    return isinstance(kind, str) and (kind in ("record", "error", "array", "map") or kind in PRIMITIVES)
