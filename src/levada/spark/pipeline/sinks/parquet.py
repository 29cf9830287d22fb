"""A sink of Parquet files, a directory for each micro-batch, which appears as a whole or not at all."""

import os
import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from levada.spark.pipeline.problems import PipelineError, unknown
from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, is_written, visible
from levada.spark.rows.problems import quoted

OWNER: Final = "_levada_query"
"""A file with the id of the query whose batches are here."""

STAGING: Final = "_levada_staging"
"""Readers of Parquet leave names that begin with an underscore alone."""

BATCH: Final = "batch"
"""Directories are called so, with their number: readers make a column of it."""

PUBLISHED: Final = re.compile(rf"/{BATCH}=(\d+)(?=[,}}])")
STAGED: Final = re.compile(rf"/({BATCH}=(\d+)-[^/,}}]+)(?=[,}}])")


@dataclass(frozen=True, slots=True)
class ParquetSink(BatchSink):
    """Any address that Spark can write to: a path, `hdfs://`, `s3a://`."""

    directory: str
    partition_by: tuple[str, ...] = ()
    _gone_on: set[str] = field(default_factory=set, init=False, compare=False, repr=False)
    """Queries that have written a batch in this process."""

    def problems(self, schema: StructType, query: str | None) -> list[str]:
        names = visible(schema.names)
        found = [unknown("column", name, names) for name in self.partition_by if name not in names]
        found += [
            f"a column {name!r} would be hidden by that of the directories ({BATCH}=0, {BATCH}=1, ...): rename it"
            for name in names
            if name.lower() == BATCH
        ]
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
        if is_written(self._last_published(place, batch), batch):
            return
        name = f"{BATCH}={batch.number}"
        # Its own: a driver that was given up may still write the same batch.
        staged = f"{STAGING}/{name}-{uuid.uuid4().hex}"
        written = frame.select(*map(quoted, visible(frame.columns)))
        written.write.partitionBy(*self.partition_by).parquet(place.path(staged))
        if not place.publish(staged, name):
            place.remove(staged)
        # What is left of batches before can be published no more.
        for left, number in STAGED.findall(place.listing(STAGING)):
            if int(number) < batch.number:
                place.remove(f"{STAGING}/{left}")
        self._gone_on.add(batch.query)

    def _last_published(self, place: "HadoopDirectory", batch: MicroBatch) -> int | None:
        """All directories are looked at once in a run, as there can be very many: it can only go on from there."""
        if batch.query not in self._gone_on:
            return max(map(int, PUBLISHED.findall(place.listing())), default=None)
        near = (batch.number + 1, batch.number)
        return next((number for number in near if place.exists(f"{BATCH}={number}")), None)


class HadoopDirectory:
    """A directory in any of Hadoop's file systems."""

    def __init__(self, directory: str) -> None:
        spark: Any = SparkSession.active()
        self._jvm = spark._jvm
        self._gateway = spark.sparkContext._gateway
        self._settings = spark._jsc.hadoopConfiguration()
        self._root = self._jvm.org.apache.hadoop.fs.Path(directory)
        self._files = self._root.getFileSystem(self._settings)

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

    def listing(self, name: str = "") -> str:
        """Everything in it, as one text such as `{file:/a/b,file:/a/c}`: to ask for each would take a call each."""
        at = self._at(name) if name else self._root
        if not self._files.exists(at):
            return "{}"
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(self._files.listStatus(at))
        return str(self._jvm.org.apache.commons.lang3.ArrayUtils.toString(paths))

    def remove(self, name: str) -> None:
        self._files.delete(self._at(name), True)

    def publish(self, source: str, target: str) -> bool:
        """Give a directory its name; not if another has it by now: a plain rename would move the one into the other."""
        try:
            if self._files.getUri().getScheme() == "file":
                # Java's own rename would copy, file by file, where this one refuses.
                os.rename(self._local(source), self._local(target))
            else:
                hadoop = self._jvm.org.apache.hadoop.fs
                no_overwriting = self._gateway.new_array(hadoop.Options.Rename, 0)
                context = hadoop.FileContext.getFileContext(self._root.toUri(), self._settings)
                context.rename(self._at(source), self._at(target), no_overwriting)
        except Exception:
            if not self.exists(target):
                raise
            return False
        return True

    def _local(self, name: str) -> str:
        return str(self._at(name).toUri().getPath())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


def _other_owner(directory: str) -> str:
    return (
        f"{directory} has batches of another checkpoint, which would hide this one's:"
        " go on with that checkpoint, or choose an empty directory"
    )
