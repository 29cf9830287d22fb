"""The blocking consumer's records that are decoded ahead of its polls: whatever comes in between, all is counted."""

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import pytest

from levada import Consumer
from levada.client.errors import IllegalState
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.records import ConsumerRecord
from tests.batches import produce_one_batch
from tests.brokers import BrokerProcess, sound
from tests.clients.cases import numbered, produce, topic_of
from tests.clients.group_cases import BROKER_SETTINGS
from tests.integration.prefetching import COUNT, WAIT_SECONDS, check_has_prefetched, committed, reader, take


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = [f"{name}={value}" for name, value in BROKER_SETTINGS.items()]
    with sound(BrokerProcess(tmp_path_factory.mktemp("broker") / "data", *settings)) as process:
        yield process


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    """Of two partitions, which are only read."""
    name = topic_of(broker.bootstrap, "prefetched", 2)
    for partition in range(2):
        produce_one_batch(broker, name, numbered(COUNT), partition)
    return name


# Positions and commits


def test_the_position_is_behind_what_was_returned_after_any_number_of_polls(broker: BrokerProcess, topic: str) -> None:
    with reader(broker, (topic, 0)) as consumer:
        at = 0
        for polls in range(1, 25):
            offsets = take(consumer, polls)
            assert offsets == list(range(at, at + 3 * polls))
            at += len(offsets)
            assert consumer.position((topic, 0)) == at
            assert consumer.current_lag((topic, 0)) == COUNT - at
            assert consumer.metrics()["records-consumed-total"] == at
        check_has_prefetched(consumer, 300)


@pytest.mark.parametrize("way", ["commit", "commit_async"])
def test_a_commit_has_all_that_was_returned_and_no_more(broker: BrokerProcess, topic: str, way: str) -> None:
    told: list[dict[TopicPartition, OffsetAndMetadata]] = []
    group = f"{topic}-{way}"
    with reader(broker, (topic, 0), group_id=group, enable_auto_commit=False) as consumer:
        at = 0
        for polls in (1, 2, 9, 100):
            at += len(take(consumer, polls))
            if way == "commit":
                consumer.commit()
            else:
                consumer.commit_async(callback=lambda offsets, error: told.append({**offsets}))
                # Waits for the one before.
                consumer.commit({})
                assert [offset.offset for offset in told.pop().values()] == [at]
            assert committed(broker, group, (topic, 0)) == [at]
        check_has_prefetched(consumer, 112)


@pytest.mark.parametrize("is_member", [True, False], ids=["subscribed", "assigned"])
def test_a_consumer_that_is_closed_has_committed_all_that_was_returned(
    broker: BrokerProcess, topic: str, is_member: bool
) -> None:
    group = f"{topic}-closed-{is_member}"
    places = [(topic, 0), (topic, 1)]
    with reader(broker, *(() if is_member else places), group_id=group) as consumer:
        if is_member:
            consumer.subscribe([topic])
        while not (first := consumer.poll(1.0, 1)):
            pass
        returned = len(first) + len(take(consumer, 40, 5))
    found = committed(broker, group, *places)
    assert sum(offset or 0 for offset in found) == returned


def test_automatic_commits_go_on_while_records_are_prefetched(broker: BrokerProcess, topic: str) -> None:
    group = f"{topic}-automatic"
    with (
        reader(broker, (topic, 0), group_id=group, auto_commit_interval_ms=100) as consumer,
        Consumer(broker.bootstrap, group_id=group) as other,
    ):
        seen: set[int] = set()
        deadline = time.monotonic() + WAIT_SECONDS
        # Not all is read long before this has taken its time.
        while len(seen) < 3:
            assert time.monotonic() < deadline
            take(consumer, 20, 1)
            time.sleep(0.02)
            offset = other.committed([(topic, 0)])[TopicPartition(topic, 0)]
            if offset is not None:
                seen.add(offset.offset)


# Changes of mind


def test_a_seek_is_obeyed_by_the_next_poll(broker: BrokerProcess, topic: str) -> None:
    with reader(broker, (topic, 0)) as consumer:
        for goal in (2_000, 17, 999):
            take(consumer, 5)
            consumer.seek((topic, 0), goal)
            assert take(consumer, 5) == list(range(goal, goal + 15))
        consumer.seek_to_beginning([(topic, 0)])
        assert take(consumer, 5) == list(range(15))
        consumer.seek_to_end()
        assert consumer.poll(0.1, 3) == []
        assert consumer.position((topic, 0)) == COUNT


