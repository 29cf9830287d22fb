"""Rows to topics: good ones as values, rejected ones as dead letters, in one atomic write."""

from functools import partial
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType

from levada.spark.rows.arrow_values import PROBLEM, VALUE
from levada.spark.rows.avro_schemas import avro_schema
from levada.spark.rows.avro_values import encoded
from levada.spark.rows.json_values import TO_JSON
from levada.spark.rows.kept import HEADERS, HEADERS_TYPE, SOURCE, TOPIC, Rows, frame_of, is_good
from levada.spark.rows.letters import letter_headers
from levada.spark.rows.problems import RowsError, column_of, one_of
from levada.spark.rows.reading import FORMATS, Format, Schema
from levada.spark.rows.registry import (
    Encoding,
    Registry,
    SchemaSource,
    encoding_of,
    schema_source,
    subject_of,
)
from levada.spark.rows.starting import APPEND, Query, start

STAGE = "write"
OWN_COLUMN = "_"
"""Columns that begin so are never part of a value."""
ENCODED = "_encoded"


def write(
    rows: Rows | DataFrame,
    topic: str | None = None,
    *,
    key: str | Column | None = None,
    format: Format = "json",
    schema: Schema = None,
    partition: str | None = None,
    timestamp: str | None = None,
    headers: str | None = None,
    keep_headers: bool = False,
    registry: str | Registry | None = None,
    subject: str | None = None,
    message: str | None = None,
    output_mode: Literal["append", "update", "complete"] = "append",
    checkpoint: str | None = None,
    trigger: str | float | None = None,
    name: str | None = None,
    delivery: str | None = None,
    bootstrap: str | None = None,
    **options: Any,
) -> StreamingQuery | None:
    """Write rows to `topic`; of `Rows`, the rejected ones to their dead-letter topic in the same atomic write.

    A stream gives its running query and needs a `checkpoint`; a batch is written when this returns. `trigger` is
    `"available-now"`, a number of seconds, or a length of time such as `"10 seconds"`; without it a batch follows the
    other. `name` is the query's, `delivery` and `options` are the data source's. `output_mode` is Spark's: an
    aggregation without a watermark needs `"update"`, which writes the rows that a batch has changed.

    The value is all columns that do not begin with `_`, as JSON; `format="avro"` takes those that its `schema` names,
    `"string"` and `"binary"` take the column `value`. `key` is a column (text and bytes as they are, others as text);
    the columns named by `partition`, `timestamp` and `headers` set these and are no part of the value. A row with a
    `_topic` (see `route`) goes there rather than to `topic`. Headers are those of the column `headers`, else of
    `_headers`; `keep_headers=True` puts those of the record that the row came from before them.

    With a `registry`, values of `"avro"`, `"json"` and `"protobuf"` get the id of their schema before them. The
    `schema` (Avro, JSON Schema, or the text of a .proto file) becomes a version of the `subject`, `<topic>-value`
    unless named, if it is none yet; without one it is the latest version. The columns that it names are written. See
    `read` for the options of registries.

    Good rows that do not fit a schema, of Avro or of a registry, become dead letters with the stage "write"; in a plain
    DataFrame, which has none, they fail the query.
    """
    source = schema_source(registry, subject or _subject(topic, registry), message, options)
    records = outgoing(
        rows,
        topic,
        key=key,
        format=format,
        schema=schema,
        partition=partition,
        timestamp=timestamp,
        headers=headers,
        keep_headers=keep_headers,
        source=source,
    )
    return start(records, Query(output_mode, checkpoint, trigger, name, delivery, bootstrap, options))


def write_dead_letters(
    rows: Rows,
    *,
    checkpoint: str | None = None,
    trigger: str | float | None = None,
    name: str | None = None,
    delivery: str | None = None,
    bootstrap: str | None = None,
    **options: Any,
) -> StreamingQuery | None:
    """Write the rejected rows only, for when the good ones go elsewhere: into an aggregation, a join, a table.

    It is a query of its own, which reads the source once more and has its own checkpoint.
    """
    records = rows.rejected.select(*(column.alias(name) for name, column in _letter(rows.dead_letters).items()))
    return start(records, Query(APPEND, checkpoint, trigger, name, delivery, bootstrap, options))


def outgoing(
    rows: Rows | DataFrame,
    topic: str | None = None,
    *,
    key: str | Column | None = None,
    format: Format = "json",
    schema: Schema = None,
    partition: str | None = None,
    timestamp: str | None = None,
    headers: str | None = None,
    keep_headers: bool = False,
    source: SchemaSource | None = None,
    is_only_checked: bool = False,
) -> DataFrame:
    """The records that `write` writes, with the columns of the data source's sink.

    For those that are only looked at, no schema is registered.
    """
    one_of("the format", format, FORMATS)
    frame = frame_of(rows)
    record = {
        "topic": _topic(frame, topic),
        "key": None if key is None else _as_bytes(frame, column_of(frame, key, "the key of write")),
        "partition": None if partition is None else column_of(frame, partition, "the partition of write").cast("int"),
        "timestamp": _timestamp(frame, timestamp),
        "headers": _headers(frame, headers, keep_headers),
    }
    taken = [each for each in (partition, timestamp, headers) if each is not None]
    if source is not None:
        own = [name for name in frame.columns if not name.startswith(OWN_COLUMN) and name not in taken]
        encoding = encoding_of(source, format, schema, frame.select(*own).schema, is_only_checked=is_only_checked)
        rows, record["value"] = _with_encoded(rows, encoding, f"the schema of {source.subject!r}")
    else:
        rows, record["value"] = _with_value(rows, format, schema, taken)
    if isinstance(rows, DataFrame):
        return rows.select(*(column.alias(name) for name, column in record.items() if column is not None))
    letter = _letter(rows.dead_letters)
    both = {}
    for column_name in letter.keys() | record.keys():
        good, rejected = record.get(column_name), letter.get(column_name)
        if good is None and rejected is None:
            continue
        both[column_name] = sf.when(is_good(), good).otherwise(rejected)
    return rows.frame.select(*(both[column_name].alias(column_name) for column_name in sorted(both)))


