"""Values in Avro as columns and back; Spark's own functions for it are in a jar that PyPI does not have."""

import io
import json
from functools import partial
from typing import Any

from pyspark.sql import Column

from levada.spark.rows import arrow_values
from levada.spark.rows.arrow_values import ReadOne, WriteOne, told
from levada.spark.rows.avro_bounds import Guard, guard_of
from levada.spark.rows.avro_schemas import AvroSchema


def decoded(value: Column, schema: AvroSchema) -> Column:
    """A struct of `value`, the record or null, and `problem`, why there is none."""
    return arrow_values.decoded(value, schema.struct, partial(_reader, schema.text))


def encoded(record: Column, schema: AvroSchema, prefix: bytes = b"") -> Column:
    """A struct of `value`, bytes or null, and `problem`, why there are none; both null for a null record."""
    return arrow_values.encoded(record, "Avro schema", partial(_writer, schema.text, prefix))


def read_record(
    value: bytes, start: int, written: Any, wanted: Any, what: str, guard: Guard | None
) -> tuple[Any, str | None]:
    """The record behind `start`, as the wanted schema has it if that is another one than it was written with.

    `guard` is that of the schema that it was written with.
    """
    import fastavro

    stream = io.BytesIO(value)
    stream.seek(start)
    try:
        if guard is not None:
            guard(value, start)
        record = fastavro.schemaless_reader(stream, written, wanted)
    except fastavro.read.SchemaResolutionError as error:
        return None, f"the value cannot be read as the subject's schema from {what}: {told(error)}"
    except Exception as error:  # Broken bytes raise whatever the decoder meets first: EOFError, IndexError, and others.
        return None, f"the value is not Avro of {what}: {told(error)}"
    rest = len(value) - stream.tell()
    if rest:
        return None, f"the value is not Avro of {what}: {rest} of its {len(value)} bytes are left over"
    return record, None


def _reader(schema_text: str) -> ReadOne:
    import fastavro

    schema = fastavro.parse_schema(json.loads(schema_text))
    guard = guard_of(schema)

    def read(value: bytes) -> tuple[Any, str | None]:
        return read_record(value, 0, schema, None, "this schema", guard)

    return read


def _writer(schema_text: str, prefix: bytes) -> WriteOne:
    import fastavro

    schema = fastavro.parse_schema(json.loads(schema_text))

    def write(record: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        stream.write(prefix)
        fastavro.schemaless_writer(stream, schema, record)
        return stream.getvalue()

    return write
