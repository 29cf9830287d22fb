"""How a query's progress gets into the files of its checkpoint."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from levada.spark.paths import local_path, scheme_of

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
BY_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
PLACES = (".metadata.crc", *(f"{part}/**/.*.crc" for part in ("offsets", "commits", "sources", "state")))
"""The checksums of Spark's own files: what else lies in the directory is not ours."""
DEFAULT_FILE_SYSTEM = "fs.defaultFS"

_starting = threading.Lock()


@contextmanager
def quick_files(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """For the start of a query whose checkpoint is on this machine's disk: its files take a quarter of the time.

    Spark writes two files in each batch, and one for each partition of a state. By default it does so through Hadoop's
    FileContext, which starts several processes to look at the permissions of each local file and to set them. Hadoop's
    FileSystem starts one, and renames local files as well; on other file systems it may leave an old file where a new
    one belongs, so these keep what they have. A session in which one was chosen keeps it, too.
    """
    with _starting:
        if spark.conf.get(FILE_MANAGER, None) is not None or not is_on_this_machine(spark, checkpoint):
            yield
            return
        directory = local_path(checkpoint)
        assert directory is not None
        _remove_checksums(directory)
        # A query copies the session's settings when it starts.
        spark.conf.set(FILE_MANAGER, BY_FILE_SYSTEM)
        try:
            yield
        finally:
            spark.conf.unset(FILE_MANAGER)


def _remove_checksums(directory: Path) -> None:
    """FileSystem renames a file first and then its checksum: killed between the two, what is there would not agree.

    A file without one is read as it is; those that FileContext writes have none.
    """
    for place in PLACES:
        for path in directory.glob(place):
            path.unlink(missing_ok=True)


def is_on_this_machine(spark: SparkSession, path: str) -> bool:
    if scheme_of(path):
        return local_path(path) is not None
    context = getattr(spark, "_sc", None)
    # Of a Spark Connect session it is not known.
    return context is not None and scheme_of(context._jsc.hadoopConfiguration().get(DEFAULT_FILE_SYSTEM)) == "file"