def _subject(topic: str | None, registry: str | Registry | None) -> str | None:
    return None if registry is None or topic is None else subject_of(topic)


def _letter(dead_letters: str) -> dict[str, Column]:
    source = sf.col(SOURCE)
    return {
        "topic": sf.lit(dead_letters),
        "key": source["key"],
        "value": source["value"],
        "timestamp": source["timestamp"],
        "headers": letter_headers(),
    }


def _topic(frame: DataFrame, topic: str | None) -> Column:
    if TOPIC in frame.columns:
        own = sf.col(TOPIC).cast("string")
        return own if topic is None else sf.coalesce(own, sf.lit(topic))
    if topic is None:
        raise RowsError(f"write: name a topic, or give each row its own in the column {TOPIC!r}, as route does")
    return sf.lit(topic)


def _timestamp(frame: DataFrame, timestamp: str | None) -> Column | None:
    if timestamp is None:
        return None
    return column_of(frame, timestamp, "the timestamp of write").cast("timestamp")


def _headers(frame: DataFrame, given: str | None, keep_headers: bool) -> Column | None:
    name = given or (HEADERS if HEADERS in frame.columns else None)
    own = None if name is None else column_of(frame, name, "the headers of write").cast(HEADERS_TYPE)
    if not keep_headers:
        return own
    if SOURCE not in frame.columns:
        raise RowsError(f"write: keep_headers needs the column {SOURCE!r}, with the record that a row came from")
    none = sf.array().cast(HEADERS_TYPE)
    before = sf.coalesce(sf.col(SOURCE)["headers"], none)
    return before if own is None else sf.concat(before, sf.coalesce(own, none))


def _with_value(
    rows: Rows | DataFrame, format: str, schema: Schema, taken: list[str]
) -> tuple[Rows | DataFrame, Column]:
    frame = frame_of(rows)
    if format == "avro":
        return _with_encoded(rows, _avro(frame, schema), "the Avro schema of write")
    if format == "protobuf":
        raise RowsError("write: format 'protobuf' needs a schema registry: registry='http://host:8081'")
    if schema is not None:
        raise RowsError(f"write: format {format!r} takes no schema; select the columns that are to be written")
    if format == "json":
        columns = [name for name in frame.columns if not name.startswith(OWN_COLUMN) and name not in taken]
        if not columns:
            raise RowsError("write: there is no column to write; those that begin with '_' are not part of a value")
        fields = sf.struct(*(column_of(frame, name, "the value of write").alias(name) for name in columns))
        return rows, sf.to_json(fields, TO_JSON).cast("binary")
    value = column_of(frame, "value", f"the value of write in format {format!r}")
    kind = frame.select(value.alias("value")).schema[0].dataType
    if not isinstance(kind, StringType | BinaryType):
        raise RowsError(f"write: format {format!r} needs text or bytes in 'value', not {kind.simpleString()}: cast it")
    return rows, value.cast("binary")


def _avro(frame: DataFrame, schema: Schema) -> Encoding:
    avro = avro_schema(schema)
    named = [name for name in avro.struct.fieldNames() if name in frame.columns or name not in avro.optional]
    return Encoding(named, partial(encoded, schema=avro))


def _with_encoded(rows: Rows | DataFrame, encoding: Encoding, what: str) -> tuple[Rows | DataFrame, Column]:
    frame = frame_of(rows)
    fields = sf.struct(*(column_of(frame, name, what).alias(name) for name in encoding.names))
    result = sf.col(ENCODED)
    if isinstance(rows, DataFrame):
        failed = sf.raise_error(result[PROBLEM]).cast("binary")
        return rows.withColumn(ENCODED, encoding.encoded(fields)), sf.coalesce(result[VALUE], failed)
    # Functions in Python see every row, whatever stands around them: rejected ones must come as null.
    with_bytes = frame.withColumn(ENCODED, encoding.encoded(sf.when(is_good(), fields)))
    checked = rows.with_frame(with_bytes).reject(result[PROBLEM].isNotNull(), result[PROBLEM], STAGE)
    return checked, result[VALUE]


def _as_bytes(frame: DataFrame, column: Column) -> Column:
    kind = frame.select(column.alias("key")).schema[0].dataType
    return column if isinstance(kind, BinaryType) else column.cast("string").cast("binary")