def test_what_is_paused_gives_nothing_and_goes_on_where_it_was(broker: BrokerProcess, topic: str) -> None:
    places = [(topic, 0), (topic, 1)]
    with reader(broker, *places) as consumer:
        first = consumer.poll(WAIT_SECONDS, 3)[0].partition
        at = 3 + len(take(consumer, 4))
        consumer.pause([places[first]])
        others: list[ConsumerRecord] = []
        while len(others) < 300:
            others += consumer.poll(WAIT_SECONDS, 3)
        assert {record.partition for record in others} == {1 - first}
        check_has_prefetched(consumer, 105)
        consumer.pause([places[1 - first]])
        assert consumer.poll(0.05, 3) == []
        consumer.resume([places[first]])
        assert take(consumer, 4) == list(range(at, at + 12))
        assert consumer.position(places[1 - first]) == len(others)


def test_another_assignment_ends_what_was_prefetched(broker: BrokerProcess, topic: str) -> None:
    with reader(broker, (topic, 0)) as consumer:
        take(consumer, 4)
        consumer.assign([(topic, 1)])
        records = consumer.poll(WAIT_SECONDS, 3)
        assert {record.partition for record in records} == {1}
        consumer.assign([(topic, 0), (topic, 1)])
        assert consumer.position((topic, 1)) == 3
        assert consumer.position((topic, 0)) == 0
        consumer.unsubscribe()
        with pytest.raises(IllegalState, match="subscribe"):
            consumer.poll(1.0, 3)
        consumer.assign([(topic, 0)])
        assert take(consumer, 4) == list(range(12))
    with pytest.raises(IllegalState, match="closed"):
        consumer.poll(1.0, 3)


def test_arrow_batches_and_records_take_turns(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "turns")
    produce(broker.bootstrap, topic, numbered(COUNT), **{"batch.num.messages": 100})
    offsets: list[int] = []
    polls = 0
    with reader(broker, (topic, 0)) as consumer:
        while len(offsets) < COUNT:
            polls += 7
            offsets += take(consumer, 7)
            batch = consumer.poll_arrow(0.2, max_rows=150)
            offsets += [] if batch is None else batch.column("offset").to_pylist()
            if len(offsets) < COUNT:
                assert consumer.position((topic, 0)) == offsets[-1] + 1
        check_has_prefetched(consumer, polls)
        assert consumer.metrics()["records-consumed-total"] == COUNT
    assert offsets == list(range(COUNT))


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "5"])
def test_a_limit_that_makes_no_sense_is_refused_and_does_no_harm(broker: BrokerProcess, topic: str, wrong: Any) -> None:
    with reader(broker, (topic, 0)) as consumer:
        assert take(consumer, 2) == list(range(6))
        with pytest.raises((ValueError, TypeError)):
            consumer.poll(1.0, wrong)
        assert consumer.position((topic, 0)) == 6
        assert take(consumer, 2, None) == list(range(6, 1_006))
        assert take(consumer, 2) == list(range(1_006, 1_012))


# A model


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_repeated_whatever_comes_between_the_polls(broker: BrokerProcess, seed: int) -> None:
    """The consumer against a model: a position for each partition, and the records that are there."""
    chance = random.Random(seed)
    topic = topic_of(broker.bootstrap, "model", 3)
    for partition, size in enumerate((COUNT, 70, 9)):
        produce(broker.bootstrap, topic, numbered(COUNT), partition, **{"batch.num.messages": size})
    places = [(topic, partition) for partition in range(3)]
    expected = [0, 0, 0]
    paused: set[int] = set()
    with reader(broker, *places, group_id=topic, max_partition_fetch_bytes=30_000, fetch_max_wait_ms=20) as consumer:

        def seek(partition: int) -> None:
            expected[partition] = chance.randrange(COUNT)
            consumer.seek(places[partition], expected[partition])

        def rewind(partition: int) -> None:
            expected[partition] = 0
            consumer.seek_to_beginning([places[partition]])

        def pause_or_resume(partition: int) -> None:
            (consumer.resume if partition in paused else consumer.pause)([places[partition]])
            paused.symmetric_difference_update({partition})

        def look(partition: int) -> None:
            assert consumer.position(places[partition]) == expected[partition]

        def commit(partition: int) -> None:
            consumer.commit()
            found = consumer.committed(places)
            positions = [found[TopicPartition(*place)] for place in places]
            # What was sought to and never read since has perhaps no position yet.
            assert all(at is None or at.offset == offset for at, offset in zip(positions, expected, strict=True))

        def poll(partition: int) -> None:
            limit = chance.choice([1, 2, 7, 100, None])
            for _ in range(chance.randrange(1, 30)):
                records = consumer.poll(0.02, limit)
                for record in records:
                    assert record.partition not in paused
                    assert record.offset == expected[record.partition]
                    expected[record.partition] += 1
                if not records:
                    break

        def poll_arrow(partition: int) -> None:
            batch = consumer.poll_arrow(0.01, max_rows=100)
            for row in batch.to_pylist() if batch is not None else []:
                assert row["partition"] not in paused
                assert row["offset"] == expected[row["partition"]]
                expected[row["partition"]] += 1

        steps: list[Callable[[int], None]] = [seek, rewind, pause_or_resume, look, poll_arrow, *[poll] * 6]
        for _ in range(100):
            chance.choice(steps)(chance.randrange(3))
        for partition in range(3):
            look(partition)
        commit(0)


