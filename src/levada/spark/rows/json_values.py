"""Values in JSON as columns, and what is wrong with one that does not fit."""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

VALUE = "value"
PROBLEM = "problem"
CORRUPT = "~corrupt"
SHOWN = 100
"""Characters of a wrong value in a reason."""

STRICT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
TIMESTAMP_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
TO_JSON = {"timestampFormat": TIMESTAMP_FORMAT}
"""Spark's own format leaves the microseconds out."""


def decoded(text: Column, schema: StructType, options: Mapping[str, str] | None = None) -> Column:
    """A struct of `value`, null where it could not be read, and `problem`, one line that names what is wrong, or null.

    Spark's parser stops at the end of the first object, and whatever follows it is lost in silence. So the text is put
    into an array, with a mark behind it: if that is the second element, the text is one value and nothing else. The
    mark is its own hash, which it cannot have in it.
    """
    mark = sf.xxhash64(text).cast("string")
    marked = sf.concat(sf.lit("["), text, sf.lit(',"'), mark, sf.lit('"]'))
    is_alone = sf.coalesce(sf.get_json_object(marked, "$[1]") == mark, sf.lit(False))
    settings = {**(options or {}), **STRICT}
    # Inside of an object, as alone an array of objects would pass for its first one.
    wrapped = sf.concat(sf.lit(f'{{"{VALUE}":'), text, sf.lit("}"))
    found = sf.from_json(
        wrapped, StructType([StructField(VALUE, schema), StructField(CORRUPT, StringType())]), settings
    )

    def judged(found: Column) -> Column:
        is_whole = found[CORRUPT].isNull() & is_alone
        problem = _problem(text, found[VALUE], schema, _explained(text, schema, settings), is_whole)
        return sf.struct(found[VALUE].alias(VALUE), problem.alias(PROBLEM))

    # As a function's argument it is parsed once. A column that is used often is parsed once for each use in a filter.
    return sf.transform(sf.array(found), judged)[0]


def _problem(text: Column, value: Column, schema: StructType, explanation: Column, is_whole: Column) -> Column:
    missing = missing_fields(value, schema)
    return (
        sf.when(~sf.is_valid_utf8(text), sf.lit("the value is not UTF-8"))
        .when(sf.trim(text) == "", sf.lit("the value is empty"))
        .when(~is_whole | value.isNull(), explanation)
        .when(missing != "", missing)
    )


def missing_fields(value: Column, schema: StructType) -> Column:
    """Those that must not be null and are, in one line; empty if there are none."""
    return _joined(_missing(value, schema, ""))


def _explained(text: Column, schema: StructType, settings: Mapping[str, str]) -> Column:
    """Only evaluated for a value that is known to be wrong, so that it may parse it again."""
    raw = _raw(text)
    alone = sf.from_json(text, StructType([*schema.fields, StructField(CORRUPT, StringType())]), settings)
    misfits = _joined(_misfits(raw, alone, schema, ""))
    is_json = sf.try_parse_json(text).isNotNull()
    return (
        sf.when(raw.isNull() & is_json, sf.concat(sf.lit("the value is not a JSON object: "), _short(text)))
        .when(raw.isNull(), sf.concat(sf.lit("the value is not JSON: "), _short(text)))
        .when(alone[CORRUPT].isNull(), sf.lit("there is something after the JSON object"))
        .when(misfits != "", misfits)
        .otherwise(sf.lit("the value does not fit the schema"))
    )


def _misfits(raw: Column, value: Column, schema: StructType, path: str) -> list[Column]:
    """For each field what it should have been: a field that has a text and yet no value does not fit."""
    found = []
    for field in schema.fields:
        text, parsed_value, name = raw[field.name], value[field.name], path + field.name
        told = sf.concat(sf.lit(f"field {name!r} is not {field.dataType.simpleString()}: "), _short(text))
        found.append(sf.when(text.isNotNull() & parsed_value.isNull(), told))
        if isinstance(field.dataType, StructType):
            inside = _misfits(_raw(text), parsed_value, field.dataType, f"{name}.")
            found += [sf.when(parsed_value.isNotNull(), each) for each in inside]
    return found


def _missing(value: Column, schema: StructType, path: str) -> list[Column]:
    """For each field that must not be null, that it is; Spark's parser takes every field as one that may be."""
    found = []
    for field in schema.fields:
        inner, name = value[field.name], path + field.name
        if not field.nullable:
            found.append(sf.when(inner.isNull(), sf.lit(f"field {name!r} is missing")))
        if isinstance(field.dataType, StructType):
            found += [sf.when(inner.isNotNull(), each) for each in _missing(inner, field.dataType, f"{name}.")]
        elif _has_required_parts(field.dataType):
            is_incomplete = _is_incomplete(inner, field.dataType)
            found.append(sf.when(is_incomplete, sf.lit(f"field {name!r} has a part that must not be null and is")))
    return found


def _is_incomplete(value: Column, kind: DataType) -> Column:
    """Whether a null is somewhere inside where none may be; false if the value itself is null."""
    if isinstance(kind, StructType):
        checks = [
            (sf.lit(False) if field.nullable else value[field.name].isNull())
            | _is_incomplete(value[field.name], field.dataType)
            for field in kind.fields
        ]
        anything = sf.lit(False)
        for check in checks:
            anything = anything | check
        return value.isNotNull() & anything
    if isinstance(kind, ArrayType):
        return _any_element(value, kind.elementType, kind.containsNull)
    if isinstance(kind, MapType):
        return _any_element(sf.map_values(value), kind.valueType, kind.valueContainsNull)
    return sf.lit(False)


def _any_element(values: Column, kind: DataType, may_be_null: bool) -> Column:
    def is_wrong(element: Column) -> Column:
        return (sf.lit(False) if may_be_null else element.isNull()) | _is_incomplete(element, kind)

    return sf.coalesce(sf.exists(values, is_wrong), sf.lit(False))


def _has_required_parts(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(not field.nullable or _has_required_parts(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return not kind.containsNull or _has_required_parts(kind.elementType)
    if isinstance(kind, MapType):
        return not kind.valueContainsNull or _has_required_parts(kind.valueType)
    return False


def _raw(text: Column) -> Column:
    """The fields of an object as they are written, null if the text is no object."""
    return sf.from_json(text, MapType(StringType(), StringType()))


def _joined(texts: list[Column]) -> Column:
    """Those that are not null, in one line; empty if all are."""
    return sf.concat_ws("; ", *texts)


def _short(text: Column) -> Column:
    return sf.substring(text, 1, SHOWN)
