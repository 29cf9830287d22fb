"""`for record in consumer`, blocking and asyncio: a record counts as consumed when it is handed out, and not before."""

import asyncio
import inspect
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import levada
from levada import aio
from levada.client.errors import IllegalState, SerializationFailed
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord
from tests.batches import produce_one_batch
from tests.brokers import BrokerProcess, sound
from tests.clients.cases import numbered, produce, topic_of
from tests.clients.group_cases import BROKER_SETTINGS
from tests.clients.scripts import run_script

WAIT_SECONDS = 20.0
COUNT = 3_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = [f"{name}={value}" for name, value in BROKER_SETTINGS.items()]
    with sound(BrokerProcess(tmp_path_factory.mktemp("broker") / "data", *settings)) as process:
        yield process


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    """Of two partitions, which are only read."""
    name = topic_of(broker.bootstrap, "iterated", 2)
    for partition in range(2):
        produce_one_batch(broker, name, numbered(COUNT), partition)
    return name


class Reader:
    """Either consumer, used by an asyncio test: calls are awaited where that is what it takes."""

    def __init__(self, kind: str, bootstrap: str, **options: Any) -> None:
        self._make = aio.Consumer if kind == "asyncio" else levada.Consumer
        self._arguments = bootstrap, {"auto_offset_reset": "earliest", **options}
        self.consumer: Any = None

    def open(self) -> None:
        bootstrap, options = self._arguments
        self.consumer = self._make(bootstrap, **options)

    async def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        found = getattr(self.consumer, name)(*arguments, **named)
        return await found if inspect.isawaitable(found) else found

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        if isinstance(self.consumer, levada.Consumer):
            for record in self.consumer:
                yield record
        else:
            async for record in self.consumer:
                yield record

    async def next(self, count: int = 1) -> list[ConsumerRecord]:
        """So many records by a loop of their own, which is left then."""
        records: list[ConsumerRecord] = []
        async for record in self:
            records.append(record)
            if len(records) == count:
                break
        return records


@asynccontextmanager
async def reading(kind: str, broker: BrokerProcess, *places: tuple[str, int], **options: Any) -> AsyncIterator[Reader]:
    reader = Reader(kind, broker.bootstrap, **options)
    reader.open()
    try:
        if places:
            await reader.call("assign", places)
        yield reader
    finally:
        await reader.call("close")


def committed(broker: BrokerProcess, group: str, *places: tuple[str, int]) -> list[int | None]:
    with levada.Consumer(broker.bootstrap, group_id=group) as other:
        found = other.committed(places)
    return [position and position.offset for position in found.values()]


