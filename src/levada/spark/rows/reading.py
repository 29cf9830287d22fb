"""Topics as rows: values decoded to columns, and those that cannot be decoded kept as rejected rows."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from levada.spark.rows import avro_values, json_values
from levada.spark.rows.avro_schemas import avro_schema
from levada.spark.rows.kept import (
    HEADERS_TYPE,
    REJECTED,
    RESERVED,
    SOURCE,
    SOURCE_FIELDS,
    RejectingStep,
    Rows,
    told_by,
)
from levada.spark.rows.problems import RowsError, first_line, one_of
from levada.spark.rows.registry import Registry, SchemaSource, reading_of, schema_source, subject_of
from levada.spark.sessions import bootstrap_of

STAGE = "parse"
PROBLEM = "_problem"
PARSED = "_parsed"
FORMATS = ("json", "string", "avro", "protobuf", "binary")
TOMBSTONES = ("reject", "drop", "keep")
DEAD_LETTERS_SUFFIX = ".dead-letters"
SET_BY_READ = {
    "subscribe": "name the topics as the first argument",
    "includeheaders": "headers are always read",
    "kafka.bootstrap.servers": "use bootstrap=...",
}

Format: TypeAlias = Literal["json", "string", "avro", "protobuf", "binary"]
Tombstones: TypeAlias = Literal["reject", "drop", "keep"]
Schema: TypeAlias = str | StructType | Mapping[str, Any] | None


def read(
    topic: str | Iterable[str],
    schema: Schema = None,
    *,
    format: Format = "json",
    dead_letters: str | None = None,
    tombstones: Tombstones = "reject",
    registry: str | Registry | None = None,
    subject: str | None = None,
    message: str | None = None,
    stream: bool = True,
    spark: SparkSession | None = None,
    bootstrap: str | None = None,
    **options: Any,
) -> Rows:
    """Read topics, with the fields of their values as columns.

    `schema` says what values look like. For `format="json"` it is a StructType or its short form, such as
    `"id string not null, amount double"`: fields that are not in it are ignored, fields that are missing are null. For
    `"avro"` it is an Avro record as JSON text or a dict; values are plain Avro, without a prefix. `"string"` and
    `"binary"` need none and give one column, `value`.

    With a `registry`, such as `"http://user:password@localhost:8081"`, values of `"avro"`, `"json"` (JSON Schema) and
    `"protobuf"` have the id of their schema before them, as Confluent's clients write them. Without a `schema` they are
    read as the latest version of the `subject`, `<topic>-value` unless named, is now; `message` is one of a Protobuf
    schema that has several. The options `registry_user`, `registry_password`, `registry_ca` (a file) and
    `registry_wait`, how long a running query waits for a registry that is away, go with it.

    A value that cannot be decoded, has a field of another type, or lacks one that is `not null`, makes a rejected row,
    with the reason in `_rejected`; `write` sends it to the topic `dead_letters` (`<topic>.dead-letters` unless named).

    A record without a value is a tombstone: rejected, left out (`tombstones="drop"`), or kept as a good row whose
    fields are all null and whose key is in `_source.key` (`"keep"`).

    `options` are those of the data source, by the names they have in Spark: `startingOffsets="earliest"`,
    `maxOffsetsPerTrigger=1000`. As with Spark's own source, a new stream begins at the latest offsets unless it is told
    otherwise, and a batch read (`stream=False`) at the earliest.
    """
    one_of("the format", format, FORMATS)
    topics = [topic] if isinstance(topic, str) else list(topic)
    if not topics:
        raise RowsError("read: name at least one topic")
    if dead_letters is None and len(topics) > 1:
        raise RowsError("read: several topics have no dead-letter topic of their own; name one: dead_letters='...'")
    for name in options:
        if name.lower() in SET_BY_READ:
            raise RowsError(f"read: option {name!r} is set already; {SET_BY_READ[name.lower()]}")
    source = schema_source(registry, subject or _subject(topics, registry, schema), message, options)
    running = running_session(spark)
    reader = running.readStream if stream else running.read
    frame = (
        reader.format("levada")
        .options(**{name: as_option(value) for name, value in options.items() if value is not None})
        .option("kafka.bootstrap.servers", bootstrap_of(running, bootstrap))
        .option("subscribe", ",".join(topics))
        .option("includeHeaders", "true")
        .load()
    )
    return _rows(frame, schema, format, dead_letters or topics[0] + DEAD_LETTERS_SUFFIX, tombstones, source)


def parse(
    frame: DataFrame,
    schema: Schema = None,
    *,
    format: Format = "json",
    dead_letters: str,
    tombstones: Tombstones = "reject",
    registry: str | Registry | None = None,
    subject: str | None = None,
    message: str | None = None,
    **options: Any,
) -> Rows:
    """What `read` does, for a frame with the columns of the data source (with `includeHeaders` or without).

    `options` are those of the registry.
    """
    source = schema_source(registry, subject, message, options)
    if options:
        raise RowsError(f"parse has no option {next(iter(options))!r}: give it to what makes the frame")
    return _rows(frame, schema, format, dead_letters, tombstones, source)


def _rows(
    frame: DataFrame, schema: Schema, format: str, dead_letters: str, tombstones: str, source: SchemaSource | None
) -> Rows:
    one_of("the format", format, FORMATS)
    one_of("tombstones", tombstones, TOMBSTONES)
    sourced = _with_source(frame)
    value = sf.col(SOURCE)["value"]
    if tombstones == "drop":
        sourced = sourced.where(value.isNotNull())
    result, columns, problem = _decoded(sourced, schema, format, value, source)
    if tombstones == "reject":
        problem = sf.when(value.isNull(), sf.lit("the value is null")).otherwise(problem)
    else:
        problem = sf.when(value.isNotNull(), problem)
    return rows_with(result.select(*columns, SOURCE, problem.alias(PROBLEM)), dead_letters)


def rows_with(explained: DataFrame, dead_letters: str) -> Rows:
    """Rows of a frame in which `_problem` says why one is not good."""
    reason, step = sf.col(PROBLEM), RejectingStep.next()
    told = sf.when(reason.isNotNull(), told_by(reason, STAGE, step.number))
    return Rows(explained.withColumn(REJECTED, told).drop(PROBLEM), dead_letters, (step,))


def struct_of(schema: Schema, what: str) -> StructType:
    """A StructType from its short form; raises RowsError for what is none."""
    found = _from_short_form(schema, what) if isinstance(schema, str) else schema
    if not isinstance(found, StructType) or not found.fields:
        raise RowsError(f"{what}: name the fields of values, such as schema='id string, amount double'")
    refuse_names(found)
    return found


def refuse_names(schema: StructType) -> None:
    names = [name.lower() for name in schema.fieldNames()]
    for name in names:
        if name in (*RESERVED, PROBLEM):
            raise RowsError(f"the schema has a field {name!r}, a name that rows use themselves: call it something else")
        if names.count(name) > 1:
            raise RowsError(f"the schema has two fields {name!r}, which Spark does not tell apart: leave one out")


def running_session(given: SparkSession | None) -> SparkSession:
    found = given or SparkSession.getActiveSession()
    if found is None:
        raise RowsError("there is no Spark session: call levada.spark.session() first, or give one: spark=...")
    return found


def _from_short_form(text: str, what: str) -> DataType:
    try:
        return StructType.fromDDL(text)
    except PySparkException as error:
        raise RowsError(f"{what}: {text!r} is not a schema: {first_line(error)}") from None


def as_option(value: Any) -> str:
    """Python's True is Spark's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_source(frame: DataFrame) -> DataFrame:
    """The record as it was, and nothing else."""
    headers = sf.col("headers") if "headers" in frame.columns else sf.lit(None).cast(HEADERS_TYPE)
    missing = [name for name in SOURCE_FIELDS if name not in frame.columns and name != "headers"]
    if missing:
        raise RowsError(f"the frame has no column {missing[0]!r}: give one with the columns of the data source")
    columns = [headers.alias(name) if name == "headers" else sf.col(name) for name in SOURCE_FIELDS]
    return frame.select(sf.struct(*columns).alias(SOURCE))


