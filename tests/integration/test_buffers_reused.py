"""Memory that is used again under real load: whatever is acknowledged, read or kept is right byte for byte."""

import asyncio
import os
import random
import signal
import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Any, cast

import pytest

from levada import aio
from levada.client.errors import KafkaError
from levada.client.producer import Handle, Producer
from levada.protocol.api import ApiKey
from levada.protocol.codec import decode, encode_bytes
from levada.protocol.headers import decode_response_header, encode_request_header
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from levada.records import BatchView, extents
from levada.world.real import run
from tests.brokers import BrokerProcess
from tests.clients.cases import reader, topic_of
from tests.clients.producer_cases import read_all

FETCH_VERSION = 12
MIB = 1 << 20
PARTITIONS = 8
PAUSES = 3
WAIT_SECONDS = 40


def checked(number: int, size: int) -> bytes:
    """A value that says whether it is right: its own number and checksum come first."""
    body = number.to_bytes(8, "big") + random.Random(number).randbytes(size)
    return zlib.crc32(body).to_bytes(4, "big") + body


def number_of(value: bytes | None) -> int:
    assert value is not None
    assert zlib.crc32(value[4:]) == int.from_bytes(value[:4], "big"), "other bytes than were sent"
    return int.from_bytes(value[4:12], "big")


@pytest.fixture(scope="module")
def filled_topic(broker: BrokerProcess) -> str:
    topic = topic_of(broker.bootstrap, "filled", PARTITIONS)

    async def main() -> None:
        async with Producer(broker.bootstrap, batch_size=200_000) as producer:
            for number in range(800):
                await producer.send(topic, checked(number, 10_000), partition=number % PARTITIONS)

    run(main())
    return topic


@pytest.fixture
def resumed(own_broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """A broker that a test may stop; it goes on afterwards, however the test ends."""
    yield own_broker
    os.kill(own_broker.pid, signal.SIGCONT)


# A producer


async def send_through_pauses(broker: BrokerProcess, topic: str, **options: Any) -> tuple[set[int], int]:
    """The numbers that were acknowledged, and how many were not."""
    chance = random.Random(7)
    handles: dict[int, Handle] = {}
    async with Producer(
        broker.bootstrap,
        batch_size=120_000,
        buffer_memory=3 * MIB,
        # Sent late and into a small buffer, so that some expire while most of their bytes still wait in a transport.
        linger_ms=100,
        send_buffer_bytes=65_536,
        request_timeout_ms=290,
        retry_backoff_ms=20,
        reconnect_backoff_ms=10,
        max_block_ms=WAIT_SECONDS * 1_000,
        **options,
    ) as producer:

        async def send(count: int) -> None:
            for _ in range(count):
                number = len(handles)
                size = chance.choice((100, 20_000, 60_000, 100_000, 300_000))
                handles[number] = await producer.send(topic, checked(number, size), partition=number % PARTITIONS)

        await send(100)
        for _ in range(PAUSES):
            os.kill(broker.pid, signal.SIGSTOP)
            waking = asyncio.get_running_loop().call_later(0.7, os.kill, broker.pid, signal.SIGCONT)
            # More than fits its memory: it waits here until requests are answered, or batches expire.
            await send(100)
            waking.cancel()
            os.kill(broker.pid, signal.SIGCONT)
        done = await asyncio.gather(*handles.values(), return_exceptions=True)
        assert producer.metrics()["buffer-available-bytes"] == 3 * MIB
        assert producer.metrics()["record-retry-total"] > 0
    assert all(isinstance(each, KafkaError) for each in done if isinstance(each, BaseException))
    good = {number for number, each in zip(handles, done) if not isinstance(each, BaseException)}
    return good, len(handles) - len(good)


@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("delivery_timeout_ms", [400, 60_000])
def test_what_is_acknowledged_is_there_as_it_was_sent(
    resumed: BrokerProcess, is_idempotent: bool, delivery_timeout_ms: int
) -> None:
    topic = topic_of(resumed.bootstrap, "paused", PARTITIONS)
    options = {"enable_idempotence": is_idempotent, "delivery_timeout_ms": delivery_timeout_ms}
    acknowledged, failed = run(send_through_pauses(resumed, topic, **options))
    assert len(acknowledged) > 100
    assert (failed > 0) == (delivery_timeout_ms == 400)
    records = run(read_all(resumed.bootstrap, topic))
    found = [number_of(record.value) for record in records]
    assert acknowledged <= set(found)
    assert all(number % PARTITIONS == record.partition for number, record in zip(found, records))
    if is_idempotent:
        assert len(found) == len(set(found))
    assert "Traceback" not in resumed.log


# A broker


def sip_answers(
    port: int, topic: str, seed: int, everybody_asked: threading.Barrier, faults: list[BaseException]
) -> None:
    """Several large answers, read so late and slowly that much of them waits in the broker."""
    chance = random.Random(seed)
    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
            client.settimeout(WAIT_SECONDS)
            client.connect(("localhost", port))
            wanted = [(seed + turn) % PARTITIONS for turn in range(PARTITIONS)]
            for partition in wanted:
                client.sendall(fetch_frame(topic, partition, chance.randrange(20)))
            everybody_asked.wait(WAIT_SECONDS)
            for partition in wanted:
                size = int.from_bytes(sip(client, 4, chance), "big")
                check_answer(sip(client, size, chance), partition)
    except BaseException as fault:
        faults.append(fault)


def fetch_frame(topic: str, partition: int, offset: int) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=MIB)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=MIB, topics=topics)
    header = encode_request_header(ApiKey.FETCH, FETCH_VERSION, partition, "sips")
    frame = header + encode_bytes(request, FETCH_VERSION)
    return len(frame).to_bytes(4, "big") + frame


