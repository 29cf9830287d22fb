"""What a run that ended in the middle of its first step leaves in a checkpoint, and Spark would stumble over."""

from collections.abc import Sequence
from typing import Final

from levada.spark.paths import local_path

LOGS: Final = ("offsets", "commits")


def clear_leftovers(directory: str, queries: Sequence[str]) -> None:
    """Remove half-written files from logs without a batch: Spark takes them for another query's, and refuses to begin.

    The caller holds the locks of the queries, so that none of them is being written.
    """
    here = local_path(directory)
    if here is None:
        return
    for query in queries:
        for name in LOGS:
            log = here / query / name
            if log.is_dir() and not any(file.name.isdecimal() for file in log.iterdir()):
                for file in log.glob(".*.tmp*"):
                    file.unlink(missing_ok=True)