def _subject(topics: list[str], registry: str | Registry | None, schema: Schema) -> str | None:
    if registry is None or (schema is not None and len(topics) > 1):
        return None
    if len(topics) > 1:
        raise RowsError("read: several topics have no subject of their own; name one: subject='...'")
    return subject_of(topics[0])


def _decoded(
    frame: DataFrame, schema: Schema, format: str, value: Column, source: SchemaSource | None
) -> tuple[DataFrame, list[Column], Column]:
    """The frame to select from, the columns of the value, and the reason why there are none."""
    text, parsed = value.cast("string"), sf.col(PARSED)
    if source is not None:
        reading = reading_of(source, format, schema)
        refuse_names(reading.struct)
        found, problem = reading.applied(frame, value, PARSED)
        return found, _fields(reading.struct), problem
    if format == "json":
        struct = struct_of(schema, "read")
        return frame.withColumn(PARSED, json_values.decoded(text, struct)), _fields(struct), parsed["problem"]
    if format == "avro":
        avro = avro_schema(schema)
        refuse_names(avro.struct)
        return frame.withColumn(PARSED, avro_values.decoded(value, avro)), _fields(avro.struct), parsed["problem"]
    if format == "protobuf":
        raise RowsError("read: format 'protobuf' needs a schema registry: registry='http://host:8081'")
    if schema is not None:
        raise RowsError(f"read: format {format!r} takes no schema; its values are one column, 'value'")
    if format == "binary":
        return frame, [value.alias("value")], sf.lit(None).cast("string")
    is_text = sf.is_valid_utf8(text)
    return frame, [sf.when(is_text, text).alias("value")], sf.when(~is_text, sf.lit("the value is not UTF-8"))


def _fields(struct: StructType) -> list[Column]:
    return [sf.col(PARSED)["value"][name].alias(name) for name in struct.fieldNames()]
