"""Partitions that are assigned to the broker that has them, to brokers that do not exist, and taken back."""

from collections.abc import Sequence

from levada.protocol.api import ApiKey
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.interop.differential.cases import EVERY, Case, Table, since


def _assign(
    *targets: tuple[str, int, Sequence[int] | None], may_resize: bool = True
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        allow_replication_factor_change=may_resize,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
                ],
            )
            for topic, index, replicas in targets
        ],
    )


ALTER_REASSIGNMENTS = Table(
    "AlterPartitionReassignments",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    [
        Case("where it is", lambda _: _assign(("placed", 0, [1])), versions=EVERY),
        Case("both where they are", lambda _: _assign(("placed", 0, [1]), ("placed", 1, [1]))),
        Case("twice", lambda _: _assign(("placed", 0, [1]), ("placed", 0, [1]))),
        Case("taken back", lambda _: _assign(("placed", 0, None)), versions=EVERY),
        Case("unknown broker", lambda _: _assign(("placed", 0, [77]))),
        Case("known and unknown broker", lambda _: _assign(("placed", 0, [1, 77]))),
        Case("unknown brokers, the larger first", lambda _: _assign(("placed", 0, [79, 78]))),
        Case("negative broker", lambda _: _assign(("placed", 0, [-1]))),
        Case("no brokers", lambda _: _assign(("placed", 0, []))),
        Case("broker twice", lambda _: _assign(("placed", 0, [1, 1]))),
        Case("unknown broker twice", lambda _: _assign(("placed", 0, [77, 77]))),
        Case("unknown partition", lambda _: _assign(("placed", 7, [1]))),
        Case("negative partition", lambda _: _assign(("placed", -1, [1]))),
        Case("unknown topic", lambda _: _assign(("placed-never", 0, [1]))),
        Case("unknown topic, taken back", lambda _: _assign(("placed-never", 0, None))),
        Case("unknown and known", lambda _: _assign(("placed-never", 0, [1]), ("placed", 0, [1]))),
        Case("nothing", lambda _: _assign()),
        Case("no resizing, same size", lambda _: _assign(("placed", 0, [1]), may_resize=False), versions=since(1)),
        Case(
            "no resizing, unknown broker",
            lambda _: _assign(("placed", 0, [1, 77]), may_resize=False),
            versions=since(1),
        ),
        Case(
            "no resizing, broker twice", lambda _: _assign(("placed", 0, [1, 1]), may_resize=False), versions=since(1)
        ),
    ],
    topics={"placed": {}},
)


def _list(*topics: tuple[str, Sequence[int]]) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(
        timeout_ms=10_000,
        topics=[
            ListPartitionReassignmentsTopics(name=name, partition_indexes=list(indexes)) for name, indexes in topics
        ],
    )


LIST_REASSIGNMENTS = Table(
    "ListPartitionReassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    [
        Case("all", lambda _: ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None)),
        Case("some", lambda _: _list(("spread", [0, 1]))),
        Case("unknown partition", lambda _: _list(("spread", [7, -1]))),
        Case("unknown topic", lambda _: _list(("listed-never", [0]))),
        Case("no partitions", lambda _: _list(("spread", []))),
        Case("no topics", lambda _: _list()),
    ],
    topics={"spread": {}},
)
