"""Columns decoded and encoded value by value in Python, where one that is broken takes no other with it."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

VALUE = "value"
PROBLEM = "problem"
SHOWN = 200
"""Characters of an error in a reason."""

ReadOne: TypeAlias = Callable[[bytes], tuple[Any, str | None]]
"""A record and no problem, or the problem."""
WriteOne: TypeAlias = Callable[[dict[str, Any]], bytes]
"""May raise anything."""


def decoded(value: Column, kind: DataType, make_reader: Callable[[], ReadOne]) -> Column:
    """A struct of `value`, null where it could not be read, and `problem`, why.

    `make_reader` is called in Spark's workers, for each batch of values.
    """
    nullable = _nullable(kind)
    return _udf(_decoder(make_reader, nullable), nullable)(value)


def encoded(record: Column, what: str, make_writer: Callable[[], WriteOne]) -> Column:
    """A struct of `value`, bytes or null, and `problem`, why there are none; both null for a null record."""
    return _udf(_encoder(make_writer, what), BinaryType())(record)


def told(error: Exception) -> str:
    """One line; some decoders put all of a schema into theirs."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:SHOWN] if lines else type(error).__name__


def _udf(function: Callable[[pa.Array], pa.Array], kind: DataType) -> Callable[[Column], Column]:
    result = StructType([StructField(VALUE, kind), StructField(PROBLEM, StringType())])
    return arrow_udf(function, result, ArrowUDFType.SCALAR)


def _nullable(kind: DataType) -> DataType:
    """A rejected row has no value for any field."""
    if not isinstance(kind, StructType):
        return kind
    return StructType([StructField(field.name, field.dataType, True) for field in kind.fields])


def _decoder(make_reader: Callable[[], ReadOne], kind: DataType) -> Callable[[pa.Array], pa.Array]:
    record_type = to_arrow_type(kind, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        read = make_reader()
        records, problems = [], []
        for value in values:
            given = value.as_py()
            record, problem = (None, None) if given is None else read(given)
            records.append(record)
            problems.append(problem)
        found = _as_column(records, record_type, problems)
        return pa.StructArray.from_arrays([found, pa.array(problems, pa.string())], [VALUE, PROBLEM])

    return decode


def _as_column(records: list[Any], kind: pa.DataType, problems: list[str | None]) -> pa.Array:
    """Records without those that the types of columns cannot hold, such as a decimal beyond its precision."""
    try:
        return pa.array(records, kind)
    except Exception:  # One of them is at fault, and the others are not to go with it.
        for index, record in enumerate(records):
            try:
                pa.array([record], kind)
            except Exception as error:  # Arrow's own errors, and those of Python's numbers.
                problems[index] = f"the value does not fit the types of its fields: {told(error)}"
                records[index] = None
        return pa.array(records, kind)


def _encoder(make_writer: Callable[[], WriteOne], what: str) -> Callable[[pa.Array], pa.Array]:
    def encode(records: pa.Array) -> pa.Array:
        write = make_writer()
        values, problems = [], []
        for record in records:
            value, problem = _write_one(record, write, what)
            values.append(value)
            problems.append(problem)
        return pa.StructArray.from_arrays(
            [pa.array(values, pa.binary()), pa.array(problems, pa.string())], [VALUE, PROBLEM]
        )

    return encode


def _write_one(record: pa.StructScalar, write: WriteOne, what: str) -> tuple[bytes | None, str | None]:
    if not record.is_valid:
        return None, None
    try:
        # One by one: a time that Python has not, of the year 10000, is that of its own row.
        return write(record.as_py(maps_as_pydicts="strict")), None
    except Exception as error:  # Encoders raise what their Python met.
        return None, f"the row does not fit the {what}: {told(error)}"
