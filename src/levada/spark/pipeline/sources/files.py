"""A source of files that appear in a directory, each read once: log collection."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from levada.spark.pipeline.problems import PipelineError

FORMATS: Final = ("text", "json", "csv")
DEFAULT_MAX_FILES: Final = 100


def read_files(
    spark: SparkSession,
    directory: str,
    *,
    format: str = "text",
    schema: str | None = None,
    max_files: int = DEFAULT_MAX_FILES,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of new files, with `_file` and `_modified`: where a row is from, and when that file was written.

    Text gives one `value` for each line; JSON and CSV need a schema, and a line that does not fit it ends the query: it
    would be lost otherwise. A file must appear in the directory as a whole, by a rename, and is not looked at again.
    """
    if format not in FORMATS:
        raise PipelineError(f"files are read as {', '.join(FORMATS)}, not {format!r}")
    if format == "text" and schema is not None:
        raise PipelineError("text files have no schema: each line is a 'value'")
    if format != "text" and schema is None:
        raise PipelineError(f"{format} files need a schema, such as 'id string, amount double'")
    reader = spark.readStream.format(format).option("maxFilesPerTrigger", max_files)
    if format != "text":
        reader = reader.option("mode", "FAILFAST")
    if schema is not None:
        reader = reader.schema(schema)
    rows = reader.options(**(options or {})).load(directory)
    return rows.select("*", "_metadata.file_path", "_metadata.file_modification_time").withColumnsRenamed(
        {"file_path": "_file", "file_modification_time": "_modified"}
    )
