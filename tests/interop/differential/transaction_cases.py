"""Cases about transactions: in the order they should have and in others, with ids and epochs that are right or not."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from levada.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.interop.differential.cases import EVERY, Case, Side, Table, Volley
from tests.interop.differential.requests import batch

INIT, ADD, OFFSETS, COMMIT = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
)
END, PRODUCE, MARKERS = ApiKey.END_TXN, ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS

LATEST, READ_COMMITTED = -1, 1
MAX_TIMEOUT_MS = 900_000
NEWEST_CLASSIC = {INIT: 5, ADD: 3, OFFSETS: 4, COMMIT: 4, END: 4, PRODUCE: 11}
"""The newest versions of the flow in which clients add partitions themselves."""
IMPLICIT = {INIT: 5, COMMIT: 5, END: 5, PRODUCE: 13}
"""The versions of the flow in which brokers do (KIP-890)."""

Who = tuple[str, int, int]
"""A transactional id, a producer id and an epoch."""
Step = tuple[str, ApiKey, Callable[[Side], Any]]


def own(side: Side, name: str, *, producer_id: int | None = None, later: int = 0) -> Who:
    known_id, epoch = side.identity(name)
    return name, known_id if producer_id is None else producer_id, epoch + later


def init(name: str | None, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
    )


def add(side: Side, who: Who, *where: tuple[str, int], verify: bool = False) -> AddPartitionsToTxnRequest:
    names = dict.fromkeys(topic for topic, _ in where)
    topics = [
        AddPartitionsToTxnTopic(name=name, partitions=[index for topic, index in where if topic == name])
        for name in names
    ]
    name, producer_id, epoch = who
    if side.version >= 4:
        one = AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, verify_only=verify, topics=topics
        )
        return AddPartitionsToTxnRequest(transactions=[one])
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )


def add_offsets(who: Who, group: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(transactional_id=who[0], producer_id=who[1], producer_epoch=who[2], group_id=group)


def commit_offset(
    who: Who,
    group: str,
    topic: str,
    index: int = 0,
    *,
    generation: int = -1,
    member: str = "",
    metadata: str = "note",
    times: int = 1,
) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=metadata)
    return TxnOffsetCommitRequest(
        transactional_id=who[0],
        group_id=group,
        producer_id=who[1],
        producer_epoch=who[2],
        generation_id=generation,
        member_id=member,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition] * times)],
    )


def end(who: Who, *, is_commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=who[0], producer_id=who[1], producer_epoch=who[2], committed=is_commit)


def put(
    side: Side, who: Who, topic: str, index: int = 0, *, sequence: int = 0, name: str | None = "", plain: bool = False
) -> ProduceRequest:
    """A record of a transaction; `name` is that of the request if it is another, `plain` leaves the batch without."""
    records = batch(
        b"value", producer_id=who[1], producer_epoch=who[2], base_sequence=sequence, is_transactional=not plain
    )
    by_id = side.version >= 13
    data = TopicProduceData(
        name="" if by_id else topic,
        topic_id=side.topic_id(topic) if by_id else bytes(16),
        partition_data=[PartitionProduceData(index=index, records=records)],
    )
    return ProduceRequest(
        transactional_id=who[0] if name == "" else name, acks=-1, timeout_ms=10_000, topic_data=[data]
    )


def end_offset(topic: str, index: int = 0) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
    wanted = ListOffsetsTopic(name=topic, partitions=[partition])
    return ListOffsetsRequest(replica_id=-1, isolation_level=READ_COMMITTED, topics=[wanted])


def fetch_offset(group: str, topic: str) -> OffsetFetchRequest:
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])
    groups = [OffsetFetchRequestGroup(group_id=group, topics=[wanted])]
    return OffsetFetchRequest(groups=groups, require_stable=True)


def describe(*names: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=list(names))


def producers(topic: str, *indexes: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(indexes))])


def steps_of(story: str, versions: dict[ApiKey, int], steps: Sequence[Step]) -> Iterator[Case]:
    """Each step in the version of its API that the story is told in, or in the newest."""
    for label, api, request in steps:
        version = versions.get(api, 9 if api == ApiKey.OFFSET_FETCH else stable_versions(api)[-1])
        yield Case(f"{story}: {label}", request, versions=(version,), api=api)


def looks(name: str, topic: str) -> list[Step]:
    """What the outside sees of a transaction."""
    return [
        ("state", ApiKey.DESCRIBE_TRANSACTIONS, lambda _: describe(name)),
        ("stable offset", ApiKey.LIST_OFFSETS, lambda _: end_offset(topic)),
        ("offsets", ApiKey.OFFSET_FETCH, lambda _: fetch_offset(name, topic)),
        ("producers", ApiKey.DESCRIBE_PRODUCERS, lambda _: producers(topic, 0, 1)),
    ]


def classic_story(lag: int) -> Iterator[Case]:
    """The whole flow in versions that are so many behind the newest."""
    versions = {api: max(newest - lag, stable_versions(api)[0]) for api, newest in NEWEST_CLASSIC.items()}
    name = topic = f"classic-{lag}"
    seen = looks(name, topic)
    yield from steps_of(
        f"classic, {lag} behind",
        versions,
        [
            ("begin", INIT, lambda _: init(name)),
            ("commit of nothing", END, lambda side: end(own(side, name))),
            ("abort of nothing", END, lambda side: end(own(side, name), is_commit=False)),
            ("records without adding", PRODUCE, lambda side: put(side, own(side, name), topic)),
            ("offsets without adding", COMMIT, lambda side: commit_offset(own(side, name), name, topic)),
            ("add", ADD, lambda side: add(side, own(side, name), (topic, 0))),
            ("add again", ADD, lambda side: add(side, own(side, name), (topic, 0))),
            ("records", PRODUCE, lambda side: put(side, own(side, name), topic)),
            ("more records", PRODUCE, lambda side: put(side, own(side, name), topic, sequence=1)),
            ("records elsewhere", PRODUCE, lambda side: put(side, own(side, name), topic, 1)),
            ("add a group", OFFSETS, lambda side: add_offsets(own(side, name), name)),
            ("commit offsets", COMMIT, lambda side: commit_offset(own(side, name), name, topic)),
            *seen,
            ("commit", END, lambda side: end(own(side, name))),
            ("commit again", END, lambda side: end(own(side, name))),
            ("abort after that", END, lambda side: end(own(side, name), is_commit=False)),
            *seen,
            ("late records", PRODUCE, lambda side: put(side, own(side, name), topic, sequence=2)),
            ("late offsets", COMMIT, lambda side: commit_offset(own(side, name), name, topic)),
            ("add to the next", ADD, lambda side: add(side, own(side, name), (topic, 0), (topic, 1))),
            ("records of the next", PRODUCE, lambda side: put(side, own(side, name), topic, sequence=2)),
            ("abort", END, lambda side: end(own(side, name), is_commit=False)),
            ("abort again", END, lambda side: end(own(side, name), is_commit=False)),
            ("commit after that", END, lambda side: end(own(side, name))),
            *seen,
        ],
    )


def implicit_story() -> Iterator[Case]:
    name = topic = "implicit"
    seen = looks(name, topic)
    yield from steps_of(
        name,
        IMPLICIT,
        [
            ("begin", INIT, lambda _: init(name)),
            ("commit of nothing", END, lambda side: end(own(side, name))),
            ("abort of nothing", END, lambda side: end(own(side, name), is_commit=False)),
            (
                "abort again, as if the reply was lost",
                END,
                lambda side: end(own(side, name, later=-1), is_commit=False),
            ),
            ("commit, as if the reply was lost", END, lambda side: end(own(side, name, later=-1))),
            *seen,
            ("records", PRODUCE, lambda side: put(side, own(side, name), topic)),
            ("more records", PRODUCE, lambda side: put(side, own(side, name), topic, sequence=1)),
            (
                "offsets of more than a batch may have",
                COMMIT,
                lambda side: commit_offset(own(side, name), name, topic, 1, metadata="x" * 4_096, times=300),
            ),
            ("offsets", COMMIT, lambda side: commit_offset(own(side, name), name, topic)),
            *seen,
            ("end by an older epoch", END, lambda side: end(own(side, name, later=-1))),
            ("end by a later epoch", END, lambda side: end(own(side, name, later=1))),
            ("commit", END, lambda side: end(own(side, name))),
            ("commit again, as if the reply was lost", END, lambda side: end(own(side, name, later=-1))),
            ("abort, as if the reply was lost", END, lambda side: end(own(side, name, later=-1), is_commit=False)),
            ("commit of nothing after that", END, lambda side: end(own(side, name))),
            *seen,
            ("late records", PRODUCE, lambda side: put(side, own(side, name, later=-1), topic, sequence=2)),
            ("late offsets", COMMIT, lambda side: commit_offset(own(side, name, later=-1), name, topic)),
            ("records of the next", PRODUCE, lambda side: put(side, own(side, name), topic, 1)),
            ("abort", END, lambda side: end(own(side, name), is_commit=False)),
            *seen,
            ("the epoch before that", END, lambda side: end(own(side, name, later=-2))),
            ("abort by the epoch before that", END, lambda side: end(own(side, name, later=-2), is_commit=False)),
            ("a later epoch", END, lambda side: end(own(side, name, later=1))),
            ("abort by a later epoch", END, lambda side: end(own(side, name, later=1), is_commit=False)),
            ("another id", END, lambda side: end(own(side, name, producer_id=987_654), is_commit=False)),
        ],
    )


def fencing_story(kind: str, versions: dict[ApiKey, int]) -> Iterator[Case]:
    """Another instance comes while a transaction is open; the older one goes on with the epoch it had."""
    name = topic = f"fenced-{kind}"
    old = -2
    open_steps: list[Step] = [("records", PRODUCE, lambda side: put(side, own(side, name), topic))]
    if versions[END] < IMPLICIT[END]:
        open_steps.insert(0, ("add", ADD, lambda side: add(side, own(side, name), (topic, 0))))
    yield from steps_of(
        f"fenced, {kind}",
        versions,
        [
            ("begin", INIT, lambda _: init(name)),
            *open_steps,
            ("another", INIT, lambda _: init(name)),
            ("another, again", INIT, lambda _: init(name)),
            ("add", ADD, lambda side: add(side, own(side, name, later=old), (topic, 0))),
            ("add a group", OFFSETS, lambda side: add_offsets(own(side, name, later=old), name)),
            ("commit offsets", COMMIT, lambda side: commit_offset(own(side, name, later=old), name, topic)),
            (
                "records in the partition",
                PRODUCE,
                lambda side: put(side, own(side, name, later=old), topic, sequence=1),
            ),
            ("records elsewhere", PRODUCE, lambda side: put(side, own(side, name, later=old), topic, 1)),
            ("commit", END, lambda side: end(own(side, name, later=old))),
            ("abort", END, lambda side: end(own(side, name, later=old), is_commit=False)),
            *looks(name, topic),
        ],
    )


def replaced_story(kind: str, versions: dict[ApiKey, int]) -> Iterator[Case]:
    """An older instance goes on after an error (KIP-360) while its successor has a transaction open."""
    name = topic = f"replaced-{kind}"
    open_steps: list[Step] = [("records", PRODUCE, lambda side: put(side, own(side, name), topic))]
    if versions[END] < IMPLICIT[END]:
        open_steps.insert(0, ("add", ADD, lambda side: add(side, own(side, name), (topic, 0))))
    yield from steps_of(
        f"replaced, {kind}",
        versions,
        [
            ("begin", INIT, lambda _: init(name)),
            ("another", INIT, lambda _: init(name)),
            *open_steps,
            ("the older one", INIT, lambda side: init(name, 60_000, *own(side, name, later=-1)[1:])),
            ("the older one, again", INIT, lambda side: init(name, 60_000, *own(side, name, later=-1)[1:])),
            ("state", ApiKey.DESCRIBE_TRANSACTIONS, lambda _: describe(name)),
            ("the newer one commits", END, lambda side: end(own(side, name))),
            ("state after that", ApiKey.DESCRIBE_TRANSACTIONS, lambda _: describe(name)),
        ],
    )


def zombie_story() -> Iterator[Case]:
    """An instance of the newer flow, whose classic successor has ended a transaction with the epoch after its own."""
    name = topic = "zombie"
    yield from steps_of(
        name,
        NEWEST_CLASSIC,
        [
            ("begin", INIT, lambda _: init(name)),
            ("another", INIT, lambda _: init(name)),
            ("add", ADD, lambda side: add(side, own(side, name), (topic, 0))),
            ("records", PRODUCE, lambda side: put(side, own(side, name), topic)),
            ("commit", END, lambda side: end(own(side, name))),
        ],
    )
    yield from steps_of(
        name,
        IMPLICIT,
        [
            ("abort by the older one", END, lambda side: end(own(side, name, later=-1), is_commit=False)),
            ("commit by the older one", END, lambda side: end(own(side, name, later=-1))),
            ("state", ApiKey.DESCRIBE_TRANSACTIONS, lambda _: describe(name)),
        ],
    )


def recovery_story(version: int) -> Iterator[Case]:
    """A producer that says who it was (KIP-360)."""
    name = f"recovers-{version}"
    yield from steps_of(
        f"recovers, v{version}",
        {INIT: version},
        [
            ("unknown, with an id", INIT, lambda _: init(f"{name}-new", producer_id=987_654, epoch=3)),
            ("begin", INIT, lambda _: init(name)),
            ("own epoch", INIT, lambda side: init(name, 60_000, *side.identity(name))),
            (
                "epoch before, as if the reply was lost",
                INIT,
                lambda side: init(name, 60_000, *own(side, name, later=-1)[1:]),
            ),
            ("epoch before that", INIT, lambda side: init(name, 60_000, *own(side, name, later=-2)[1:])),
            ("later epoch", INIT, lambda side: init(name, 60_000, *own(side, name, later=1)[1:])),
            ("another id", INIT, lambda side: init(name, 60_000, 987_654, side.identity(name)[1])),
            ("without an epoch", INIT, lambda side: init(name, 60_000, side.identity(name)[0], -1)),
            ("without an id", INIT, lambda side: init(name, 60_000, -1, 0)),
            ("state", ApiKey.DESCRIBE_TRANSACTIONS, lambda _: describe(name)),
        ],
    )


def decided_story(version: int, *, is_commit: bool) -> Iterator[Case]:
    """A producer that asks to end a transaction whose outcome is written, and whose partitions do not know it yet."""
    name = topic = f"decided-{version}-{is_commit}"
    open_steps: list[Step] = [("records", PRODUCE, lambda side: put(side, own(side, name), topic))]
    if version < IMPLICIT[END]:
        open_steps.insert(0, ("add", ADD, lambda side: add(side, own(side, name), (topic, 0))))

    def volley(side: Side) -> Volley:
        who = [own(side, name, later=later) for later in (0, 0, 1, -1, -2, 5)]
        who.append(own(side, name, producer_id=987_654))
        return Volley([end(one, is_commit=wanted) for wanted in (is_commit, not is_commit) for one in who])

    yield from steps_of(
        f"decided, v{version}, {'commit' if is_commit else 'abort'}",
        {**(IMPLICIT if version >= IMPLICIT[END] else NEWEST_CLASSIC), END: version},
        [
            *(("begin", INIT, lambda _: init(name)),) * 3,
            *open_steps,
            ("ends of all kinds", END, volley),
        ],
    )


DECIDED_VERSIONS = (1, 4, 5)
TOO_SMALL_FOR_MARKERS = {"max.message.bytes": "77"}
"""Apache cannot write the marker then, and the transaction stays as it was decided; ours does not look at that."""

CLASSIC_LAGS = range(6)
FENCED = {
    "classic": NEWEST_CLASSIC,
    "old": {INIT: 2, ADD: 1, OFFSETS: 1, COMMIT: 2, END: 1, PRODUCE: 9},
    "implicit": IMPLICIT,
}
REPLACED = {"classic": NEWEST_CLASSIC, "old": {**NEWEST_CLASSIC, INIT: 3}, "implicit": IMPLICIT}
KNOWN = "known"

_INITIALIZED = Case("begin", lambda _: init(KNOWN), versions=(5,), api=INIT)


def _strangers(api: ApiKey, build: Callable[[Side, Who], Any]) -> list[Case]:
    """The same request by everybody who may not send it."""
    who: dict[str, Callable[[Side], Who]] = {
        "no name": lambda side: ("", *own(side, KNOWN)[1:]),
        "unknown name": lambda side: ("absent", *own(side, KNOWN)[1:]),
        "another id": lambda side: own(side, KNOWN, producer_id=987_654),
        "older epoch": lambda side: own(side, KNOWN, later=-1),
        "later epoch": lambda side: own(side, KNOWN, later=1),
    }

    def case(what: str, of: Callable[[Side], Who]) -> Case:
        return Case(f"{api.title}: {what}", lambda side: build(side, of(side)), versions=EVERY, api=api)

    return [case(what, of) for what, of in who.items()]


STRANGERS = Table(
    "Transactions of strangers",
    ADD,
    [
        _INITIALIZED,
        *_strangers(ADD, lambda side, who: add(side, who, ("strange", 0))),
        *_strangers(OFFSETS, lambda _, who: add_offsets(who, "strange")),
        *_strangers(COMMIT, lambda _, who: commit_offset(who, "strange", "strange")),
        *_strangers(END, lambda _, who: end(who)),
        *_strangers(PRODUCE, lambda side, who: put(side, who, "strange")),
        Case("state", lambda _: describe(KNOWN), api=ApiKey.DESCRIBE_TRANSACTIONS),
    ],
    topics={"strange": {}},
    is_about_transactions=True,
)

FLOWS = Table(
    "Transactions",
    END,
    [
        *(case for lag in CLASSIC_LAGS for case in classic_story(lag)),
        *implicit_story(),
        *(case for kind, versions in FENCED.items() for case in fencing_story(kind, versions)),
        *(case for kind, versions in REPLACED.items() for case in replaced_story(kind, versions)),
        *zombie_story(),
        *(case for version in (3, 4, 5) for case in recovery_story(version)),
    ],
    topics={
        **{f"classic-{lag}": {} for lag in CLASSIC_LAGS},
        **{f"fenced-{kind}": {} for kind in FENCED},
        **{f"replaced-{kind}": {} for kind in REPLACED},
        "implicit": {},
        "zombie": {},
    },
    is_about_transactions=True,
)

DECIDED = Table(
    "Transactions that are decided",
    END,
    [case for version in DECIDED_VERSIONS for way in (True, False) for case in decided_story(version, is_commit=way)],
    topics={f"decided-{version}-{way}": TOO_SMALL_FOR_MARKERS for version in DECIDED_VERSIONS for way in (True, False)},
    is_about_transactions=True,
)

TABLES = (STRANGERS, FLOWS, DECIDED)
