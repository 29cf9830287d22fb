"""The queries of a pipeline as consumer groups `PIPELINE.QUERY`, so that Kafka's tools show how far each is."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from levada import Admin
from levada.spark.pipeline.meter import ends_of
from levada.spark.pipeline.progress import QueryProgress
from levada.spark.source.committing import OffsetCommitter


def group_of(pipeline: str, query: str) -> str:
    return f"{pipeline}.{query}"


class QueryGroups:
    def __init__(self, pipeline: str, bootstrap: str) -> None:
        self._pipeline = pipeline
        self._admin = Admin(bootstrap)
        self._committer = OffsetCommitter(self._admin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The last offsets are told by then.
        self._committer.close()
        self._admin.close()

    def commit(self, progress: Sequence[QueryProgress]) -> None:
        """What their last batches have read."""
        for one in progress:
            if one.offsets:
                self._committer.commit(group_of(self._pipeline, one.name), dict(one.offsets))


def lags_of(admin: Admin, pipeline: str, queries: Sequence[str]) -> dict[str, int]:
    """Records that each query has not read yet, by what its group has committed."""
    groups = {group_of(pipeline, query): query for query in queries}
    found = admin.list_group_offsets(dict.fromkeys(groups)).done
    committed = {
        groups[group]: {partition: one.offset for partition, one in offsets.items() if one is not None}
        for group, offsets in found.items()
    }
    partitions = {partition for offsets in committed.values() for partition in offsets}
    ends = ends_of(admin, partitions) if partitions else {}
    return {
        query: sum(max(0, ends[partition] - offset) for partition, offset in offsets.items())
        for query, offsets in committed.items()
        # The others' ends are unknown now.
        if offsets and offsets.keys() <= ends.keys()
    }
