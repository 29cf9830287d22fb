"""Rows on their way through pandas, in columns that pandas does not change.

Pandas has no null for a number other than NaN, which makes floats of whole numbers and rounds large ones; it has no
timestamp before 1677, and is slow with nested values. So text, bytes and truth values go as they are, whole numbers and
times as text, and all else as JSON in one column. What a record always has, its offset and such, goes as numbers.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.spark.rows.kept import SOURCE
from levada.spark.rows.problems import quoted

AS_THEY_ARE = (StringType, BinaryType, BooleanType)
WHOLE_NUMBERS = (ByteType, ShortType, IntegerType, LongType)
REST = "_rest"
TO_REST = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
FROM_REST = {**TO_REST, "mode": "FAILFAST"}


def pack(frame: DataFrame, control: Mapping[str, Column]) -> DataFrame:
    """The columns of the frame, packed, and those of `control` by their names."""
    leaves = _leaves(frame.schema)
    columns = [_packed(leaf).alias(leaf.packed_name) for leaf in leaves if leaf.goes_alone]
    rest = [_without_maps(leaf.column, leaf.kind).alias(leaf.packed_name) for leaf in leaves if not leaf.goes_alone]
    if rest:
        columns.append(sf.to_json(sf.struct(*rest), TO_REST).alias(REST))
    return frame.select(*columns, *(column.alias(name) for name, column in control.items()))


def unpack(packed: DataFrame, schema: StructType, added: Mapping[str, str]) -> DataFrame:
    """The columns as they were, and those of `added`, under their new names."""
    leaves = _leaves(schema)
    nested = [leaf for leaf in leaves if not leaf.goes_alone]
    rest = StructType([StructField(leaf.packed_name, _kind_of_entries(leaf.kind)) for leaf in nested])
    if rest.fields:
        packed = packed.withColumn(REST, sf.from_json(REST, rest, FROM_REST))
    columns = []
    for field in schema.fields:
        own = [leaf for leaf in leaves if leaf.top == field.name]
        if _is_opened(field):
            columns.append(sf.struct(*(_unpacked(leaf).alias(leaf.inner) for leaf in own)).alias(field.name))
        else:
            columns.append(_unpacked(own[0]).alias(field.name))
    return packed.select(*columns, *(sf.col(name).alias(new) for name, new in added.items()))


class _Leaf:
    """A column, or a field of `_source`, which is opened because it is never null and would be most of the JSON."""

    __slots__ = ("column", "inner", "kind", "packed_name", "top")

    def __init__(self, number: int, top: str, inner: str, kind: DataType) -> None:
        whole = sf.col(quoted(top))
        self.packed_name = f"c{number}"
        self.top = top
        self.inner = inner
        self.kind = kind
        self.column = whole[inner] if inner else whole

    @property
    def goes_alone(self) -> bool:
        return isinstance(self.kind, (*AS_THEY_ARE, *WHOLE_NUMBERS, TimestampType))

    @property
    def goes_as_text(self) -> bool:
        return not self.inner and isinstance(self.kind, (*WHOLE_NUMBERS, TimestampType))


def _leaves(schema: StructType) -> list[_Leaf]:
    found: list[_Leaf] = []
    for field in schema.fields:
        if _is_opened(field):
            assert isinstance(field.dataType, StructType)
            for inner in field.dataType.fields:
                found.append(_Leaf(len(found), field.name, inner.name, inner.dataType))
        else:
            found.append(_Leaf(len(found), field.name, "", field.dataType))
    return found


def _is_opened(field: StructField) -> bool:
    return field.name == SOURCE and isinstance(field.dataType, StructType)


def _packed(leaf: _Leaf) -> Column:
    column = sf.unix_micros(leaf.column) if isinstance(leaf.kind, TimestampType) else leaf.column
    return column.cast("string") if leaf.goes_as_text else column


def _unpacked(leaf: _Leaf) -> Column:
    if not leaf.goes_alone:
        return _with_maps(sf.col(REST)[leaf.packed_name], leaf.kind)
    column = sf.col(leaf.packed_name)
    if isinstance(leaf.kind, TimestampType):
        return sf.timestamp_micros(column.cast("long"))
    return column.cast(leaf.kind) if leaf.goes_as_text else column


def _without_maps(column: Column, kind: DataType) -> Column:
    """Maps as arrays of their entries: in JSON their keys would have to be text."""
    if not has_map(kind):
        return column
    if isinstance(kind, MapType):
        return _each_part(sf.map_entries(column), _entries(kind), _without_maps)
    return _each_part(column, kind, _without_maps)


def _with_maps(column: Column, kind: DataType) -> Column:
    """The other way round."""
    if not has_map(kind):
        return column
    if isinstance(kind, MapType):
        return sf.map_from_entries(_each_part(column, _entries(kind), _with_maps))
    return _each_part(column, kind, _with_maps)


def _each_part(column: Column, kind: DataType, change: Callable[[Column, DataType], Column]) -> Column:
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return sf.transform(column, lambda each: change(each, element))
    if not isinstance(kind, StructType):
        return column
    parts = (change(column[field.name], field.dataType).alias(field.name) for field in kind.fields)
    return sf.when(column.isNotNull(), sf.struct(*parts))


def _kind_of_entries(kind: DataType) -> DataType:
    """What `_without_maps` makes of a type."""
    if isinstance(kind, MapType):
        return _kind_of_entries(_entries(kind))
    if isinstance(kind, ArrayType):
        return ArrayType(_kind_of_entries(kind.elementType))
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _kind_of_entries(field.dataType)) for field in kind.fields])
    return kind


def _entries(kind: MapType) -> ArrayType:
    return ArrayType(StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)]), False)


def has_map(kind: DataType) -> bool:
    """Whether it is one, or one is in it."""
    if isinstance(kind, ArrayType):
        return has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType)
