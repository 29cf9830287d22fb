"""A sink of Parquet files, a directory for each micro-batch, which appears as a whole or not at all."""

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from levada.spark.pipeline.problems import PipelineError, unknown
from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, visible
from levada.spark.rows.problems import quoted

OWNER: Final = "_levada_query"
"""A file with the id of the query whose batches are here."""

STAGING: Final = "_levada_staging"
"""Readers of Parquet leave names that begin with an underscore alone."""


@dataclass(frozen=True, slots=True)
class ParquetSink(BatchSink):
    """Any address that Spark can write to: a path, `hdfs://`, `s3a://`."""

    directory: str
    partition_by: tuple[str, ...] = ()

    def problems(self, schema: StructType, query: str | None) -> list[str]:
        names = visible(schema.names)
        found = [unknown("column", name, names) for name in self.partition_by if name not in names]
        place = HadoopDirectory(self.directory)
        owner = place.read(OWNER)
        if owner is None and place.names():
            return [*found, f"{self.directory} is not empty and not this pipeline's: choose an empty directory"]
        if owner is not None and owner != query:
            return [*found, _other_owner(self.directory)]
        return found

    def write(self, frame: DataFrame, batch: MicroBatch, control: Control) -> None:
        place = HadoopDirectory(self.directory)
        owner = place.read(OWNER)
        if owner is None:
            place.write(OWNER, batch.query)
        elif owner != batch.query:
            # Another query's batches have the same numbers: they would be taken for ours, and ours be left out.
            raise PipelineError(_other_owner(self.directory))
        name = f"batch={batch.number}"
        if place.exists(name):
            return
        written = frame.select(*map(quoted, visible(frame.columns)))
        written.write.partitionBy(*self.partition_by).mode("overwrite").parquet(place.path(f"{STAGING}/{name}"))
        place.rename(f"{STAGING}/{name}", name)


class HadoopDirectory:
    """A directory in any of Hadoop's file systems."""

    def __init__(self, directory: str) -> None:
        spark: Any = SparkSession.active()
        self._jvm = spark._jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(directory)
        self._files = self._root.getFileSystem(spark._jsc.hadoopConfiguration())

    def path(self, name: str) -> str:
        return str(self._at(name).toString())

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def names(self) -> list[str]:
        if not self._files.exists(self._root):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(self._root)]

    def read(self, name: str) -> str | None:
        if not self.exists(name):
            return None
        stream = self._files.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._files.create(self._at(name), True)
        try:
            stream.writeBytes(text)
        finally:
            stream.close()

    def rename(self, source: str, target: str) -> None:
        if not self._files.rename(self._at(source), self._at(target)):
            raise OSError(f"cannot rename {self.path(source)} to {self.path(target)}")

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


def _other_owner(directory: str) -> str:
    return (
        f"{directory} has batches of another checkpoint, which would hide this one's:"
        " go on with that checkpoint, or choose an empty directory"
    )
