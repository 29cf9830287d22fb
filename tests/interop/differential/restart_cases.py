"""Cases about what a broker still knows after a restart: records, epochs, producers, configurations."""

from collections.abc import Callable, Iterator

from levada.protocol.api import ApiKey
from levada.protocol.messages.fetch import FetchRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.produce import ProduceRequest
from tests.interop.differential.cases import Case, Side, Table
from tests.interop.differential.config_cases import ALL_BROKERS, SET, THIS, change
from tests.interop.differential.config_cases import described as configured
from tests.interop.differential.fetch_cases import OPEN, fetch, wanted
from tests.interop.differential.group_cases import HEARTBEAT, JOIN, described, heartbeat, join, joined, sync_of
from tests.interop.differential.group_offset_cases import COMMIT, commit, fetched
from tests.interop.differential.group_offset_cases import FETCH as OFFSET_FETCH
from tests.interop.differential.offset_cases import offset_of_epoch
from tests.interop.differential.record_cases import delete_records
from tests.interop.differential.requests import BROKER, NOW_MS, TOPIC, batch, metadata, produce

KEPT = "kept"
SESSION = (0, OPEN)


def _produce(sequence: int) -> Case:
    def build(side: Side) -> ProduceRequest:
        records = batch(
            b"one",
            b"two",
            first_ms=NOW_MS + sequence,
            producer_id=side.producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        return produce(side, KEPT, records)

    return Case(f"sequence {sequence}", build, versions=[13], api=ApiKey.PRODUCE)


def _commit(name: str, offset: int) -> Case:
    return Case(
        name,
        lambda side: commit(side, KEPT, (KEPT, 0), offset=offset, generation=1, member=side.member(KEPT, "one")),
        versions=[9],
        api=COMMIT,
    )


BEFORE = Table(
    "Before a restart",
    ApiKey.FETCH,
    [
        Case(
            "producer",
            lambda _: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
            versions=[5],
            api=ApiKey.INIT_PRODUCER_ID,
        ),
        *(_produce(sequence) for sequence in range(0, 8, 2)),
        Case("deleted", lambda _: delete_records(KEPT, (0, 3)), versions=[2], api=ApiKey.DELETE_RECORDS),
        Case(
            "topic set",
            lambda _: change(TOPIC, KEPT, ("flush.ms", SET, "77")),
            versions=[1],
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ),
        Case(
            "broker set",
            lambda _: change(BROKER, THIS, ("log.cleaner.backoff.ms", SET, "16000")),
            versions=[1],
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ),
        Case(
            "brokers set",
            lambda _: change(BROKER, ALL_BROKERS, ("log.retention.ms", SET, "90000000")),
            versions=[1],
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ),
        Case("session", lambda side: fetch(side, wanted(0, 3), topic=KEPT, session=SESSION), versions=[17]),
        *joined(KEPT, "one", 9),
        sync_of(KEPT, 9, "one"),
        _commit("committed", 5),
        Case("offset without a member", lambda side: commit(side, "simple", (KEPT, 0)), versions=[9], api=COMMIT),
        *joined("promised", "member", 3),
    ],
    topics={KEPT: {"retention.ms": "86400000"}},
    is_about_groups=True,
)


def _beat(generation: int) -> Case:
    return Case(
        f"heartbeat of generation {generation}",
        lambda side: heartbeat(KEPT, side.member(KEPT, "one"), generation),
        versions=[4],
        api=HEARTBEAT,
    )


def _groups() -> Iterator[Case]:
    """A member is known with its part; of a group between two generations nothing but its name is left."""
    yield described("the group", KEPT)
    yield described("a group of offsets", "simple")
    yield described("a group that had no assignment yet", "promised")
    yield Case("offsets of the group", lambda s: fetched(s, KEPT, every=True), versions=[9], api=OFFSET_FETCH)
    yield Case("offsets without a member", lambda s: fetched(s, "simple", every=True), versions=[9], api=OFFSET_FETCH)
    yield _beat(1)
    yield _beat(0)
    yield Case(
        "heartbeat of one that had no assignment yet",
        lambda side: heartbeat("promised", side.member("promised", "member")),
        versions=[4],
        api=HEARTBEAT,
    )
    yield sync_of(KEPT, 9, "one")
    yield _commit("commit of the member", 6)
    yield Case("one joins again", lambda side: join(KEPT, side.member(KEPT, "one")), versions=[9], api=JOIN)


def _list(side: Side, timestamp: int, epoch: int = -1) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=KEPT, partitions=[partition])])


def _fetch(offset: int, older: int | None = None, *, fetched: int = -1) -> Callable[[Side], FetchRequest]:
    """In the leader's epoch, or so many before it."""

    def build(side: Side) -> FetchRequest:
        epoch = -1 if older is None else side.leader_epoch(KEPT) - older
        return fetch(side, wanted(0, offset, epoch=epoch, fetched=fetched), topic=KEPT)

    return build


def _fetched_now(side: Side) -> FetchRequest:
    return fetch(side, wanted(0, 8, fetched=side.leader_epoch(KEPT)), topic=KEPT)


AFTER = Table(
    "After a restart",
    ApiKey.FETCH,
    [
        Case("metadata", lambda _: metadata(KEPT), versions=[12], api=ApiKey.METADATA),
        Case("read", _fetch(3)),
        Case("deleted", _fetch(0)),
        Case("the leader's epoch", _fetch(3, 0), versions=[9, 12, 17]),
        Case("an older epoch", _fetch(3, 1), versions=[9, 12, 16, 17]),
        Case("a later epoch", _fetch(3, -1), versions=[9, 12, 17]),
        Case("fetched in epoch 0", _fetch(8, fetched=0), versions=[12, 17]),
        Case("fetched beyond epoch 0", _fetch(9, fetched=0), versions=[12, 17]),
        Case("fetched in the leader's epoch", _fetched_now, versions=[12, 17]),
        Case("session of before", lambda s: fetch(s, topic=KEPT, session=(s.session_id, 1)), versions=[17]),
        Case("latest", lambda s: _list(s, -1), versions=[11], api=ApiKey.LIST_OFFSETS),
        Case("earliest", lambda s: _list(s, -2), versions=[11], api=ApiKey.LIST_OFFSETS),
        Case("newest", lambda s: _list(s, -3), versions=[11], api=ApiKey.LIST_OFFSETS),
        Case(
            "latest in an older epoch",
            lambda s: _list(s, -1, s.leader_epoch(KEPT) - 1),
            versions=[4, 11],
            api=ApiKey.LIST_OFFSETS,
        ),
        Case("end of epoch 0", lambda _: offset_of_epoch(KEPT, 0, 0), versions=[4], api=ApiKey.OFFSET_FOR_LEADER_EPOCH),
        Case(
            "end of the leader's epoch",
            lambda s: offset_of_epoch(KEPT, 0, s.leader_epoch(KEPT)),
            versions=[4],
            api=ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ),
        Case(
            "end in an older epoch",
            lambda s: offset_of_epoch(KEPT, 0, 0, s.leader_epoch(KEPT) - 1),
            versions=[4],
            api=ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ),
        _produce(6),
        _produce(2),
        _produce(12),
        _produce(8),
        Case("read what followed", _fetch(7), versions=[17]),
        configured("topic", TOPIC, KEPT, "flush.ms", "retention.ms"),
        configured("broker", BROKER, THIS, "log.cleaner.backoff.ms", "log.retention.ms"),
        configured("brokers", BROKER, ALL_BROKERS),
        *_groups(),
    ],
    is_about_groups=True,
)
