"""The worked examples about groups, 14 to 16, with real clients."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from tests.brokers import BrokerProcess, sound
from tests.integration.test_groups import WAIT_SECONDS, confluent, create_topic, have_two_partitions_each, wait_until

FIRST, LAST = 65_510, 65_532
"""What a poll returns."""
NEXT = LAST + 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Lets sessions be short, so that a dead member's partitions are free soon."""
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with sound(BrokerProcess(tmp_path_factory.mktemp("broker") / "data", *settings)) as process:
        yield process


def produce(broker: BrokerProcess, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(WAIT_SECONDS) == 0


def committed(broker: BrokerProcess, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    (one,) = listed.result(WAIT_SECONDS).topic_partitions
    return int(one.offset)


class Doomed:
    """The consumer of a topic of its own, up to its death."""

    def __init__(self, broker: BrokerProcess, topic: str, mode: str, path: Path) -> None:
        self._broker = broker
        self.topic = topic
        self._path = path
        command = [
            sys.executable,
            "-m",
            "tests.integration.scenario_consumer",
            broker.bootstrap,
            topic,
            mode,
            str(path),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def expect(self, said: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{said}\n"

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def die(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def processed(self) -> list[int]:
        return [int(line) for line in self._path.read_text().split()] if self._path.exists() else []

    def restart(self) -> int:
        """Where another consumer of its group begins."""
        with confluent(self._broker, self.topic, self.topic) as consumer:
            message = None
            while message is None:
                message = consumer.poll(WAIT_SECONDS)
            assert message.error() is None, message.error()
            return int(message.offset() or 0)


@contextmanager
def doomed_at(broker: BrokerProcess, mode: str, path: Path) -> Iterator[Doomed]:
    """The group has committed the first offset of the poll to come, and the poll finds nothing beyond its last one."""
    topic = f"scenario-14-{uuid4()}"
    create_topic(broker, topic, 1)
    produce(broker, topic, NEXT)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    start = ConsumerGroupTopicPartitions(topic, [Partition(topic, 0, FIRST)])
    (altered,) = admin.alter_consumer_group_offsets([start]).values()
    altered.result(WAIT_SECONDS)
    doomed = Doomed(broker, topic, mode, path)
    try:
        doomed.expect(f"polled {FIRST} {LAST} {NEXT - FIRST}")
        yield doomed
    finally:
        doomed.die()


def test_scenario_14_what_was_committed_before_it_was_processed_is_lost(broker: BrokerProcess, tmp_path: Path) -> None:
    with doomed_at(broker, "auto soon", tmp_path / "processed") as doomed:
        doomed.go_on()
        wait_until(lambda: committed(broker, doomed.topic) == NEXT)
    produce(broker, doomed.topic, 5)
    assert doomed.processed() == []
    assert doomed.restart() == NEXT


def test_scenario_14_what_was_processed_before_it_was_committed_is_repeated(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with doomed_at(broker, "auto late", tmp_path / "processed") as doomed:
        doomed.go_on()
        doomed.expect("processed")
    assert doomed.processed() == list(range(FIRST, NEXT))
    assert doomed.restart() == FIRST


@pytest.mark.parametrize(
    ("steps", "restart"), [([], FIRST), (["processed"], FIRST), (["processed", "committed"], NEXT)]
)
def test_scenario_14_a_commit_after_processing_loses_nothing(
    broker: BrokerProcess, tmp_path: Path, steps: list[str], restart: int
) -> None:
    with doomed_at(broker, "manual", tmp_path / "processed") as doomed:
        for step in steps:
            doomed.go_on()
            doomed.expect(step)
    produce(broker, doomed.topic, 5)
    assert doomed.restart() == restart
    assert doomed.processed() == (list(range(FIRST, NEXT)) if steps else [])


def test_scenario_15_a_member_that_polls_too_rarely_leaves_and_its_commit_fails(broker: BrokerProcess) -> None:
    group = "scenario-15"
    create_topic(broker, group, 1, 3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def state() -> Any:
        (described,) = admin.describe_consumer_groups([group]).values()
        return described.result(WAIT_SECONDS).state

    # The session must not end first, by heartbeats that a busy machine delays.
    timeouts = {"max_poll_interval_ms": 3_000, "session_timeout_ms": 3_000, "heartbeat_interval_ms": 100}
    with confluent(broker, group, group, **timeouts) as consumer:
        message = consumer.poll(WAIT_SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
        assert state() == ConsumerGroupState.STABLE
        # librdkafka's own thread sends heartbeats all the while.
        wait_until(lambda: bool(state() == ConsumerGroupState.EMPTY))
        with pytest.raises(KafkaException) as refusal:
            consumer.commit(message=message, asynchronous=False)
        assert refusal.value.args[0].code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
        late = consumer.poll(WAIT_SECONDS)
        assert late is not None
        error = late.error()
        assert error is not None
        assert error.code() == KafkaError._MAX_POLL_EXCEEDED
    wait_until(lambda: f"group='{group}' generation=1 reason='1 members left'" in broker.log)


@pytest.mark.parametrize("groups", ["same", "different", "random"])
def test_scenario_16_a_record_goes_to_one_member_of_each_group(broker: BrokerProcess, groups: str) -> None:
    topic = f"scenario-16-{groups}"
    names = {
        "same": [topic, topic],
        "different": [f"{topic}-one", f"{topic}-other"],
        "random": [str(uuid4()), str(uuid4())],
    }[groups]
    create_topic(broker, topic, 4)
    with ExitStack() as stack:
        consumers = [stack.enter_context(confluent(broker, topic, name, heartbeat_interval_ms=100)) for name in names]
        if groups == "same":
            wait_until(lambda: have_two_partitions_each(*consumers))
        else:
            wait_until(lambda: [len(one.assignment()) for one in consumers if one.poll(0.05) is None] == [4, 4])
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(40):
            producer.produce(topic, b"%d" % number, partition=number % 4)
        assert producer.flush(WAIT_SECONDS) == 0
        received: list[list[bytes]] = [[], []]

        def poll() -> int:
            for consumer, values in zip(consumers, received):
                values += [message.value() or b"" for message in consumer.consume(100, 0.1)]
            return sum(map(len, received))

        wait_until(lambda: poll() >= (40 if groups == "same" else 80))
    sent = sorted(b"%d" % number for number in range(40))
    if groups == "same":
        assert sorted(received[0] + received[1]) == sent
        assert [len(values) for values in received] == [20, 20]
    else:
        assert [sorted(values) for values in received] == [sent, sent]
