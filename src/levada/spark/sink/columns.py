"""The columns that the sink takes, and the rows of a batch by the topic they go to."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from levada.spark.options import OptionError

HEADERS = "array<struct<key: string, value: binary>>"
EXPECTED = {
    "value": "string or binary",
    "key": "string or binary",
    "headers": HEADERS,
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp",
}
"""The types of columns, in the words of Spark SQL, for the user who has to change one."""


class RowRefused(ValueError):
    """A row that cannot be written; the text is one line that says why."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise for the first column that is missing, unknown, or of a type that cannot be written."""
    for field in schema.fields:
        expected = EXPECTED.get(field.name)
        if expected is None:
            raise OptionError(
                f"column {field.name!r} cannot be written to a topic: select only {', '.join(EXPECTED)}, "
                "and put other columns into 'value', as to_json(struct(*)) does"
            )
        if not _fits(field.name, field.dataType):
            raise OptionError(f"column {field.name!r} must be {expected}, not {field.dataType.simpleString()}: cast it")
    names = schema.fieldNames()
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"column {name!r} comes twice: drop one of them")
    if "value" not in names:
        raise OptionError("there is no column 'value': select what is to be written under that name")
    if topic is None and "topic" not in names:
        raise OptionError("no topic is named: set the option 'topic', or add a column 'topic'")


def _fits(name: str, found: DataType) -> bool:
    if name in ("value", "key"):
        return isinstance(found, StringType | BinaryType)
    if name == "topic":
        return isinstance(found, StringType)
    if name == "partition":
        return isinstance(found, IntegerType)
    if name == "timestamp":
        return isinstance(found, TimestampType)
    return _are_headers(found)


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = found.elementType.fields
    if [field.name for field in fields] != ["key", "value"]:
        return False
    return isinstance(fields[0].dataType, StringType) and isinstance(fields[1].dataType, BinaryType)


def rows_by_topic(
    batch: pa.RecordBatch, topic: str | None, *, writes_headers: bool
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Each topic of a batch with its rows, in their order, as a producer takes them."""
    names = [name for name in batch.schema.names if name != "topic" and (writes_headers or name != "headers")]
    rows = batch.select(names)
    if topic is not None:
        yield topic, rows
        return
    topics = batch.column(batch.schema.get_field_index("topic"))
    if topics.null_count:
        raise RowRefused(
            f"column 'topic' is null in {topics.null_count} row(s), and there is no option 'topic': "
            "name a topic in every row, or leave such rows out"
        )
    encoded = topics.dictionary_encode()
    if len(encoded.dictionary) == 1:
        yield encoded.dictionary[0].as_py(), rows
        return
    import pyarrow.compute as pc

    # One sort that keeps the order of equal rows, rather than one pass over all rows for each topic.
    rows = rows.take(pc.sort_indices(encoded.indices))
    counts = {each["values"]: each["counts"] for each in pc.value_counts(encoded.indices).to_pylist()}
    start = 0
    for index, name in enumerate(encoded.dictionary.to_pylist()):
        yield name, rows.slice(start, counts[index])
        start += counts[index]
