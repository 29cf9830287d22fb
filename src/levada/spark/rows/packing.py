"""Rows on their way through pandas, in columns that pandas does not change.

Pandas has no null for a number other than NaN, which makes floats of whole numbers and rounds large ones; it has no
timestamp before 1677, and is slow with nested values. So text, bytes and truth values go as they are, whole numbers and
times as text, and all else as JSON in one column. What a record always has, its offset and such, goes as numbers.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.spark.rows.kept import SOURCE

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
    rest = [leaf.column.alias(leaf.packed_name) for leaf in leaves if not leaf.goes_alone]
    if rest:
        columns.append(sf.to_json(sf.struct(*rest), TO_REST).alias(REST))
    return frame.select(*columns, *(column.alias(name) for name, column in control.items()))


def unpack(packed: DataFrame, schema: StructType, added: Mapping[str, str]) -> DataFrame:
    """The columns as they were, and those of `added`, under their new names."""
    leaves = _leaves(schema)
    rest = StructType([StructField(leaf.packed_name, leaf.kind) for leaf in leaves if not leaf.goes_alone])
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
        quoted = sf.col("`" + top.replace("`", "``") + "`")
        self.packed_name = f"c{number}"
        self.top = top
        self.inner = inner
        self.kind = kind
        self.column = quoted[inner] if inner else quoted

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
        return sf.col(REST)[leaf.packed_name]
    column = sf.col(leaf.packed_name)
    if isinstance(leaf.kind, TimestampType):
        return sf.timestamp_micros(column.cast("long"))
    return column.cast(leaf.kind) if leaf.goes_as_text else column
