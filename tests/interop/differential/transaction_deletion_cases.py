"""Cases about what transactions have pending when it is deleted, and about several markers in one request."""

from collections.abc import Callable, Iterator
from typing import Any

from levada.protocol.api import ApiKey
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.interop.differential.cases import Case, Side, Table
from tests.interop.differential.transaction_cases import (
    ADD,
    COMMIT,
    END,
    IMPLICIT,
    INIT,
    MARKERS,
    PRODUCE,
    Step,
    add,
    commit_offset,
    end,
    end_offset,
    fetch_offset,
    init,
    own,
    producers,
    put,
    steps_of,
)


def _delete_offset(name: str) -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    return OffsetDeleteRequest(group_id=name, topics=[OffsetDeleteRequestTopic(name=name, partitions=partitions)])


DELETIONS: dict[str, tuple[ApiKey, Callable[[str], Any]]] = {
    "offset": (ApiKey.OFFSET_DELETE, _delete_offset),
    "group": (ApiKey.DELETE_GROUPS, lambda name: DeleteGroupsRequest(groups_names=[name])),
}


def deletion_story(what: str) -> Iterator[Case]:
    """An offset that is only pending, or committed before as well, is deleted while its transaction is open."""
    api, delete = DELETIONS[what]
    name = topic = f"pending-{what}"
    offsets: Step = ("offsets", ApiKey.OFFSET_FETCH, lambda _: fetch_offset(name, topic))
    once: list[Step] = [
        ("commit offsets", COMMIT, lambda side: commit_offset(own(side, name), name, topic)),
        offsets,
        ("delete", api, lambda _: delete(name)),
        offsets,
        ("commit", END, lambda side: end(own(side, name))),
        offsets,
    ]
    again: Step = ("commit offsets again", COMMIT, lambda side: commit_offset(own(side, name), name, topic))
    committed: Step = ("commit that", END, lambda side: end(own(side, name)))
    yield from steps_of(
        f"pending, {what} deleted",
        IMPLICIT,
        [("begin", INIT, lambda _: init(name)), *once, again, committed, offsets, *once],
    )


TOGETHER = ("together-1", "together-2")


def _markers(side: Side, *later: int) -> WriteTxnMarkersRequest:
    """Of both producers, each with an epoch that is so much later than its own."""
    who = [own(side, name, later=one) for name, one in zip(TOGETHER, later)]
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name="together", partition_indexes=[0])],
                coordinator_epoch=0,
            )
            for _, producer_id, epoch in who
        ]
    )


def _begun(name: str) -> list[Case]:
    return [
        # Twice, so that there is an epoch before its own.
        *(Case(f"begin {name}", lambda _: init(name), versions=(5,), api=INIT),) * 2,
        Case(f"add {name}", lambda side: add(side, own(side, name), ("together", 0)), versions=(3,), api=ADD),
        Case(f"records of {name}", lambda side: put(side, own(side, name), "together"), versions=(11,), api=PRODUCE),
    ]


DELETED = Table(
    "Pending offsets that are deleted",
    COMMIT,
    [case for what in DELETIONS for case in deletion_story(what)],
    topics={f"pending-{what}": {} for what in DELETIONS},
    is_about_transactions=True,
)

MARKED = Table(
    "WriteTxnMarkers of several producers",
    MARKERS,
    [
        *(case for name in TOGETHER for case in _begun(name)),
        Case("one of an older epoch", lambda side: _markers(side, -1, 0), versions=(1,)),
        Case("stable offset", lambda _: end_offset("together"), versions=(7,), api=ApiKey.LIST_OFFSETS),
        Case("producers", lambda _: producers("together", 0), api=ApiKey.DESCRIBE_PRODUCERS),
        Case("the other", lambda side: _markers(side, 0, -1), versions=(1,)),
        Case("stable offset at the end", lambda _: end_offset("together"), versions=(7,), api=ApiKey.LIST_OFFSETS),
    ],
    topics={"together": {}},
    is_about_transactions=True,
)

TABLES = (DELETED, MARKED)
