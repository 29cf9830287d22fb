"""Cases that read records: positions, limits, epochs, and the sessions of clients."""

from collections.abc import Callable
from typing import Any

from levada.protocol.api import ApiKey
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tests.interop.differential.cases import EVERY, UNKNOWN_ID, Case, Side, Table, each, since
from tests.interop.differential.requests import batch, produce

READ, SESSION_READ = "read", "read-in-sessions"
ROOM = 1 << 20
ALONE, OPEN = -1, 0
"""Session epochs: of a fetch without a session, and of one that opens a session."""


def wanted(
    partition: int = 0, offset: int = 0, *, epoch: int = -1, fetched: int = -1, room: int = ROOM
) -> FetchPartition:
    return FetchPartition(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=fetched,
        partition_max_bytes=room,
    )


def fetch(
    side: Side,
    *partitions: FetchPartition,
    topic: str = READ,
    topic_id: bytes | None = None,
    session: tuple[int, int] = (0, ALONE),
    forget: tuple[int, ...] = (),
    **limits: Any,
) -> FetchRequest:
    """Partitions of one topic, by its name or id as the version has it."""
    by_id = side.version >= 13
    topic_id = (topic_id or side.topic_id(topic)) if by_id else bytes(16)
    name = "" if by_id else topic
    return FetchRequest(
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=list(partitions))] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic=name, topic_id=topic_id, partitions=list(forget))]
        if forget
        else [],
        session_id=session[0],
        session_epoch=session[1],
        **({"max_wait_ms": 0, "min_bytes": 0} | limits),
    )


def _replica(side: Side, replica_id: int, replica_epoch: int = -1) -> FetchRequest:
    request = fetch(side, wanted())
    if side.version >= 15:
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
    else:
        request.replica_id = replica_id
    return request


def _filled(topic: str) -> list[Case]:
    """Four batches of three records each."""
    given = [batch(b"a" * 100, b"b" * 100, bytes([number])) for number in range(4)]
    batches = {str(number): data for number, data in enumerate(given)}
    return each(
        batches, lambda side, data: produce(side, topic, data), prefix="filled: ", api=ApiKey.PRODUCE, versions=[13]
    )


FETCH = Table(
    "Fetch",
    ApiKey.FETCH,
    [
        *_filled(READ),
        Case("all", lambda side: fetch(side, wanted()), versions=EVERY),
        Case("from inside a batch", lambda side: fetch(side, wanted(offset=4)), versions=EVERY),
        Case("from the end", lambda side: fetch(side, wanted(offset=12)), versions=EVERY),
        Case("beyond the end", lambda side: fetch(side, wanted(offset=13)), versions=EVERY),
        Case("from -1", lambda side: fetch(side, wanted(offset=-1)), versions=EVERY),
        Case("an empty partition", lambda side: fetch(side, wanted(1)), versions=EVERY),
        Case("both partitions", lambda side: fetch(side, wanted(0), wanted(1))),
        Case("a partition twice", lambda side: fetch(side, wanted(0), wanted(0, 4))),
        Case("nothing", lambda side: fetch(side)),
        Case("unknown partition", lambda side: fetch(side, wanted(9)), versions=EVERY),
        Case("negative partition", lambda side: fetch(side, wanted(-1))),
        Case(
            "unknown topic", lambda side: fetch(side, wanted(), topic="read-never", topic_id=UNKNOWN_ID), versions=EVERY
        ),
        Case("illegal topic", lambda side: fetch(side, wanted(), topic="read/never"), versions=[4, 12]),
        Case("topic without an id", lambda side: fetch(side, wanted(), topic_id=bytes(16)), versions=since(13)),
        Case("known and unknown partition", lambda side: fetch(side, wanted(0, 9), wanted(9))),
        Case("room for one byte", lambda side: fetch(side, wanted(room=1)), versions=EVERY),
        Case("no room in the partition", lambda side: fetch(side, wanted(room=0))),
        Case("negative room in the partition", lambda side: fetch(side, wanted(room=-1))),
        Case("room for one batch", lambda side: fetch(side, wanted(room=300))),
        Case("room for a part of the second", lambda side: fetch(side, wanted(room=500))),
        Case("no room at all", lambda side: fetch(side, wanted(), max_bytes=0)),
        Case("room for one byte in all", lambda side: fetch(side, wanted(), max_bytes=1)),
        Case("room for one partition", lambda side: fetch(side, wanted(0, room=300), wanted(1), max_bytes=300)),
        Case("waited for records", lambda side: fetch(side, wanted(0, 12), max_wait_ms=200, min_bytes=1)),
        Case("waited for more", lambda side: fetch(side, wanted(), max_wait_ms=200, min_bytes=100_000)),
        Case("waits, but an error", lambda side: fetch(side, wanted(9), max_wait_ms=20_000, min_bytes=1)),
        Case("waits for nothing", lambda side: fetch(side, max_wait_ms=20_000, min_bytes=1)),
        Case("committed only", lambda side: fetch(side, wanted(), isolation_level=1), versions=EVERY),
        Case("committed only, at the end", lambda side: fetch(side, wanted(0, 12), isolation_level=1)),
        Case("committed only, an error", lambda side: fetch(side, wanted(0, 99), isolation_level=1)),
        Case("the leader's epoch", lambda side: fetch(side, wanted(epoch=0)), versions=since(9)),
        Case("a later epoch", lambda side: fetch(side, wanted(epoch=5)), versions=since(9)),
        Case("a negative epoch", lambda side: fetch(side, wanted(epoch=-5)), versions=since(9)),
        Case("fetched in epoch 0", lambda side: fetch(side, wanted(0, 3, fetched=0)), versions=since(12)),
        Case("fetched in epoch 5", lambda side: fetch(side, wanted(0, 3, fetched=5)), versions=since(12)),
        Case("fetched beyond the end", lambda side: fetch(side, wanted(0, 99, fetched=0)), versions=since(12)),
        Case(
            "fetched in epoch 0, nothing there", lambda side: fetch(side, wanted(1, 0, fetched=0)), versions=since(12)
        ),
        Case("as a replica", lambda side: _replica(side, 1), versions=(4, 9, 14, 17)),
        Case("as an unknown replica", lambda side: _replica(side, 9), versions=(4, 9, 14, 17)),
        Case("as a debugger", lambda side: _replica(side, -2), versions=(4, 14, 17)),
    ],
    topics={READ: {}},
)