# Groups


@pytest.mark.parametrize(
    "options",
    [
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer"},
    ],
    ids=["eager", "cooperative", "next"],
)
@pytest.mark.parametrize("lent", [0, 1])
def test_a_partition_changes_hands_just_behind_what_was_returned(
    broker: BrokerProcess, options: dict[str, str], lent: int
) -> None:
    """Of two partitions one goes, and all that is returned meanwhile is of the one or of the other."""
    topic = topic_of(broker.bootstrap, "handed-over", 2)
    for partition in range(2):
        produce_one_batch(broker, topic, numbered(10_000), partition)
    timing = {} if "group_protocol" in options else {"heartbeat_interval_ms": 50, "session_timeout_ms": 6_000}
    # Only a rebalance commits.
    join = partial(reader, broker, group_id=topic, auto_commit_interval_ms=600_000, **options, **timing)
    read_by_second: list[ConsumerRecord] = []
    has_read, may_go = threading.Event(), threading.Event()

    def run_second() -> None:
        with join() as second:
            second.subscribe([topic])
            deadline = time.monotonic() + WAIT_SECONDS
            while not read_by_second and time.monotonic() < deadline:
                read_by_second.extend(second.poll(0.2, 10))
            has_read.set()
            # Else the first gets back what the second had.
            may_go.wait(WAIT_SECONDS)

    with join() as first:
        first.subscribe([topic])
        while not first.assignment():
            first.poll(0.1, 1)
        first.seek_to_beginning()
        first.pause([(topic, 1 - lent)])
        thread = threading.Thread(target=run_second)
        read = take_slowly(first, thread.start, has_read)
        may_go.set()
        thread.join(WAIT_SECONDS)
    assert read_by_second
    offsets: list[list[int]] = [[], []]
    for record in read + read_by_second:
        offsets[record.partition].append(record.offset)
    assert offsets == [list(range(len(each))) for each in offsets]


def take_slowly(consumer: Consumer, begin: Callable[[], None], is_over: threading.Event) -> list[ConsumerRecord]:
    """Record after record, so that there are prefetched records nearly all the time."""
    records = consumer.poll(WAIT_SECONDS, 1)
    begin()
    while not is_over.is_set():
        records += consumer.poll(0.1, 1)
        time.sleep(0.0005)
    return records


def test_polls_of_prefetched_records_keep_a_member_in_its_group(broker: BrokerProcess, topic: str) -> None:
    told: list[str] = []

    class Listener:
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            told.append("assigned")

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            told.append("revoked")

        def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
            told.append("lost")

    options = {"group_id": f"{topic}-interval", "max_poll_interval_ms": 600, "session_timeout_ms": 600}
    with reader(broker, heartbeat_interval_ms=100, **options) as consumer:
        consumer.subscribe([topic], listener=Listener())
        while not consumer.poll(1.0, 1):
            pass
        before = consumer.group_metadata()
        ends = time.monotonic() + 2.0
        polls = 0
        while time.monotonic() < ends:
            polls += len(take(consumer, 1, 1))
            time.sleep(0.002)
        check_has_prefetched(consumer, polls)
        # A consumer that has left hears of it in a poll that asks the loop.
        take(consumer, 1, 1)
        assert consumer.group_metadata() == before
        assert told == ["assigned"]
