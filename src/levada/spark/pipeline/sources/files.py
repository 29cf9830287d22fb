"""A source of files that appear in a directory, each read once: log collection."""

import re
from collections.abc import Mapping
from functools import reduce
from operator import or_
from pathlib import PurePath
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from levada.spark.pipeline.problems import PipelineError
from levada.spark.rows import Rows
from levada.spark.rows.json_values import PROBLEM, SHOWN, VALUE, decoded, missing_fields
from levada.spark.rows.kept import HEADERS_TYPE, SOURCE, SOURCE_FIELDS
from levada.spark.rows.problems import quoted
from levada.spark.rows.reading import DEAD_LETTERS_SUFFIX, rows_with, struct_of
from levada.spark.rows.reading import PROBLEM as REASON

FORMATS: Final = ("text", "json", "csv")
DEFAULT_MAX_FILES: Final = 100
FILE: Final = "_file"
MODIFIED: Final = "_modified"
FILE_HEADER: Final = "levada-file"
"""In the dead letter of a line: where it was."""
CORRUPT: Final = "~corrupt"
SET_BY_US: Final = ("mode", "columnnameofcorruptrecord")
MOST_COLUMNS: Final = "maxColumns"
MOST_OF_A_LINE: Final = 1 << 20
"""A line with more ends the query. Spark's own limit is 20,480; its parser has memory for as many as are allowed."""
REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
OF_FILES_ONLY: Final = ("linesep", "encoding", "charset")
"""Options that say how lines are found, and nothing of what is in one."""

Found = tuple[DataFrame, list[Column], Column, Column]
"""A frame; in it the fields, the bytes of the line, and what is wrong with it."""


def read_files(
    spark: SparkSession,
    directory: str,
    *,
    format: str = "text",
    schema: str | None = None,
    dead_letters: str | None = None,
    max_files: int = DEFAULT_MAX_FILES,
    options: Mapping[str, str] | None = None,
) -> Rows | DataFrame:
    """The rows of new files, with `_file` and `_modified`: where a row is from, and when that file was written.

    Text gives a frame with one `value` for each line. JSON, an object on each line, and CSV need a schema and give
    `Rows`: a line that does not fit it becomes a dead letter, of a topic that is called as the directory is unless
    `dead_letters` names one. A file must appear in the directory as a whole, by a rename, and is not looked at again.
    """
    if format not in FORMATS:
        raise PipelineError(f"files are read as {', '.join(FORMATS)}, not {format!r}")
    if format == "text" and (schema is not None or dead_letters is not None):
        raise PipelineError("text files have no schema and no dead letters: each line is a 'value'")
    if format != "text" and schema is None:
        raise PipelineError(f"{format} files need a schema, such as 'id string, amount double'")
    given = dict(options or {})
    _refuse_options(format, given)
    reader = spark.readStream.options(**given).option("maxFilesPerTrigger", max_files)
    if format == "text":
        return _placed(reader.format("text").load(directory))
    struct = struct_of(schema, f"{format} files")
    found = _json(reader, directory, struct, given) if format == "json" else _csv(reader, directory, struct, given)
    return _rows(found, dead_letters or _topic_of(directory) + DEAD_LETTERS_SUFFIX)


def _json(reader: DataStreamReader, directory: str, struct: StructType, options: Mapping[str, str]) -> Found:
    """Line by line, as Spark's own reader of JSON takes the first object of a line and loses what follows it."""
    lines = _placed(reader.format("text").load(directory)).where(sf.trim("value") != "")
    of_values = {name: value for name, value in options.items() if name.lower() not in OF_FILES_ONLY}
    parsed = sf.col("_parsed")
    frame = lines.withColumn("_parsed", decoded(sf.col("value"), struct, of_values))
    fields = [parsed[VALUE][name].alias(name) for name in struct.fieldNames()]
    return frame, fields, sf.col("value").cast("binary"), parsed[PROBLEM]


def _csv(reader: DataStreamReader, directory: str, struct: StructType, options: Mapping[str, str]) -> Found:
    """By Spark's own reader, which knows of headers and of values with several lines.

    It keeps the text of lines that do not fit; that of others is made anew where a later step rejects them. What is not
    UTF-8 it replaces, so that only the replacement tells.
    """
    whole = StructType([*struct.fields, StructField(CORRUPT, StringType())])
    reader = reader.format("csv").schema(whole).option("mode", "PERMISSIVE").option("columnPruning", False)
    names = {name.lower() for name in options}
    if MOST_COLUMNS.lower() not in names:
        reader = reader.option(MOST_COLUMNS, MOST_OF_A_LINE)
    frame = _placed(reader.option("columnNameOfCorruptRecord", CORRUPT).load(directory))
    corrupt = sf.col(quoted(CORRUPT))
    fields = [sf.col(quoted(name)) for name in struct.fieldNames()]
    missing = missing_fields(sf.struct(*fields), struct)
    shown = sf.substring(corrupt, 1, SHOWN)
    texts = [sf.col(quoted(field.name)) for field in whole.fields if isinstance(field.dataType, StringType)]
    is_replaced = reduce(or_, (sf.coalesce(sf.contains(text, sf.lit(REPLACED)), sf.lit(False)) for text in texts))
    # What other encodings have of their own is decoded as it is.
    is_broken = sf.lit(False) if names & {"encoding", "charset"} else is_replaced
    problem = sf.when(is_broken, sf.lit("the line is not UTF-8"))
    problem = problem.when(corrupt.isNotNull(), sf.concat(sf.lit("the line does not fit the schema: "), shown))
    line = sf.coalesce(corrupt, sf.to_csv(sf.struct(*fields), dict(options))).cast("binary")
    return frame, fields, line, problem.when(missing != "", missing)


def _rows(found: Found, dead_letters: str) -> Rows:
    frame, fields, line, problem = found
    header = sf.struct(sf.lit(FILE_HEADER).alias("key"), sf.col(FILE).cast("binary").alias("value"))
    source = {
        "topic": sf.lit(None).cast("string"),
        "partition": sf.lit(None).cast("int"),
        "offset": sf.lit(None).cast("bigint"),
        "timestamp": sf.col(MODIFIED),
        "key": sf.lit(None).cast("binary"),
        "value": line,
        "headers": sf.array(header).cast(HEADERS_TYPE),
    }
    record = sf.struct(*(source[name].alias(name) for name in SOURCE_FIELDS)).alias(SOURCE)
    return rows_with(frame.select(*fields, FILE, MODIFIED, record, problem.alias(REASON)), dead_letters)


def _placed(frame: DataFrame) -> DataFrame:
    """With the place of each row."""
    return frame.select("*", "_metadata.file_path", "_metadata.file_modification_time").withColumnsRenamed(
        {"file_path": FILE, "file_modification_time": MODIFIED}
    )


def _topic_of(directory: str) -> str:
    """What a topic can be called."""
    return re.sub(r"[^\w.-]", "-", PurePath(directory).name, flags=re.ASCII) or "files"


def _refuse_options(format: str, options: Mapping[str, str]) -> None:
    for name, value in options.items():
        if name.lower() in SET_BY_US and format != "text":
            raise PipelineError(f"option {name!r} is set already: lines that do not fit become dead letters")
        if name.lower() == "multiline" and format == "json" and value.lower() != "false":
            raise PipelineError(f"JSON files have one object on each line: write them so, and leave {name!r} out")