def _next(
    epoch: int, *partitions: FetchPartition, session_id: int | None = None, forget: tuple[int, ...] = ()
) -> Callable[[Side], FetchRequest]:
    """In the session that was opened last, or in another."""

    def build(side: Side) -> FetchRequest:
        number = side.session_id if session_id is None else session_id
        return fetch(side, *partitions, topic=SESSION_READ, session=(number, epoch), forget=forget)

    return build


SESSION_STEPS: tuple[tuple[str, Callable[[Side], FetchRequest]], ...] = (
    ("opened", _next(OPEN, wanted(0), wanted(1), session_id=0)),
    ("nothing new", _next(1, wanted(0, 12))),
    ("nothing new again", _next(2)),
    ("read again", _next(3, wanted(0, 3))),
    ("read on", _next(4, wanted(0, 12))),
    ("one forgotten", _next(5, forget=(1,))),
    ("unknown one forgotten", _next(6, forget=(7,))),
    ("unknown one added", _next(7, wanted(9))),
    ("unknown one still there", _next(8)),
    ("unknown one forgotten again", _next(9, forget=(9,))),
    ("out of range", _next(10, wanted(0, 99))),
    ("still out of range", _next(11)),
    ("in range", _next(12, wanted(0, 12))),
    ("wrong epoch", _next(40)),
    ("old epoch", _next(12)),
    ("goes on", _next(13, wanted(0, 6))),
    ("forgotten and added", _next(14, wanted(0, 0), forget=(0,))),
    ("unknown session", _next(1, session_id=987_654_321)),
    ("session 0 with an epoch", _next(1, wanted(0), session_id=0)),
    ("unknown session opened", _next(OPEN, wanted(0), session_id=987_654_321)),
    ("opened anew", _next(OPEN, wanted(0))),
    ("of it nothing new", _next(1, wanted(0, 12))),
    ("closed", _next(ALONE, wanted(0, 9))),
    ("closed already", _next(2)),
    ("negative epoch", _next(-2, wanted(0))),
    ("opened with nothing", _next(OPEN, session_id=0)),
    ("partition without room", _next(OPEN, wanted(0, room=0), session_id=0)),
    ("many forgotten", _next(1, forget=(0, 1, 2))),
    ("all forgotten", _next(2)),
)

SESSION_VERSIONS = (7, 12, 13, 17)

SESSIONS = Table(
    "Fetch sessions",
    ApiKey.FETCH,
    [
        *_filled(SESSION_READ),
        *(Case(step, build, versions=[version]) for version in SESSION_VERSIONS for step, build in SESSION_STEPS),
        Case("opened by name", _next(OPEN, wanted(0), session_id=0), versions=[12]),
        Case("goes on by id", _next(1), versions=[13]),
        Case("opened by id", _next(OPEN, wanted(0), session_id=0), versions=[13]),
        Case("goes on by name", _next(1), versions=[12]),
    ],
    topics={SESSION_READ: {}},
)
