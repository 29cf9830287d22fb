"""JSON Schema as Spark's structs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.spark.rows.problems import RowsError

PRIMITIVES: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
FORMATS: Final[Mapping[str, DataType]] = {"date": DateType(), "date-time": TimestampType()}
"""Of strings; all others are text."""
OTHERWISE: Final = "give the fields that are wanted instead: schema='id string, amount double'"
MOST_DEPTH: Final = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which document a part of a schema stands; `depth` keeps the walk from going on for ever."""

    document: str
    path: str = ""
    depth: int = 0

    def field(self, name: str) -> "Place":
        return Place(self.document, f"{self.path}.{name}" if self.path else name, self.depth + 1)

    def refuse(self, said: str) -> RowsError:
        where = f"field {self.path!r} of the JSON Schema" if self.path else "the JSON Schema"
        return RowsError(f"{where} {said}; {OTHERWISE}")


def is_json_schema(schema: object) -> bool:
    """Rather than the short form of Spark's types."""
    return isinstance(schema, Mapping) or (isinstance(schema, str) and schema.lstrip().startswith("{"))


def json_text(schema: object) -> str:
    """As a registry takes it."""
    return schema if isinstance(schema, str) else json.dumps(schema)


def json_struct(text: str, references: Iterable[tuple[str, str]] = ()) -> StructType:
    """The fields of an object; `references` are schemas by the names that `$ref` has for them."""
    return _Documents(text, references).struct()


class _Documents:
    """A schema and those that it refers to."""

    def __init__(self, text: str, references: Iterable[tuple[str, str]]) -> None:
        self._documents = {"": _parsed(text), **{name: _parsed(other) for name, other in references}}

    def struct(self) -> StructType:
        place = Place("")
        schema, place = self._resolved(self._documents[""], place)
        if not _names_fields(schema):
            raise place.refuse("must be an object with properties")
        found = self._object(schema, place)
        assert isinstance(found, StructType)
        return found

    def _kind(self, node: Any, place: Place) -> tuple[DataType, bool]:
        """The type, and whether it may be null."""
        schema, place = self._resolved(node, place)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._choice(schema[word], place)
        names, may_be_null = _type_names(schema, place)
        if len(names) != 1:
            raise place.refuse(f"must be of one type, or of one and null, not {json.dumps(names)}")
        [name] = names
        if name == "object":
            return self._object(schema, place), may_be_null
        if name == "array":
            return self._array(schema, place), may_be_null
        if name == "string":
            return FORMATS.get(str(schema.get("format")), StringType()), may_be_null
        if name not in PRIMITIVES:
            raise place.refuse(f"has the unknown type {name!r}")
        return PRIMITIVES[name], may_be_null

    def _choice(self, options: Any, place: Place) -> tuple[DataType, bool]:
        given = options if isinstance(options, list) else []
        others = [each for each in given if each != {"type": "null"}]
        if len(others) != 1:
            raise place.refuse("may be a choice of null and one other type only")
        kind, may_be_null = self._kind(others[0], place)
        return kind, may_be_null or len(given) > len(others)

    def _object(self, schema: Mapping[str, Any], place: Place) -> DataType:
        if _names_fields(schema):
            required = schema.get("required")
            needed = {each for each in required if isinstance(each, str)} if isinstance(required, list) else set()
            fields = []
            for name, node in schema["properties"].items():
                kind, may_be_null = self._kind(node, place.field(name))
                fields.append(StructField(name, kind, may_be_null or name not in needed))
            return StructType(fields)
        others = schema.get("additionalProperties")
        if not isinstance(others, Mapping) or not others:
            raise place.refuse("is an object without properties")
        return MapType(StringType(), *self._kind(others, place.field("*")))

    def _array(self, schema: Mapping[str, Any], place: Place) -> DataType:
        items = schema.get("items")
        if not isinstance(items, Mapping) or not items or "prefixItems" in schema:
            raise place.refuse("is an array without one type for all its items")
        return ArrayType(*self._kind(items, place.field("[]")))

    def _resolved(self, node: Any, place: Place) -> tuple[Mapping[str, Any], Place]:
        """The schema itself, where there is a reference to it or it is in parts."""
        if place.depth > MOST_DEPTH:
            raise place.refuse("contains itself, which a table cannot show")
        if not isinstance(node, Mapping) or not node:
            raise place.refuse("says nothing of its type")
        if "$ref" in node:
            target, document = self._target(str(node["$ref"]), place)
            return self._resolved(target, Place(document, place.path, place.depth + 1))
        if "allOf" not in node:
            return node, place
        parts = node["allOf"] if isinstance(node["allOf"], list) else []
        rest = {key: value for key, value in node.items() if key != "allOf"}
        resolved = [self._resolved(part, Place(place.document, place.path, place.depth + 1)) for part in parts]
        if any(found.document != place.document for _, found in resolved):
            # References in a part are its own document's, and the whole can have only one.
            raise place.refuse("is made of parts (allOf) of several documents")
        return _merged([rest, *(part for part, _ in resolved)]), place

    def _target(self, reference: str, place: Place) -> tuple[Any, str]:
        """What a `$ref` means, and the document that it is in."""
        address, fragment = urldefrag(reference)
        document = place.document if not address else self._document(address, place)
        found = self._documents[document]
        for part in unquote(fragment).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise place.refuse(f"refers to {reference!r}, which is not there")
            found = found[name]
        if fragment and not fragment.startswith("/"):
            raise place.refuse(f"refers to {reference!r}, a name rather than a path")
        return found, document

    def _document(self, address: str, place: Place) -> str:
        own = self._documents[place.document]
        base = str(own.get("$id", "")) if isinstance(own, Mapping) else ""
        for name, document in self._documents.items():
            identity = document.get("$id") if isinstance(document, Mapping) else None
            if urljoin(base, address) in (name, identity, urljoin(base, name)):
                return name
        raise place.refuse(f"refers to {address!r}, which the registry does not have among its references")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowsError(f"the JSON Schema is not JSON: {error}") from None


def _names_fields(schema: Mapping[str, Any]) -> bool:
    return isinstance(schema.get("properties"), Mapping) and bool(schema["properties"])


def _type_names(schema: Mapping[str, Any], place: Place) -> tuple[list[str], bool]:
    """The types that are not null, and whether null is one as well."""
    given = schema.get("type")
    if given is None and "properties" in schema:
        given = "object"
    if given is None:
        given = _types_of_values(schema.get("enum", [schema["const"]] if "const" in schema else []), place)
    names = [given] if isinstance(given, str) else list(given)
    others = [name for name in names if name != "null"]
    return others, len(others) < len(names)


def _types_of_values(values: Iterable[Any], place: Place) -> list[str]:
    names = {type(None): "null", str: "string", bool: "boolean", int: "integer", float: "number"}
    found = list(dict.fromkeys(names.get(type(value), "object") for value in values))
    if not found:
        raise place.refuse("says nothing of its type")
    return found


def _merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key == "properties" and isinstance(value, Mapping):
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required" and isinstance(value, list):
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged.setdefault(key, value)
    return merged