def offsets_of(records: Collection[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


kinds = pytest.mark.parametrize("kind", ["blocking", "asyncio"])


# Positions and commits


@kinds
@pytest.mark.parametrize("way", ["commit", "commit_async"])
def test_a_commit_in_the_loop_has_the_records_handed_out_and_no_more(
    broker: BrokerProcess, topic: str, kind: str, way: str
) -> None:
    group = f"{topic}-{kind}-{way}"

    async def scenario() -> None:
        async with reading(kind, broker, (topic, 0), group_id=group, enable_auto_commit=False) as reader:
            async for record in reader:
                at = record.offset + 1
                if at in (1, 2, 7, 500, 501, 1_999):
                    await reader.call(way)
                    # Waits for the one before.
                    await reader.call("commit", {})
                    assert committed(broker, group, (topic, 0)) == [at]
                if at in (1, 3, 600):
                    assert await reader.call("position", (topic, 0)) == at
                    assert await reader.call("current_lag", (topic, 0)) == COUNT - at
                    assert (await reader.call("metrics"))["records-consumed-total"] == at
                if at == 2_000:
                    break

    asyncio.run(scenario())


@kinds
@pytest.mark.parametrize("is_member", [True, False], ids=["subscribed", "assigned"])
def test_who_leaves_the_loop_and_closes_has_committed_what_was_handed_out(
    broker: BrokerProcess, topic: str, kind: str, is_member: bool
) -> None:
    group = f"{topic}-{kind}-left-{is_member}"
    places = [(topic, 0), (topic, 1)]

    async def scenario() -> None:
        async with reading(kind, broker, *(() if is_member else places), group_id=group) as reader:
            if is_member:
                await reader.call("subscribe", [topic])
            await reader.next(7)

    asyncio.run(scenario())
    assert sum(offset or 0 for offset in committed(broker, group, *places)) == 7


@kinds
def test_automatic_commits_follow_a_slow_loop_and_keep_it_in_its_group(
    broker: BrokerProcess, topic: str, kind: str
) -> None:
    """A record at a time is a poll at a time: neither waits until everything that was decoded is processed."""
    group = f"{topic}-{kind}-slow"
    told: list[str] = []

    class Listener:
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            told.append("assigned")

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            told.append("revoked")

        def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
            told.append("lost")

    async def scenario() -> None:
        timing = {"max_poll_interval_ms": 600, "session_timeout_ms": 600, "heartbeat_interval_ms": 100}
        async with reading(kind, broker, group_id=group, auto_commit_interval_ms=100, **timing) as reader:
            await reader.call("subscribe", [topic], listener=Listener())
            begun = time.monotonic()
            handed_out = 0
            seen: set[int] = set()
            async for _ in reader:
                assert sum(offset or 0 for offset in committed(broker, group, (topic, 0), (topic, 1))) <= handed_out
                handed_out += 1
                await asyncio.sleep(0.06)
                seen.add(sum(offset or 0 for offset in committed(broker, group, (topic, 0), (topic, 1))))
                if len(seen) > 4 and time.monotonic() - begun > 1.5:
                    break
                assert time.monotonic() - begun < WAIT_SECONDS
            assert told == ["assigned"]

    asyncio.run(scenario())


@kinds
def test_the_position_in_the_loop_can_be_part_of_a_transaction(broker: BrokerProcess, topic: str, kind: str) -> None:
    group = f"{topic}-{kind}-transaction"
    place = TopicPartition(topic, 0)

    async def scenario() -> None:
        async with (
            reading(kind, broker, place, group_id=group, enable_auto_commit=False) as reader,
            aio.Producer(broker.bootstrap, transactional_id=group) as producer,
        ):
            await producer.init_transactions()
            async for record in reader:
                await producer.begin_transaction()
                offsets = {place: await reader.call("position", place)}
                await producer.send_offsets_to_transaction(offsets, await reader.call("group_metadata"))
                await producer.commit_transaction()
                assert committed(broker, group, place) == [record.offset + 1]
                if record.offset == 3:
                    break

    asyncio.run(scenario())


# Whatever else is called


@kinds
def test_what_is_read_after_the_loop_goes_on_with_the_next_record(broker: BrokerProcess, topic: str, kind: str) -> None:
    async def scenario() -> None:
        async with reading(kind, broker, (topic, 0)) as reader:
            offsets = offsets_of(await reader.next(3))
            offsets += offsets_of(await reader.next(2))
            offsets += offsets_of(await reader.call("poll", WAIT_SECONDS, 4))
            offsets += offsets_of(await reader.next(2))
            while len(offsets) < COUNT:
                batch = await reader.call("poll_arrow", WAIT_SECONDS, max_rows=1)
                assert batch is not None
                offsets += batch.column("offset").to_pylist()
            assert offsets == list(range(COUNT))

    asyncio.run(scenario())


@kinds
def test_a_poll_inside_the_loop_takes_the_records_that_come_next(broker: BrokerProcess, topic: str, kind: str) -> None:
    async def scenario() -> None:
        async with reading(kind, broker, (topic, 0)) as reader:
            offsets: list[int] = []
            async for record in reader:
                offsets.append(record.offset)
                offsets += offsets_of(await reader.call("poll", WAIT_SECONDS, 3))
                if len(offsets) >= 1_000:
                    break
            assert offsets == list(range(1_000))

    asyncio.run(scenario())


@kinds
def test_a_seek_and_a_pause_are_obeyed_by_the_next_record(broker: BrokerProcess, topic: str, kind: str) -> None:
    places = [(topic, 0), (topic, 1)]

    async def scenario() -> None:
        async with reading(kind, broker, *places) as reader:
            [first] = await reader.next()
            await reader.call("seek", places[first.partition], 1_234)
            records = await reader.next(100)
            assert [record.offset for record in records if record.partition == first.partition][:1] in ([], [1_234])
            paused = records[-1].partition
            at = records[-1].offset + 1
            await reader.call("pause", [places[paused]])
            assert {record.partition for record in await reader.next(1_200)} == {1 - paused}
            assert await reader.call("position", places[paused]) == at
            await reader.call("resume", [places[paused]])
            await reader.call("pause", [places[1 - paused]])
            assert (await reader.next())[0][1:3] == (paused, at)
            await reader.call("seek_to_beginning", [places[paused]])
            assert (await reader.next())[0][1:3] == (paused, 0)

    asyncio.run(scenario())


@kinds
def test_a_loop_over_a_closed_consumer_says_so(broker: BrokerProcess, topic: str, kind: str) -> None:
    async def scenario() -> None:
        async with reading(kind, broker, (topic, 0)) as reader:
            records = aiter(reader)
            assert (await anext(records)).offset == 0
            await reader.call("close")
            with pytest.raises(IllegalState, match="closed"):
                await anext(records)

    asyncio.run(scenario())


@kinds
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_repeated_whatever_comes_between_two_records(
    broker: BrokerProcess, kind: str, seed: int
) -> None:
    """The consumer against a model: a position for each partition, and the records that are there."""
    chance = random.Random(seed)
    topic = topic_of(broker.bootstrap, "model", 3)
    for partition, size in enumerate((COUNT, 70, 9)):
        produce(broker.bootstrap, topic, numbered(COUNT), partition, **{"batch.num.messages": size})
    places = [(topic, partition) for partition in range(3)]
    expected = [0, 0, 0]

    async def scenario() -> None:
        options = {"max_partition_fetch_bytes": 30_000, "fetch_max_wait_ms": 20}
        async with reading(kind, broker, *places, group_id=topic, **options) as reader:

            def check(record: ConsumerRecord) -> None:
                assert record.offset == expected[record.partition]
                expected[record.partition] += 1

            async def disturb(partition: int) -> None:
                match chance.choice(("seek", "look", "commit", "poll", "nothing", "nothing")):
                    case "seek":
                        expected[partition] = chance.randrange(COUNT // 2)
                        await reader.call("seek", places[partition], expected[partition])
                    case "look":
                        assert await reader.call("position", places[partition]) == expected[partition]
                    case "commit":
                        await reader.call("commit")
                        found = await reader.call("committed", places)
                        assert [found[place].offset for place in places] == expected
                    case "poll":
                        for record in await reader.call("poll", 0.02, chance.choice([1, 2, 7, 100])):
                            check(record)

            for _ in range(60):
                left = chance.choice([1, 2, 30, 600])
                async for record in reader:
                    check(record)
                    if chance.random() < 0.02:
                        await disturb(chance.randrange(3))
                    left -= 1
                    if not left:
                        break
                await disturb(chance.randrange(3))
                if sum(expected) > 2 * COUNT:
                    for partition in range(3):
                        expected[partition] = 0
                    await reader.call("seek_to_beginning")
            for partition in range(3):
                assert await reader.call("position", places[partition]) == expected[partition]

    asyncio.run(scenario())


# Groups


@kinds
@pytest.mark.parametrize(
    "options",
    [
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer"},
    ],
    ids=["eager", "cooperative", "next"],
)
def test_a_partition_changes_hands_just_behind_the_last_record_handed_out(
    broker: BrokerProcess, kind: str, options: dict[str, str]
) -> None:
    topic = topic_of(broker.bootstrap, "handed-over", 2)
    for partition in range(2):
        produce_one_batch(broker, topic, numbered(10_000), partition)
    timing = {} if "group_protocol" in options else {"heartbeat_interval_ms": 50, "session_timeout_ms": 6_000}
    # Only a rebalance commits.
    settings = {"group_id": topic, "auto_commit_interval_ms": 600_000, **options, **timing}
    read_by_second: list[ConsumerRecord] = []
    has_read, may_go = threading.Event(), threading.Event()

    def run_second() -> None:
        with levada.Consumer(broker.bootstrap, auto_offset_reset="earliest", **settings) as second:
            second.subscribe([topic])
            deadline = time.monotonic() + WAIT_SECONDS
            while not read_by_second and time.monotonic() < deadline:
                read_by_second.extend(second.poll(0.2, 10))
            has_read.set()
            # Else the first gets back what the second had.
            may_go.wait(WAIT_SECONDS)

    async def scenario() -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        thread = threading.Thread(target=run_second)
        async with reading(kind, broker, **settings) as first:
            await first.call("subscribe", [topic])
            async for record in first:
                records.append(record)
                if len(records) == 1:
                    thread.start()
                if has_read.is_set():
                    break
                await asyncio.sleep(0.0005)
            may_go.set()
            thread.join(WAIT_SECONDS)
        return records

    read_by_first = asyncio.run(scenario())
    assert read_by_second
    offsets: list[list[int]] = [[], []]
    for record in read_by_first + read_by_second:
        offsets[record.partition].append(record.offset)
    assert offsets == [list(range(len(each))) for each in offsets]


# Deserializers, interceptors, processes


@kinds
def test_a_value_that_cannot_be_read_comes_after_all_before_it(broker: BrokerProcess, topic: str, kind: str) -> None:
    def number(data: bytes | None) -> int:
        value = int(data or b"")
        if value == 100:
            raise ValueError("not this one")
        return value

    async def scenario() -> None:
        async with reading(kind, broker, (topic, 0), value_deserializer=number) as reader:
            values: list[Any] = [record.value for record in await reader.next(100)]
            assert values == list(range(100))
            with pytest.raises(SerializationFailed, match="offset 100"):
                await reader.next()
            assert await reader.call("position", (topic, 0)) == 100
            await reader.call("seek", (topic, 0), 101)
            assert offsets_of(await reader.next(3)) == [101, 102, 103]

    asyncio.run(scenario())


@kinds
def test_interceptors_see_each_record_when_it_is_handed_out(broker: BrokerProcess, topic: str, kind: str) -> None:
    seen: list[int] = []

    class Onlooker:
        """Leaves every third one out."""

        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            seen.extend(offsets_of(records))
            return [record._replace(value=b"seen") for record in records if record.offset % 3]

    async def scenario() -> None:
        async with reading(kind, broker, (topic, 0), interceptor_classes=[Onlooker]) as reader:
            records = await reader.next(20)
            assert offsets_of(records) == [offset for offset in range(30) if offset % 3]
            assert {record.value for record in records} == {b"seen"}
            assert seen == list(range(30))
            assert await reader.call("position", (topic, 0)) == 30
            assert (await reader.call("metrics"))["records-consumed-total"] == 30

    asyncio.run(scenario())


def test_a_loop_that_is_under_way_belongs_to_the_parent_of_a_fork(broker: BrokerProcess, topic: str) -> None:
    ending = run_script(
        """
        consumer = Consumer(bootstrap, auto_offset_reset="earliest")
        consumer.assign([(topic, 0)])
        records = iter(consumer)
        found = [next(records).offset for _ in range(20)]
        child = os.fork()
        if child == 0:
            try:
                print("no error", next(records), flush=True)
            except IllegalState as error:
                print("fork" in str(error), flush=True)
            os._exit(7)
        found += [next(records).offset for _ in range(20)]
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
        print(found == list(range(40)), consumer.position((topic, 0)))
        consumer.close()
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert ending.said == ["True", "7", "True 40"]


def test_a_task_that_is_cancelled_in_the_loop_has_consumed_what_it_had(broker: BrokerProcess, topic: str) -> None:
    async def scenario() -> None:
        async with reading("asyncio", broker, (topic, 0)) as reader:
            offsets: list[int] = []

            async def run(pause: Callable[[], float]) -> None:
                async for record in reader:
                    offsets.append(record.offset)
                    await asyncio.sleep(pause())

            for _ in range(30):
                task = asyncio.create_task(run(lambda: 0.001))
                await asyncio.sleep(random.random() * 0.02)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert await reader.call("position", (topic, 0)) == len(offsets)
            assert offsets == list(range(len(offsets)))

    asyncio.run(scenario())
