"""A broker that is allowed few open files, and more clients than that: it turns them away, and loses nothing."""

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch, iter_batches
from levada.sim.requests.topics import records_of
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess, sound

TOPIC, PARTITIONS = "crowded", 8
OPEN_FILES = 256
FLOOD = 700
WAVES = 4


@pytest.fixture(autouse=True)
def many_files_of_our_own() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def flood(port: int) -> Iterator[None]:
    """As many connections as the machine lets one have, from which nothing comes."""
    held: list[socket.socket] = []
    try:
        for _ in range(FLOOD):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            held.append(one)
        yield
    finally:
        for one in held:
            one.close()


async def connect(broker: BrokerProcess) -> Channel:
    return await Channel.connect(RealNet(), "localhost", broker.port)


async def admitted(broker: BrokerProcess) -> Channel:
    """Once the broker has seen that the crowd is gone."""
    while True:
        channel = await connect(broker)
        try:
            await channel.call(ApiVersionsRequest(), 0)
            return channel
        except ChannelClosed:
            channel.close()
            await asyncio.sleep(0.05)


async def create(channel: Channel) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
    # Small segments, so that files are opened all the while.
    wanted = {"flush.messages": "1", "segment.bytes": "1048576", "segment.ms": "100"}
    topic.configs = [CreatableTopicConfig(name=name, value=value) for name, value in wanted.items()]
    response = await channel.call(CreateTopicsRequest(topics=[topic]), 7)
    assert response.topics[0].error_code == ErrorCode.NONE, response


async def produce(channel: Channel, partition: int, at_ms: int) -> tuple[int, int]:
    data = PartitionProduceData(index=partition, records=build_batch([(at_ms, None, b"v", ())]))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    response = await channel.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), 9)
    answer = response.responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


async def write(channel: Channel, acknowledged: dict[int, list[int]], stop: asyncio.Event) -> None:
    """Until it is told to stop; every record is older than a segment may be when the next one comes."""
    at_ms = 1_700_000_000_000
    while not stop.is_set():
        for partition, offsets in acknowledged.items():
            at_ms += 150
            code, offset = await produce(channel, partition, at_ms)
            assert code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR), ErrorCode(code)
            if code == ErrorCode.NONE:
                offsets.append(offset)


async def offsets_in(channel: Channel, partition: int) -> list[int]:
    found: list[int] = []
    while True:
        position = found[-1] + 1 if found else 0
        wanted = FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])
        answer = (await channel.call(request, 12)).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        new = [one.offset for batch in iter_batches(records_of(answer)) for one in batch.records()]
        found += new
        if not new:
            return found


def test_more_clients_than_files_are_turned_away_and_nothing_goes_offline(tmp_path: Path) -> None:
    async def main(broker: BrokerProcess) -> None:
        channel = await connect(broker)
        await create(channel)
        acknowledged: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        stop = asyncio.Event()
        writing = asyncio.ensure_future(write(channel, acknowledged, stop))
        for _ in range(WAVES):
            with flood(broker.port):
                before = sum(map(len, acknowledged.values()))
                # It goes on: whatever the crowd takes, it leaves enough for the logs.
                while sum(map(len, acknowledged.values())) < before + 5 * PARTITIONS and not writing.done():
                    await asyncio.sleep(0.01)
        stop.set()
        await writing
        channel.close()
        channel = await admitted(broker)
        for partition, offsets in acknowledged.items():
            assert (await produce(channel, partition, 1_700_000_000_000))[0] == ErrorCode.NONE
            assert set(offsets) <= set(await offsets_in(channel, partition))
        channel.close()

    with sound(BrokerProcess(tmp_path / "data", open_files=OPEN_FILES)) as broker:
        asyncio.run(asyncio.wait_for(main(broker), 120))
        assert "offline" not in broker.log
        # One line for a crowd, not one for each of it.
        assert 1 <= broker.log.count("too many connections") <= 2 * WAVES
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