def sip(client: socket.socket, size: int, chance: random.Random) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = client.recv(min(size - len(data), chance.randrange(1, 5_000)))
        assert received, "the broker has closed the connection"
        data += received
    return bytes(data)


def check_answer(frame: bytes, partition: int) -> None:
    correlation_id, start = decode_response_header(frame, has_tags=True)
    assert correlation_id == partition
    response = decode(FetchResponse, FETCH_VERSION, frame[start:])
    data = cast(memoryview, response.responses[0].partitions[0].records)
    starts = extents(data)[1]
    assert len(data) > MIB // 2
    assert len(starts) > 2
    for at in starts[:-1]:
        batch = BatchView(data, at)
        assert batch.crc_is_valid()
        assert {number_of(record.value) % PARTITIONS for record in batch.records()} == {partition}


def test_slow_readers_at_once_get_the_bytes_that_are_theirs(broker: BrokerProcess, filled_topic: str) -> None:
    faults: list[BaseException] = []
    everybody_asked = threading.Barrier(PARTITIONS)
    threads = [
        threading.Thread(target=sip_answers, args=(broker.port, filled_topic, seed, everybody_asked, faults))
        for seed in range(PARTITIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert not faults


# A consumer


@pytest.mark.parametrize("kept_records", [100, 800])
def test_arrow_batches_that_are_kept_stay_what_they_were(
    broker: BrokerProcess, filled_topic: str, kept_records: int
) -> None:
    async def read(consumer: "aio.Consumer", numbers: list[int]) -> None:
        kept = []
        rows = 0
        while rows < 800:
            batch = await consumer.poll_arrow(1.0)
            if batch is None:
                continue
            rows += batch.num_rows
            kept.append(batch)
            if sum(each.num_rows for each in kept) > kept_records:
                numbers += numbers_in(kept.pop(0))
        for batch in kept:
            numbers += numbers_in(batch)

    async def main() -> list[int]:
        numbers: list[int] = []
        options = {"fetch_max_bytes": MIB, "max_partition_fetch_bytes": 300_000}
        async with asyncio.timeout(WAIT_SECONDS), reader(broker.bootstrap, **options) as consumer:
            consumer.assign([(filled_topic, partition) for partition in range(PARTITIONS)])
            await read(consumer, numbers)
        return numbers

    assert sorted(run(main())) == list(range(800))


def test_answers_that_are_read_a_few_records_at_a_time_stay_what_they_were(
    broker: BrokerProcess, filled_topic: str
) -> None:
    async def main() -> list[int]:
        numbers: list[int] = []
        options = {"fetch_max_bytes": MIB, "max_partition_fetch_bytes": 300_000, "max_poll_records": 3}
        async with asyncio.timeout(WAIT_SECONDS), reader(broker.bootstrap, **options) as consumer:
            consumer.assign([(filled_topic, partition) for partition in range(PARTITIONS)])
            while len(numbers) < 800:
                numbers += [number_of(record.value) for record in await consumer.poll(1.0)]
        return numbers

    assert sorted(run(main())) == list(range(800))


def numbers_in(batch: object) -> list[int]:
    columns = batch.to_pydict()  # type: ignore[attr-defined]
    numbers = [number_of(value) for value in columns["value"]]
    assert columns["partition"] == [number % PARTITIONS for number in numbers]
    assert columns["offset"] == [number // PARTITIONS for number in numbers]
    return numbers
