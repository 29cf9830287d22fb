"""What readers meet where records were: real clients at offsets that retention or compaction has taken away."""

import asyncio
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import OffsetOutOfRangeError as AioOutOfRange
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import OffsetOutOfRangeError as KafkaPythonOutOfRange

from levada import Admin, Consumer, Producer
from levada.client.admin import ConfigResource, NewTopic
from levada.client.errors import OffsetOutOfRange
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.headers import decode_response_header, encode_request_header
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from levada.records import iter_batches
from tests.brokers import BrokerProcess, sound
from tests.cleaning import is_clean
from tests.tools.stages import wait_until

WAIT_SECONDS = 15
LAST_FETCH_BY_NAME = 12
DELETED = 10
"""An offset that retention has taken from every log here."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = ("log.retention.check.interval.ms=100", "log.cleaner.backoff.ms=100")
    with sound(BrokerProcess(tmp_path_factory.mktemp("ranges") / "data", *settings)) as process:
        yield process


def create(broker: BrokerProcess, topic: str, **configs: str) -> None:
    wanted = {"internal.segment.bytes": "4000", "file.delete.delay.ms": "0"}
    wanted.update({name.replace("_", "."): value for name, value in configs.items()})
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, configs=wanted)]).raise_any()


def alter(broker: BrokerProcess, topic: str, **configs: str) -> None:
    changes = {name.replace("_", "."): value for name, value in configs.items()}
    with Admin(broker.bootstrap) as admin:
        admin.incremental_alter_configs({ConfigResource.topic(topic): changes}).raise_any()


def fill(broker: BrokerProcess, topic: str, count: int, size: int = 300, keys: int = 7) -> None:
    """Batches of one record each."""
    with Producer(broker.bootstrap, linger_ms=0) as producer:
        for number in range(count):
            value = b"%d." % number + bytes(size)
            producer.send(topic, value, key=b"key-%d" % (number % keys), partition=0).result(WAIT_SECONDS)


def files(broker: BrokerProcess, topic: str, pattern: str) -> list[Path]:
    return sorted((broker.data_directory / f"{topic}-0").glob(pattern))


def ends(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    partition = TopicPartition(topic, 0)
    with Consumer(broker.bootstrap) as consumer:
        return consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]


def test_retired_files_lie_there_for_their_delay_and_then_go(broker: BrokerProcess) -> None:
    create(broker, "delayed", file_delete_delay_ms="1500")
    fill(broker, "delayed", 40)
    before = files(broker, "delayed", "*.log")
    assert len(before) > 2
    alter(broker, "delayed", retention_bytes="0")
    wait_until(lambda: len(files(broker, "delayed", "*.log.deleted")) == len(before))
    seen = time.monotonic()
    assert ends(broker, "delayed") == (40, 40)
    assert [path.name for path in files(broker, "delayed", "*.log")] == [f"{40:020d}.log"]
    wait_until(lambda: not files(broker, "delayed", "*.deleted"))
    assert time.monotonic() - seen > 1.2
    reasons = re.findall(r"retired segment log=\S+delayed-0 base_offset=(\d+) .* reason='(.*)'", broker.log)
    assert reasons == [(str(int(path.stem)), "retention size 0 bytes breached") for path in before]


class SlowReader:
    """Asks for a lot and takes it when it likes."""

    def __init__(self, broker: BrokerProcess, topic: str, offset: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.settimeout(WAIT_SECONDS)
        self._socket.connect(("localhost", broker.port))
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 30)
        wanted = FetchTopic(topic=topic, topic_id=bytes(16), partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=[wanted])
        frame = encode_request_header(ApiKey.FETCH, LAST_FETCH_BY_NAME, 1, "slow")
        frame += encode_bytes(request, LAST_FETCH_BY_NAME)
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        self.size = int.from_bytes(self._read(4), "big")

    def finish(self) -> FetchResponse:
        frame = self._read(self.size)
        _, position = decode_response_header(frame, has_tags=True)
        return decode_prefix(FetchResponse, LAST_FETCH_BY_NAME, frame, position)[0]

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the broker has hung up"
            data += part
        return bytes(data)


def test_a_fetch_in_the_middle_of_a_segment_that_is_deleted_finishes(broker: BrokerProcess) -> None:
    create(broker, "held", internal_segment_bytes=str(64 << 20))
    fill(broker, "held", 24, size=900_000)
    with closing(SlowReader(broker, "held", 0)) as reader:
        assert reader.size > 20_000_000, "more than the sockets between can hold"
        alter(broker, "held", retention_bytes="0")
        wait_until(lambda: [path.name for path in files(broker, "held", "*.log*")] == [f"{24:020d}.log"])
        [answer] = reader.finish().responses[0].partitions
    assert answer.error_code == ErrorCode.NONE
    assert isinstance(answer.records, bytes | bytearray | memoryview)
    found = []
    for batch in iter_batches(answer.records):
        batch.validate()
        found += [(record.offset, record.value) for record in batch.records()]
    assert found == [(number, b"%d." % number + bytes(900_000)) for number in range(24)]


# Clients. Each reads from an offset on, and gives the offset of the first record that it gets.


def ours(broker: BrokerProcess, topic: str, offset: int, policy: str, idle: Callable[[], None]) -> int:
    partition = TopicPartition(topic, 0)
    with Consumer(broker.bootstrap, auto_offset_reset=policy) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        while not (records := list(consumer.poll(0.2))):
            idle()
        return records[0].offset


def librdkafka(broker: BrokerProcess, topic: str, offset: int, policy: str, idle: Callable[[], None]) -> int:
    given = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
    with closing(LibrdkafkaConsumer({**given, "auto.offset.reset": policy})) as consumer:
        consumer.assign([LibrdkafkaPartition(topic, 0, offset)])
        while (message := consumer.poll(0.2)) is None:
            idle()
        error = message.error()
        if error is not None and error.code() == LibrdkafkaError._AUTO_OFFSET_RESET:
            raise OffsetOutOfRange(error.str())
        assert error is None, error
        found = message.offset()
        assert found is not None
        return found


def kafka_python(broker: BrokerProcess, topic: str, offset: int, policy: str, idle: Callable[[], None]) -> int:
    partition = KafkaPythonPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset=policy)) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        while not (records := consumer.poll(200)):
            idle()
        found: int = records[partition][0].offset
        return found


def aiokafka(broker: BrokerProcess, topic: str, offset: int, policy: str, idle: Callable[[], None]) -> int:
    partition = AioPartition(topic, 0)

    async def main() -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset=policy)
        await consumer.start()
        try:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            while not (records := await consumer.getmany(partition, timeout_ms=200)):
                await asyncio.to_thread(idle)
            found: int = records[partition][0].offset
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(main(), WAIT_SECONDS))


CLIENTS = {"ours": ours, "confluent-kafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}


def wait_a_while() -> Callable[[], None]:
    deadline = time.monotonic() + WAIT_SECONDS

    def idle() -> None:
        assert time.monotonic() < deadline, "no record has come"

    return idle


@pytest.fixture(scope="module")
def shortened(broker: BrokerProcess) -> str:
    """A topic whose beginning retention has taken."""
    create(broker, "shortened")
    fill(broker, "shortened", 60)
    alter(broker, "shortened", retention_bytes="8000")
    wait_until(lambda: ends(broker, "shortened")[0] > DELETED)
    alter(broker, "shortened", retention_bytes="-1")
    return "shortened"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_reader_of_what_is_deleted_begins_at_the_start_if_it_wants_the_earliest(
    broker: BrokerProcess, shortened: str, client: str
) -> None:
    start, _ = ends(broker, shortened)
    assert start > DELETED
    assert CLIENTS[client](broker, shortened, DELETED, "earliest", wait_a_while()) == start


@pytest.mark.parametrize("client", CLIENTS)
def test_a_reader_of_what_is_deleted_waits_for_what_is_new_if_it_wants_the_latest(
    broker: BrokerProcess, shortened: str, client: str
) -> None:
    _, end = ends(broker, shortened)
    wait = wait_a_while()

    def more() -> None:
        """Until the reader has come to the end, and sees one come."""
        wait()
        fill(broker, shortened, 1)

    assert CLIENTS[client](broker, shortened, DELETED, "latest", more) >= end


@pytest.mark.parametrize("client", CLIENTS)
def test_a_reader_of_what_is_deleted_is_told_so_if_it_wants_nothing_else(
    broker: BrokerProcess, shortened: str, client: str
) -> None:
    policy = "error" if client == "confluent-kafka" else "none"
    with pytest.raises((OffsetOutOfRange, KafkaPythonOutOfRange, AioOutOfRange)) as caught:
        CLIENTS[client](broker, shortened, DELETED, policy, wait_a_while())
    if isinstance(caught.value, OffsetOutOfRange) and client == "ours":
        assert caught.value.offsets == {TopicPartition(shortened, 0): DELETED}


def test_the_broker_says_where_the_log_begins_to_readers_who_ask_for_less(
    broker: BrokerProcess, shortened: str
) -> None:
    start, _ = ends(broker, shortened)
    for offset, code in ((start - 1, ErrorCode.OFFSET_OUT_OF_RANGE), (start, ErrorCode.NONE)):
        with closing(SlowReader(broker, shortened, offset)) as reader:
            [answer] = reader.finish().responses[0].partitions
        assert answer.error_code == code


@pytest.fixture(scope="module")
def holed(broker: BrokerProcess) -> tuple[str, int, int]:
    """A compacted topic, an offset of it that is gone, and the next that is there."""
    create(broker, "holed", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    fill(broker, "holed", 60)
    wait_until(lambda: is_clean(broker.data_directory, "holed"))
    partition = TopicPartition("holed", 0)
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        following = next(record.offset for record in consumer.poll(5.0))
    assert following > 1, "the first offset is gone"
    return "holed", following - 1, following


@pytest.mark.parametrize("client", CLIENTS)
def test_a_reader_of_what_was_compacted_away_gets_the_next(
    broker: BrokerProcess, holed: tuple[str, int, int], client: str
) -> None:
    topic, gone, following = holed
    policy = "error" if client == "confluent-kafka" else "none"
    assert CLIENTS[client](broker, topic, gone, policy, wait_a_while()) == following
    assert CLIENTS[client](broker, topic, 0, policy, wait_a_while()) == following
