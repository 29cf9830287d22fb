"""Transactions of real clients against a real broker: what becomes visible, to whom, and what never does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.net.channel import Channel
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from levada.records import iter_batches
from tests.brokers import BrokerProcess, sound
from tests.integration.isolation import (
    COMMITTED,
    READERS,
    UNCOMMITTED,
    end_of,
    ends_at,
    read_committed,
    read_everything,
)
from tests.integration.test_groups import create_topic, wait_until
from tests.integration.test_wire import talk
from tests.producers import PRODUCERS, TRANSACTION_TIMEOUT_MS, Fenced, Producer, TransactionFailed

# kafka-python leaves the sockets open with which it knocked at a broker that was down.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

NO_OFFSET = -1
SHORT_TIMEOUT_MS = 1_000
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=100",
)

clients = pytest.mark.parametrize("client", PRODUCERS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with sound(BrokerProcess(tmp_path_factory.mktemp("transactions") / "data", *SETTINGS)) as process:
        yield process


@contextmanager
def producer(
    broker: BrokerProcess, client: str, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
) -> Iterator[Producer]:
    made = PRODUCERS[client](broker.bootstrap, transactional_id, timeout_ms)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def administrator(broker: BrokerProcess) -> Iterator[Any]:
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def state_of(broker: BrokerProcess, transactional_id: str) -> str:
    with administrator(broker) as admin:
        (described,) = admin.describe_transactions([transactional_id]).values()
        return str(described.state.value)


def fetch_offset(
    broker: BrokerProcess, group: str, topic: str, partition: int, *, is_stable: bool
) -> tuple[ErrorCode, int]:
    async def session(channel: Channel) -> tuple[ErrorCode, int]:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        wanted = OffsetFetchRequestGroup(group_id=group, topics=topics)
        answer = await channel.call(OffsetFetchRequest(groups=[wanted], require_stable=is_stable), 9)
        found = answer.groups[0].topics[0].partitions[0]
        return ErrorCode(found.error_code), found.committed_offset

    found: tuple[ErrorCode, int] = talk(broker, session)
    return found


@clients
def test_readers_of_every_client_see_what_their_isolation_allows(broker: BrokerProcess, client: str) -> None:
    topic = f"isolated-{client}"
    create_topic(broker, topic, 1)
    with producer(broker, client, topic) as writer:
        for values, finish in (((b"a", b"b"), writer.commit), ((b"c", b"d"), writer.abort), ((b"e",), writer.commit)):
            writer.begin()
            writer.send(topic, 0, *values)
            finish()
        writer.begin()
        writer.send(topic, 0, b"open")
        for name, read in READERS.items():
            assert read(broker, topic, 0, COMMITTED) == [b"a", b"b", b"e"], name
            assert read(broker, topic, 0, UNCOMMITTED) == [b"a", b"b", b"c", b"d", b"e", b"open"], name
        writer.commit()
    wait_until(lambda: read_committed(broker, topic) == [b"a", b"b", b"e", b"open"])


@clients
def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(broker: BrokerProcess, client: str) -> None:
    topic = f"stable-{client}"
    create_topic(broker, topic, 1, 2)
    with producer(broker, client, f"{topic}-1") as older, producer(broker, client, f"{topic}-2") as younger:
        older.begin()
        older.send(topic, 0, b"older")
        younger.begin()
        younger.send(topic, 0, b"younger")
        assert (end_of(broker, topic, 0, COMMITTED), end_of(broker, topic, 0, UNCOMMITTED)) == (2, 4)
        younger.commit()
        wait_until(lambda: end_of(broker, topic, 0, UNCOMMITTED) == 5)
        assert end_of(broker, topic, 0, COMMITTED) == 2
        older.abort()
        wait_until(lambda: end_of(broker, topic, 0, COMMITTED) == end_of(broker, topic, 0, UNCOMMITTED) == 6)
    assert read_committed(broker, topic) == [b"0-0", b"0-1", b"younger"]


@clients
def test_a_transaction_is_visible_in_all_its_partitions_or_in_none(broker: BrokerProcess, client: str) -> None:
    topic = f"spread-{client}"
    create_topic(broker, topic, 3)
    with producer(broker, client, topic) as writer:
        for finish in (writer.abort, writer.commit):
            writer.begin()
            for index in range(3):
                writer.send(topic, index, b"%d" % index)
            finish()
    for index in range(3):
        wait_until(partial(ends_at, broker, topic, index, 4))
        assert read_committed(broker, topic, index) == [b"%d" % index]


@clients
def test_offsets_are_pending_until_the_commit_and_dropped_by_an_abort(broker: BrokerProcess, client: str) -> None:
    topic = group = f"offsets-{client}"
    create_topic(broker, topic, 2)
    known: tuple[ErrorCode, int] = (ErrorCode.NONE, NO_OFFSET)
    with producer(broker, client, topic) as writer:
        for offset, is_commit in ((5, True), (6, False), (7, True)):
            writer.begin()
            writer.send(topic, 0, b"%d" % offset)
            writer.send_offsets({(topic, 1): offset}, group)
            assert fetch_offset(broker, group, topic, 1, is_stable=True) == (
                ErrorCode.UNSTABLE_OFFSET_COMMIT,
                NO_OFFSET,
            )
            assert fetch_offset(broker, group, topic, 1, is_stable=False) == known
            if is_commit:
                writer.commit()
                known = ErrorCode.NONE, offset
            else:
                writer.abort()
            wait_until(lambda: fetch_offset(broker, group, topic, 1, is_stable=True)[0] == ErrorCode.NONE)
            assert fetch_offset(broker, group, topic, 1, is_stable=True) == known
    assert read_committed(broker, topic) == [b"5", b"7"]


@clients
def test_of_two_instances_with_one_id_the_older_loses(broker: BrokerProcess, client: str) -> None:
    topic = f"twice-{client}"
    create_topic(broker, topic, 1)
    with producer(broker, client, topic) as older:
        older.begin()
        older.send(topic, 0, b"older")
        with producer(broker, client, topic) as newer:
            newer.begin()
            newer.send(topic, 0, b"newer")
            with pytest.raises(Fenced):
                commit_with(older, topic, b"late")
            newer.commit()
    wait_until(lambda: end_of(broker, topic, 0, COMMITTED) == end_of(broker, topic, 0, UNCOMMITTED))
    assert read_committed(broker, topic) == [b"newer"]
    assert b"late" not in read_everything(broker, topic)


def commit_with(writer: Producer, topic: str, value: bytes) -> None:
    writer.send(topic, 0, value)
    writer.commit()


@clients
def test_an_instance_that_slept_past_its_timeout_is_fenced(broker: BrokerProcess, client: str) -> None:
    topic = f"asleep-{client}"
    create_topic(broker, topic, 1)
    with producer(broker, client, topic, SHORT_TIMEOUT_MS) as sleeper:
        sleeper.begin()
        sleeper.send(topic, 0, b"before")
        wait_until(lambda: state_of(broker, topic) == "CompleteAbort")
        assert end_of(broker, topic, 0, COMMITTED) == end_of(broker, topic, 0, UNCOMMITTED)
        # librdkafka takes its own word for it that time is up, and calls the transaction failed.
        with pytest.raises((Fenced, TransactionFailed)):
            commit_with(sleeper, topic, b"after")
    assert read_committed(broker, topic) == []
    assert read_everything(broker, topic) == [b"before"]
    with producer(broker, client, topic) as successor:
        successor.begin()
        commit_with(successor, topic, b"successor")
    wait_until(lambda: read_committed(broker, topic) == [b"successor"])


ENDINGS: dict[str, Callable[[BrokerProcess], Any]] = {"stopped": BrokerProcess.stop, "killed": BrokerProcess.kill}


@pytest.mark.parametrize("ending", ENDINGS)
def test_open_transactions_go_on_when_the_broker_is_back(own_broker: BrokerProcess, ending: str) -> None:
    open_in = {client: f"open-{client}" for client in PRODUCERS}
    for topic in open_in.values():
        create_topic(own_broker, topic, 1)
    writers: dict[str, Producer] = {}
    try:
        for client, topic in open_in.items():
            writers[client] = PRODUCERS[client](own_broker.bootstrap, topic)
            writers[client].begin()
            writers[client].send(topic, 0, b"before")
            writers[client].send_offsets({(topic, 0): 9}, topic)
        ENDINGS[ending](own_broker)
        own_broker.start()
        for topic in open_in.values():
            assert (end_of(own_broker, topic, 0, COMMITTED), end_of(own_broker, topic, 0, UNCOMMITTED)) == (0, 1)
        for client, topic in open_in.items():
            commit_with(writers[client], topic, b"after")
            wait_until(partial(ends_at, own_broker, topic, 0, 3))
            assert read_committed(own_broker, topic) == [b"before", b"after"]
            committed = fetch_offset(own_broker, topic, topic, 0, is_stable=True)
            assert committed == (ErrorCode.NONE, 9)
    finally:
        for writer in writers.values():
            writer.close()
    assert "Traceback" not in own_broker.log, own_broker.log


def cut_last_batch(directory: Path) -> None:
    """As if the machine had lost power before it was on the device."""
    (path,) = directory.glob("*.log")
    data = path.read_bytes()
    *_, last = iter_batches(data)
    path.write_bytes(data[: len(data) - last.size])


@pytest.mark.parametrize("lost_markers", [(), (1,), (0, 1)], ids=["no marker", "a marker", "all markers"])
def test_a_commit_that_was_decided_is_finished_by_the_next_broker(
    own_broker: BrokerProcess, lost_markers: tuple[int, ...]
) -> None:
    create_topic(own_broker, "decided", 2)
    with producer(own_broker, "confluent-kafka", "decider") as writer:
        writer.begin()
        for index in range(2):
            writer.send("decided", index, b"first")
        writer.commit()
        wait_until(lambda: state_of(own_broker, "decider") == "CompleteCommit")
    own_broker.kill()
    cut_last_batch(own_broker.data_directory / f"__transaction_state-{coordinator_partition('decider', 50)}")
    for index in lost_markers:
        cut_last_batch(own_broker.data_directory / f"decided-{index}")
    own_broker.start()
    wait_until(lambda: state_of(own_broker, "decider") == "CompleteCommit")
    for index in range(2):
        assert read_committed(own_broker, "decided", index) == [b"first"]
        assert end_of(own_broker, "decided", index, COMMITTED) == end_of(own_broker, "decided", index, UNCOMMITTED)
    with producer(own_broker, "confluent-kafka", "decider") as writer:
        writer.begin()
        commit_with(writer, "decided", b"second")
    wait_until(lambda: read_committed(own_broker, "decided") == [b"first", b"second"])


def test_an_administrator_sees_transactions_and_their_producers(broker: BrokerProcess) -> None:
    create_topic(broker, "seen", 2)
    with (
        producer(broker, "confluent-kafka", "seen-open") as writer,
        producer(broker, "kafka-python", "seen-idle"),
        administrator(broker) as admin,
    ):
        writer.begin()
        writer.send("seen", 1, b"one", b"two")
        (described,) = admin.describe_transactions(["seen-open"]).values()
        assert (described.state.value, described.transaction_timeout_ms) == ("Ongoing", TRANSACTION_TIMEOUT_MS)
        assert set(described.topic_partitions) == {TopicPartition("seen", 1)}
        listed = {
            one.transactional_id: one.state.value
            for ones in admin.list_transactions(transactional_id_pattern="seen-.*").values()
            for one in ones
        }
        assert listed == {"seen-open": "Ongoing", "seen-idle": "Empty"}
        by_state = admin.list_transactions(state_filters=["Ongoing"], transactional_id_pattern="seen-.*")
        assert [one.transactional_id for ones in by_state.values() for one in ones] == ["seen-open"]
        partition = TopicPartition("seen", 1)
        (active,) = admin.describe_producers([partition])[partition].active_producers
        assert (active.producer_id, active.current_transaction_start_offset) == (described.producer_id, 0)
        assert admin.describe_producers([TopicPartition("seen", 0)])[TopicPartition("seen", 0)].active_producers == []
        writer.commit()
        wait_until(lambda: state_of(broker, "seen-open") == "CompleteCommit")
        (active,) = admin.describe_producers([partition])[partition].active_producers
        assert active.current_transaction_start_offset == -1
