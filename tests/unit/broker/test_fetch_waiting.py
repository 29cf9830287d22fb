"""Fetches that found too little: what wakes them and what does not, and that nothing of them stays behind."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from levada.broker.fetch_sessions import MIN_EVICTION_MS
from levada.broker.handlers.fetch import ParkedFetch
from levada.broker.partition import Partition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.fetch import FetchResponse
from levada.records import build_batch
from levada.sim.world.loop import SimLoop
from levada.storage.log import Log
from tests.logs import T0, append, end_transaction
from tests.unit.broker.fetching import NAMES_ONLY, Client, Seen, Server, indexes, partitions_of, seen, size_of

Scene = Callable[[Coroutine[Any, Any, None]], None]

SESSION = pytest.mark.parametrize("is_session", [False, True], ids=["alone", "session"])


@pytest.fixture
def server(tmp_path: Path) -> Server:
    server = Server(tmp_path)
    server.add_topic("t", 3)
    return server


@pytest.fixture
def play() -> Scene:
    """Plays a scene in virtual time, and looks that it left no fetch waiting."""

    def run(scene: Coroutine[Any, Any, None]) -> None:
        loop = SimLoop()
        try:
            loop.run_until_complete(scene)
            loop.check_failures()
        finally:
            loop.close()

    return run


def parked(
    client: Client, is_session: bool, offsets: dict[int, int], **settings: Any
) -> "asyncio.Future[FetchResponse]":
    """A fetch that waits: without a session, or the second one of a session."""
    if not is_session:
        return client.wait(client.topic("t", offsets), session_id=0, session_epoch=-1, **settings)
    client.open(client.topic("t", offsets))
    return client.wait(**settings)


def waiting(server: Server) -> int:
    return server.delayed.parked["Fetch"]


def watchers(server: Server) -> int:
    return sum(len(server.partition("t", index)._watchers) for index in range(3))


@SESSION
def test_records_wake_a_fetch_at_once(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        fetching = parked(Client(server), is_session, {0: 0, 1: 0})
        assert waiting(server) == 1
        await asyncio.sleep(0.1)
        assert not fetching.done()
        size = server.append("t", 1)
        response = await fetching
        assert loop.time() == 0.1
        assert [(one.index, one.size) for one in seen(response) if one.size] == [(1, size)]
        assert indexes(response) == ([1] if is_session else [0, 1])
        assert waiting(server) == 0
        assert watchers(server) == (2 if is_session else 0)

    play(scene())


@SESSION
def test_time_wakes_a_fetch_with_what_there_is(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        size = server.append("t")
        fetching = parked(Client(server), is_session, {0: 0, 1: 0}, min_bytes=10_000)
        response = await fetching
        assert asyncio.get_running_loop().time() == 0.5
        assert [(one.index, one.size) for one in seen(response) if one.size] == [(0, size)]
        assert server.delayed.expired["Fetch"] == 1
        assert watchers(server) == (2 if is_session else 0)

    play(scene())


@SESSION
def test_a_fetch_waits_for_its_bytes_in_all_partitions_together(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        first = server.append("t", 0)
        fetching = parked(Client(server), is_session, {0: 0, 1: 0, 2: 0}, min_bytes=4 * first)
        for index in (1, 0):
            server.append("t", index)
            await asyncio.sleep(0.01)
            assert not fetching.done()
        server.append("t", 2)
        assert [one.size for one in seen(await fetching)] == [2 * first, first, first]

    play(scene())


def test_the_smallest_answer_is_no_larger_than_the_largest(server: Server, play: Scene) -> None:
    size = server.append("t")
    response = Client(server).fetch(Client(server).topic("t"), min_bytes=10_000, max_bytes=size, max_wait_ms=500)
    assert [one.size for one in seen(response)] == [size]


@pytest.mark.parametrize(
    "settings", [{"min_bytes": 0}, {"max_wait_ms": 0}, {"max_wait_ms": -1}], ids=["no bytes", "no time", "less"]
)
def test_a_fetch_that_does_not_want_to_wait_is_answered(server: Server, settings: dict[str, int]) -> None:
    client = Client(server)
    assert seen(client.fetch(client.topic("t"), **{"max_wait_ms": 500, **settings})) == [Seen("t", 0, 0, 0, 0)]


# Errors.


@SESSION
def test_a_fetch_learns_that_the_leader_went_elsewhere(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        fetching = parked(Client(server), is_session, {0: 0})
        await asyncio.sleep(0.1)
        server.lead_elsewhere("t", epoch=1)
        assert [one.error for one in seen(await fetching)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert asyncio.get_running_loop().time() == 0.1

    play(scene())


@SESSION
def test_a_fetch_learns_that_its_epoch_is_over(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        client = Client(server)
        topic = client.topic("t", {0: 0}, current_leader_epoch=0)
        if is_session:
            client.open(topic)
            fetching = client.wait()
        else:
            fetching = client.wait(topic, session_id=0, session_epoch=-1)
        server.lead_here("t", epoch=1)
        assert [one.error for one in seen(await fetching)] == [ErrorCode.FENCED_LEADER_EPOCH]

    play(scene())


@SESSION
def test_a_fetch_learns_that_its_topic_or_its_offset_is_gone(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        for _ in range(3):
            server.append("t")
        fetching = parked(Client(server), is_session, {0: 1}, min_bytes=10_000)
        server.partition("t").delete_records(2)
        assert [one.error for one in seen(await fetching)] == [ErrorCode.OFFSET_OUT_OF_RANGE]
        fetching = parked(Client(server), is_session, {0: 3})
        server.remove_topic("t")
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [one.error for one in seen(await fetching)] == [code]
        assert asyncio.get_running_loop().time() == 0
        assert waiting(server) == 0

    play(scene())


def test_one_topic_of_several_that_goes_ends_the_waiting(server: Server, play: Scene) -> None:
    async def scene() -> None:
        server.add_topic("u")
        client = Client(server)
        client.open(client.topic("t"), client.topic("u"))
        fetching = client.wait()
        await asyncio.sleep(0.1)
        server.remove_topic("u")
        assert [one.error for one in seen(await fetching)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert asyncio.get_running_loop().time() == 0.1
        await client.wait()
        assert asyncio.get_running_loop().time() == 0.6

    play(scene())


def test_a_partition_that_is_unknown_does_not_keep_the_others_from_waiting(server: Server, play: Scene) -> None:
    async def scene() -> None:
        client = Client(server, NAMES_ONLY)
        first = client.wait(client.topic("missing"), client.topic("t"), session_id=0, session_epoch=0)
        codes = [one.error for one in seen(await first)]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        assert asyncio.get_running_loop().time() == 0.5
        client.session_id, client.session_epoch = first.result().session_id, 1
        await client.wait()
        assert asyncio.get_running_loop().time() == 1
        only = client.fetch(client.topic("missing"), max_wait_ms=500)
        assert [one.error for one in seen(only)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    play(scene())


def test_an_error_is_answered_at_once(server: Server) -> None:
    client = Client(server)
    response = client.fetch(client.topic("t", {0: 0, 1: 5}), max_wait_ms=500)
    assert [one.error for one in seen(response)] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


# Changes that are no records.


def test_a_changed_high_watermark_is_told_when_the_time_is_up(server: Server, play: Scene) -> None:
    async def scene() -> None:
        server.append("t")
        client = Client(server)
        client.open(client.topic("t", {0: 1}))
        server.append("t")
        client.go_on(client.topic("t", {0: 2}), max_wait_ms=0)
        server.append("t")
        response = await client.wait(client.topic("t", {0: 3}))
        assert asyncio.get_running_loop().time() == 0.5
        assert seen(response) == [Seen("t", 0, 0, 3, 0)]

    play(scene())


@SESSION
def test_records_that_are_not_committed_wait_for_the_high_watermark(
    server: Server, play: Scene, tries: dict[str, int], is_session: bool
) -> None:
    async def scene() -> None:
        partition = server.partition("t")
        fetching = parked(Client(server), is_session, {0: 0})
        before = tries.get("t-0", 0)
        append_uncommitted(partition)
        await asyncio.sleep(0.1)
        assert not fetching.done()
        assert tries.get("t-0", 0) == before
        partition.log.set_high_watermark(1)
        partition.notify(0)
        assert [one.high_watermark for one in seen(await fetching)] == [1]
        assert asyncio.get_running_loop().time() == 0.1

    play(scene())


def append_uncommitted(partition: Partition) -> None:
    """As a leader does whose followers have not fetched yet."""
    high_watermark = partition.log.high_watermark
    appended = append(partition.log, b"v")
    partition.log.high_watermark = high_watermark
    assert appended.base_offset >= high_watermark
    partition.notify(100)


@pytest.fixture(name="tries")
def count_tries(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often the log of each partition was asked for records."""
    calls: dict[str, int] = {}
    read = Log.read

    def counted(log: Log, *arguments: Any, **settings: Any) -> Any:
        name = Path(log.directory).name.rpartition("-")[0]
        calls[name] = calls.get(name, 0) + 1
        return read(log, *arguments, **settings)

    monkeypatch.setattr(Log, "read", counted)
    return calls


