"""Values in Avro as columns and back; Spark's own functions for it are in a jar that PyPI does not have."""

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from levada.spark.rows.avro_schemas import AvroSchema

VALUE = "value"
PROBLEM = "problem"


def decoded(value: Column, schema: AvroSchema) -> Column:
    """A struct of `value`, the record or null, and `problem`, why there is none."""
    return _udf(_decoder(schema.text, _nullable(schema.struct)), _nullable(schema.struct))(value)


def encoded(record: Column, schema: AvroSchema) -> Column:
    """A struct of `value`, bytes or null, and `problem`, why there are none; both null for a null record."""
    return _udf(_encoder(schema.text), BinaryType())(record)


def _udf(function: Callable[[pa.Array], pa.Array], kind: DataType) -> Callable[[Column], Column]:
    result = StructType([StructField(VALUE, kind), StructField(PROBLEM, StringType())])
    return arrow_udf(function, result, ArrowUDFType.SCALAR)


def _nullable(struct: StructType) -> StructType:
    """A rejected row has no value for any field."""
    return StructType([StructField(field.name, field.dataType, True) for field in struct.fields])


def _decoder(schema_text: str, struct: StructType) -> Callable[[pa.Array], pa.Array]:
    record_type = to_arrow_type(struct, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        import fastavro

        schema = fastavro.parse_schema(json.loads(schema_text))
        records, problems = [], []
        for value in values:
            record, problem = _read_one(value.as_py(), schema, fastavro.schemaless_reader)
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
                problems[index] = f"the value does not fit the types of its fields: {_told(error)}"
                records[index] = None
        return pa.array(records, kind)


def _read_one(value: bytes | None, schema: Any, read: Any) -> tuple[Any, str | None]:
    if value is None:
        return None, None
    stream = io.BytesIO(value)
    try:
        record = read(stream, schema)
    except Exception as error:  # Broken bytes raise whatever the decoder meets first: EOFError, IndexError, and others.
        return None, f"the value is not Avro of this schema: {_told(error)}"
    rest = len(value) - stream.tell()
    if rest:
        return None, f"the value is not Avro of this schema: {rest} of its {len(value)} bytes are left over"
    return record, None


def _encoder(schema_text: str) -> Callable[[pa.Array], pa.Array]:
    def encode(records: pa.Array) -> pa.Array:
        import fastavro

        schema = fastavro.parse_schema(json.loads(schema_text))
        values, problems = [], []
        for record in records:
            value, problem = _write_one(record, schema, fastavro.schemaless_writer)
            values.append(value)
            problems.append(problem)
        return pa.StructArray.from_arrays(
            [pa.array(values, pa.binary()), pa.array(problems, pa.string())], [VALUE, PROBLEM]
        )

    return encode


def _write_one(record: pa.StructScalar, schema: Any, write: Any) -> tuple[bytes | None, str | None]:
    if not record.is_valid:
        return None, None
    stream = io.BytesIO()
    try:
        # One by one: a time that Python has not, of the year 10000, is that of its own row.
        write(stream, schema, record.as_py(maps_as_pydicts="strict"))
    except Exception as error:  # As above: the encoder raises what its Python met.
        return None, f"the row does not fit the Avro schema: {_told(error)}"
    return stream.getvalue(), None


def _told(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
