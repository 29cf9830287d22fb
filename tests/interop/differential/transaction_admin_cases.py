"""Cases about transactions that need no flow: timeouts, partitions to add, markers by hand, and what is listed."""

from levada.protocol.api import ApiKey
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.list_transactions import ListTransactionsRequest
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.interop.differential.cases import EVERY, Case, Side, Table, each, since
from tests.interop.differential.transaction_cases import (
    ADD,
    END,
    INIT,
    MARKERS,
    MAX_TIMEOUT_MS,
    PRODUCE,
    add,
    describe,
    end,
    end_offset,
    init,
    own,
    producers,
    put,
)

TIMEOUTS = Table(
    "InitProducerId for transactions",
    INIT,
    [
        *each(
            {"none": 0, "negative": -1, "one": 1, "longest": MAX_TIMEOUT_MS, "too long": MAX_TIMEOUT_MS + 1},
            lambda side, timeout_ms: init(f"timed-{side.version}", timeout_ms),
            prefix="timeout: ",
            versions=EVERY,
        ),
        Case("no name", lambda _: init(""), versions=EVERY),
        Case("a long name", lambda _: init("long" * 1_000), versions=(0, 5)),
        Case("state", lambda _: describe("timed-0", "timed-5"), api=ApiKey.DESCRIBE_TRANSACTIONS),
    ],
    is_about_transactions=True,
)


def _added(side: Side, *where: tuple[str, int], verify: bool = False) -> object:
    return add(side, own(side, "adder"), *where, verify=verify)


ADDED = Table(
    "AddPartitionsToTxn",
    ADD,
    [
        Case("begin", lambda _: init("adder"), versions=(5,), api=INIT),
        Case("nothing", lambda side: _added(side), versions=EVERY),
        Case("an unknown topic", lambda side: _added(side, ("never", 0)), versions=EVERY),
        Case("an unknown partition", lambda side: _added(side, ("added", 9)), versions=EVERY),
        Case("a negative partition", lambda side: _added(side, ("added", -1)), versions=EVERY),
        Case("a known and an unknown one", lambda side: _added(side, ("added", 0), ("never", 0)), versions=EVERY),
        Case("verify what is not there", lambda side: _added(side, ("added", 0), verify=True), versions=since(4)),
        Case("state before", lambda _: describe("adder"), api=ApiKey.DESCRIBE_TRANSACTIONS),
        Case("one", lambda side: _added(side, ("added", 0)), versions=EVERY),
        Case("one twice", lambda side: _added(side, ("added", 1), ("added", 1)), versions=EVERY),
        Case("verify one", lambda side: _added(side, ("added", 0), verify=True), versions=since(4)),
        Case(
            "verify one and an unknown one",
            lambda side: _added(side, ("added", 0), ("never", 0), verify=True),
            versions=since(4),
        ),
        Case("an internal topic", lambda side: _added(side, ("__consumer_offsets", 0)), versions=EVERY),
        Case("state", lambda _: describe("adder"), api=ApiKey.DESCRIBE_TRANSACTIONS),
        Case("abort", lambda side: end(own(side, "adder"), is_commit=False), versions=(4,), api=END),
        Case("state at the end", lambda _: describe("adder"), api=ApiKey.DESCRIBE_TRANSACTIONS),
    ],
    topics={"added": {}},
    is_about_transactions=True,
)


def _marker(
    side: Side, topic: str, *indexes: int, later: int = 0, is_commit: bool = False, coordinator_epoch: int = 0
) -> WriteTxnMarkersRequest:
    _, producer_id, epoch = own(side, "marked", later=later)
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=is_commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(indexes))],
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


_LOOKS = (
    Case("stable offset", lambda _: end_offset("marked"), versions=(7,), api=ApiKey.LIST_OFFSETS),
    Case("producers", lambda _: producers("marked", 0, 1), api=ApiKey.DESCRIBE_PRODUCERS),
)