@SESSION
def test_the_end_of_a_transaction_makes_all_of_it_count(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        partition = server.partition("t")
        append(partition.log, bytes(2_000), producer_id=7, base_sequence=0, producer_epoch=0, is_transactional=True)
        fetching = parked(Client(server), is_session, {0: 0}, min_bytes=1_500, isolation_level=1)
        await asyncio.sleep(0.1)
        end_transaction(partition.log, 7, commit=True)
        partition.notify(78)
        (data,) = partitions_of(await fetching)
        assert size_of(data) > 2_000
        assert asyncio.get_running_loop().time() == 0.1

    play(scene())


# Which fetches are woken.


def test_one_append_wakes_only_those_who_wait_for_its_partition(
    tmp_path: Path, play: Scene, tries: dict[str, int]
) -> None:
    async def scene() -> None:
        server = Server(tmp_path)
        server.add_topic("t", 50)
        fetches = [
            parked(Client(server), number % 2 == 0, {number % 50: 0}, max_wait_ms=60_000) for number in range(1_000)
        ]
        tries.clear()
        server.append("t", 7)
        await asyncio.sleep(1)
        assert [number for number, fetching in enumerate(fetches) if fetching.done()] == list(range(7, 1_000, 50))
        assert tries == {"t-7": 20}
        assert waiting(server) == 980
        server.delayed.close()
        await asyncio.sleep(1)
        assert all(fetching.done() for fetching in fetches)

    play(scene())


def test_several_batches_of_one_request_wake_a_fetch_once(server: Server, play: Scene, tries: dict[str, int]) -> None:
    async def scene() -> None:
        fetching = parked(Client(server), True, {0: 0})
        before = tries.get("t-0", 0)
        size = sum(server.append("t") for _ in range(5))
        assert [one.size for one in seen(await fetching)] == [size]
        assert tries["t-0"] == before + 1

    play(scene())


def test_a_producers_repetition_wakes_no_fetch(server: Server, play: Scene) -> None:
    async def scene() -> None:
        data = build_batch([(T0, None, b"v", ())], producer_id=1, producer_epoch=0, base_sequence=0)
        for _ in range(2):
            server.partition("t").append(data, allows_zstd=True, now_ms=T0)
        fetching = parked(Client(server), True, {0: 1})
        server.partition("t").append(data, allows_zstd=True, now_ms=T0)
        await asyncio.sleep(0.1)
        assert not fetching.done()
        assert seen(await fetching) == []

    play(scene())


# Leaving.


@SESSION
def test_a_client_that_leaves_leaves_nothing_behind(server: Server, play: Scene, is_session: bool) -> None:
    async def scene() -> None:
        client = Client(server)
        fetching = parked(client, is_session, {0: 0, 1: 0})
        task = asyncio.ensure_future(wait_for(fetching))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert fetching.cancelled()
        assert waiting(server) == 0
        assert watchers(server) == (2 if is_session else 0)
        server.append("t")
        await asyncio.sleep(1)
        if is_session:
            # Another connection may go on with it.
            assert indexes(client.go_on()) == [0]

    play(scene())


async def wait_for(fetching: "asyncio.Future[FetchResponse]") -> FetchResponse:
    return await fetching


def test_a_client_that_leaves_when_it_was_just_woken_does_no_harm(server: Server, play: Scene) -> None:
    async def scene() -> None:
        fetching = parked(Client(server), False, {0: 0})
        server.append("t")
        fetching.cancel()
        await asyncio.sleep(1)
        assert waiting(server) == watchers(server) == 0

    play(scene())


def test_the_next_request_of_a_session_ends_one_that_still_waits(server: Server, play: Scene) -> None:
    async def scene() -> None:
        client = Client(server)
        client.open(client.topic("t"))
        first = client.wait(max_wait_ms=60_000)
        second = client.wait(max_wait_ms=60_000)
        ended = await first
        assert (ended.error_code, ended.session_id) == (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            client.session_id,
        )
        assert waiting(server) == 1
        server.append("t")
        assert indexes(await second) == [0]
        assert waiting(server) == 0

    play(scene())


def test_closing_a_session_ends_its_fetch(server: Server, play: Scene) -> None:
    async def scene() -> None:
        client = Client(server)
        client.open(client.topic("t"))
        fetching = client.wait(max_wait_ms=60_000)
        client.fetch(session_id=client.session_id, session_epoch=-1)
        assert seen(await fetching) == []
        assert waiting(server) == watchers(server) == 0

    play(scene())


def test_evicting_a_session_ends_its_fetch(tmp_path: Path, play: Scene) -> None:
    async def scene() -> None:
        server = Server(tmp_path, max_sessions=1)
        server.add_topic("t", 3)
        client, other = Client(server), Client(server)
        client.open(client.topic("t"))
        fetching = client.wait(max_wait_ms=600_000)
        server.clock.milliseconds += MIN_EVICTION_MS + 1
        other.open(other.topic("t", {1: 0}))
        assert other.session_id
        assert seen(await fetching) == []
        assert watchers(server) == 1
        assert waiting(server) == 0

    play(scene())


def test_a_session_opened_by_a_fetch_that_waited_hears_of_what_comes(server: Server, play: Scene) -> None:
    async def scene() -> None:
        client = Client(server)
        response = await client.wait(client.topic("t", {0: 0, 1: 0}), session_id=0, session_epoch=0)
        assert indexes(response) == [0, 1]
        client.session_id, client.session_epoch = response.session_id, 1
        assert indexes(client.go_on()) == []
        server.append("t", 1)
        assert indexes(client.go_on()) == [1]

    play(scene())


def test_a_broker_that_stops_answers_all_who_wait(server: Server, play: Scene) -> None:
    async def scene() -> None:
        fetches = [parked(Client(server), is_session, {0: 0}) for is_session in (True, False)]
        server.delayed.close()
        assert [indexes(await fetching) for fetching in fetches] == [[], [0]]
        late = parked(Client(server), False, {0: 0})
        assert late.done()
        assert asyncio.get_running_loop().time() == 0

    play(scene())


def test_a_fault_of_ours_reaches_the_one_who_waits_and_not_the_producer(
    server: Server, play: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        fetching = parked(Client(server), False, {0: 0})

        def fail(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(Log, "read", fail)
        server.append("t")
        with pytest.raises(ZeroDivisionError):
            await fetching
        assert waiting(server) == watchers(server) == 0

    play(scene())


def test_a_parked_fetch_is_counted_as_kafka_counts_it() -> None:
    assert ParkedFetch.kind == "Fetch"
