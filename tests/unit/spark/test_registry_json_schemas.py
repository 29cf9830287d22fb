"""JSON Schemas as Spark's fields, and those that no table can show."""

import json
from typing import Any

import pytest

from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry.json_schemas import json_struct

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def fields(properties: dict[str, Any], **more: Any) -> str:
    """Fields as Spark writes them; those that may not be null with `!`."""
    return shown({"type": "object", "properties": properties, **more})


def shown(schema: Any, *references: tuple[str, Any]) -> str:
    struct = json_struct(json.dumps(schema), [(name, json.dumps(other)) for name, other in references])
    return ", ".join(f"{each.name} {each.dataType.simpleString()}{'' if each.nullable else '!'}" for each in struct)


def test_types_are_sparks() -> None:
    properties = {
        "a": TEXT,
        "b": WHOLE,
        "c": {"type": "number"},
        "d": {"type": "boolean"},
        "e": {"type": "string", "format": "date-time"},
        "f": {"type": "string", "format": "date"},
        "g": {"type": "string", "format": "uuid"},
        "h": {"type": "array", "items": WHOLE},
        "i": {"type": "object", "additionalProperties": {"type": "number"}},
        "j": {"type": "object", "properties": {"x": TEXT}},
        "k": {"enum": ["NEW", "PAID"]},
        "l": {"const": 3},
    }
    assert fields(properties) == (
        "a string, b bigint, c double, d boolean, e timestamp, f date, g string, h array<bigint>, "
        "i map<string,double>, j struct<x:string>, k string, l bigint"
    )


def test_only_what_is_required_and_may_not_be_null_is_never_null() -> None:
    nullable = {"type": ["null", "string"]}
    choice = {"oneOf": [{"type": "null"}, WHOLE]}
    properties = {"a": TEXT, "b": TEXT, "c": nullable, "d": choice, "e": {"enum": ["x", None]}}
    assert fields(properties, required=["a", "c", "d", "e"]) == "a string!, b string, c string, d bigint, e string"


def test_references_inside_and_to_other_schemas_are_followed() -> None:
    schema = {
        "$id": "https://shop.example/order.json",
        "type": "object",
        "definitions": {"money": {"type": "object", "properties": {"cents": WHOLE}, "required": ["cents"]}},
        "properties": {
            "price": {"$ref": "#/definitions/money"},
            "user": {"$ref": "user.json"},
            "city": {"$ref": "place.json#/$defs/a~1b"},
        },
    }
    user = {"type": "object", "properties": {"name": {"$ref": "#/$defs/name"}}, "$defs": {"name": TEXT}}
    place = {"$id": "https://shop.example/place.json", "$defs": {"a/b": {"type": "boolean"}}}
    found = shown(schema, ("user.json", user), ("somewhere", place))
    assert found == "price struct<cents:bigint>, user struct<name:string>, city boolean"


def test_parts_are_put_together() -> None:
    base = {"type": "object", "properties": {"id": TEXT}, "required": ["id"]}
    schema = {
        "$defs": {"base": base},
        "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"n": WHOLE}}],
        "properties": {"z": TEXT},
    }
    assert shown(schema) == "z string, id string!, n bigint"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("string", "the JSON Schema says nothing of its type"),
        ({"type": "object"}, "must be an object with properties"),
        ({"a": {}}, "field 'a' of the JSON Schema says nothing of its type"),
        ({"a": True}, "field 'a' of the JSON Schema says nothing of its type"),
        ({"a": {"description": "x"}}, "says nothing of its type"),
        ({"a": {"type": ["string", "integer"]}}, "must be of one type, or of one and null"),
        ({"a": {"anyOf": [TEXT, WHOLE]}}, "may be a choice of null and one other type only"),
        ({"a": {"type": "array"}}, "is an array without one type for all its items"),
        ({"a": {"type": "array", "items": [TEXT, WHOLE]}}, "is an array without one type for all its items"),
        ({"a": {"type": "object"}}, "is an object without properties"),
        ({"a": {"type": "text"}}, "has the unknown type 'text'"),
        ({"a": {"$ref": "#/$defs/no"}}, "refers to '#/$defs/no', which is not there"),
        ({"a": {"$ref": "other.json"}}, "refers to 'other.json', which the registry does not have"),
        ({"a": {"type": "object", "properties": {"b": {"$ref": "#"}}}}, "contains itself, which a table cannot show"),
        ({"a": {"$ref": "#/properties/a"}}, "contains itself"),
    ],
)
def test_what_no_table_can_show_is_refused_with_its_place(schema: Any, said: str) -> None:
    whole = schema if not isinstance(schema, dict) or "a" not in schema else {"type": "object", "properties": schema}
    with pytest.raises(RowsError) as raised:
        json_struct(json.dumps(whole))
    assert said in str(raised.value)
    assert "schema='id string, amount double'" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(RowsError, match="the JSON Schema is not JSON"):
        json_struct(text)