WRITTEN = Table(
    "WriteTxnMarkers",
    MARKERS,
    [
        Case("begin", lambda _: init("marked"), versions=(4, 5), api=INIT),
        Case("nothing", lambda _: WriteTxnMarkersRequest(markers=[]), versions=EVERY),
        Case("an unknown topic", lambda side: _marker(side, "never", 0), versions=EVERY),
        Case("an unknown partition", lambda side: _marker(side, "marked", 9), versions=EVERY),
        Case("a producer that wrote nothing", lambda side: _marker(side, "marked", 1), versions=EVERY),
        Case("add", lambda side: add(side, own(side, "marked"), ("marked", 0)), versions=(3,), api=ADD),
        Case("records", lambda side: put(side, own(side, "marked"), "marked"), versions=(11,), api=PRODUCE),
        *_LOOKS,
        Case("by an older epoch", lambda side: _marker(side, "marked", 0, later=-1), versions=EVERY),
        Case("by an older coordinator", lambda side: _marker(side, "marked", 0, coordinator_epoch=-1), versions=(1,)),
        *_LOOKS,
        Case("again", lambda side: _marker(side, "marked", 0), versions=EVERY),
        *_LOOKS,
        Case(
            "more records",
            lambda side: put(side, own(side, "marked"), "marked", sequence=1),
            api=PRODUCE,
            versions=(11,),
        ),
        Case("abort", lambda side: end(own(side, "marked"), is_commit=False), versions=(4,), api=END),
        Case("state", lambda _: describe("marked"), api=ApiKey.DESCRIBE_TRANSACTIONS),
        *_LOOKS,
        # Last, because Apache would never finish a transaction of an epoch that is known to be over.
        Case("by a later epoch", lambda side: _marker(side, "marked", 0, 1, later=1), versions=(1,)),
        *_LOOKS,
    ],
    topics={"marked": {}},
    is_about_transactions=True,
)


def _listed(
    *states: str, producer_ids: tuple[int, ...] = (), duration_ms: int = -1, pattern: str | None = "listed-.*"
) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )


LISTED = Table(
    "ListTransactions",
    ApiKey.LIST_TRANSACTIONS,
    [
        Case("begin", lambda _: init("listed-idle"), versions=(5,), api=INIT),
        Case("begin another", lambda _: init("listed-open"), versions=(5,), api=INIT),
        Case("add", lambda side: add(side, own(side, "listed-open"), ("listed", 1)), versions=(3,), api=ADD),
        Case("all", lambda _: _listed(pattern=None), versions=(2,)),
        Case("by pattern", lambda _: _listed(), versions=(2,)),
        Case("by a part of the name", lambda _: _listed(pattern="listed"), versions=(2,)),
        Case("by an empty pattern", lambda _: _listed("Ongoing", pattern=""), versions=(2,)),
        Case("by no pattern at all", lambda _: _listed(pattern="(["), versions=(2,)),
        Case("by state", lambda _: _listed("Ongoing"), versions=(2,)),
        Case("by two states", lambda _: _listed("Ongoing", "Empty"), versions=(2,)),
        Case("by an unknown state", lambda _: _listed("Sleeping"), versions=(2,)),
        Case("by unknown states and a known one", lambda _: _listed("A", "Empty", "B", "A"), versions=(2,)),
        Case("by states in other letters", lambda _: _listed("ONGOING"), versions=(2,)),
        Case("by producer", lambda side: _listed(producer_ids=(side.identity("listed-open")[0],)), versions=(2,)),
        Case("by an unknown producer", lambda _: _listed(producer_ids=(987_654,)), versions=(2,)),
        Case("by a long duration", lambda _: _listed(duration_ms=10_000_000), versions=(2,)),
        Case("by a negative duration", lambda _: _listed(duration_ms=-9), versions=(2,)),
        Case(
            "described",
            lambda _: DescribeTransactionsRequest(transactional_ids=["listed-open", "", "absent", "listed-idle"]),
            api=ApiKey.DESCRIBE_TRANSACTIONS,
        ),
        Case("described, none", lambda _: describe(), api=ApiKey.DESCRIBE_TRANSACTIONS),
        Case("described twice", lambda _: describe("listed-idle", "listed-idle"), api=ApiKey.DESCRIBE_TRANSACTIONS),
        Case("producers of nothing", lambda _: producers("listed", 0), api=ApiKey.DESCRIBE_PRODUCERS),
        Case("producers of an unknown partition", lambda _: producers("listed", 9), api=ApiKey.DESCRIBE_PRODUCERS),
        Case("producers of an unknown topic", lambda _: producers("never", 0), api=ApiKey.DESCRIBE_PRODUCERS),
        Case("producers of a bad name", lambda _: producers("a/b", 0), api=ApiKey.DESCRIBE_PRODUCERS),
        Case("abort", lambda side: end(own(side, "listed-open"), is_commit=False), versions=(4,), api=END),
    ],
    topics={"listed": {}},
    is_about_transactions=True,
)

TABLES = (TIMEOUTS, ADDED, WRITTEN, LISTED)
