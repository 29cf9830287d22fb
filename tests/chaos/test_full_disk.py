"""A real disk that is full: an error to the client, nothing acknowledged lost, and on again when there is room."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch, iter_batches
from levada.sim.requests.topics import records_of
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess
from tests.logs import check_indexes
from tests.small_disks import mounted_disk

TOPIC = "full"
BALLAST_BYTES = 3 << 20
SETTINGS = ("log.segment.bytes=1048576", "log.index.interval.bytes=1024", "log.flush.offset.checkpoint.interval.ms=100")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of six megabytes, half of it taken."""
    with mounted_disk(tmp_path / "small", "6m") as path:
        (path / "ballast").write_bytes(bytes(BALLAST_BYTES))
        yield path


def talk(broker: BrokerProcess, session: Callable[[Channel], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        channel = await Channel.connect(RealNet(), "localhost", broker.port)
        try:
            return await asyncio.wait_for(session(channel), 30)
        finally:
            channel.close()

    return asyncio.run(main())


async def produce(channel: Channel, value: bytes) -> tuple[int, int]:
    data = PartitionProduceData(index=0, records=build_batch([(1_700_000_000_000, None, value, ())]))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    response = await channel.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
    partition = response.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


async def read_all(channel: Channel) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
        response = await channel.call(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics), 12)
        partition = response.responses[0].partitions[0]
        assert partition.error_code == ErrorCode.NONE, ErrorCode(partition.error_code)
        for batch in iter_batches(records_of(partition)):
            batch.validate()
            found.update((record.offset, record.value or b"") for record in batch.records())
        if len(found) >= partition.high_watermark:
            assert list(found) == list(range(len(found)))
            return found


async def fill(channel: Channel) -> dict[int, bytes]:
    """Write until there is no room, with batches large and small; what was acknowledged is returned."""
    await channel.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
    acknowledged: dict[int, bytes] = {}
    refusals = 0
    for number in range(2_000):
        size = 50_000 if refusals < 5 else 700
        value = b"%d-" % number + bytes(size)
        code, offset = await produce(channel, value)
        if code == ErrorCode.NONE:
            assert offset not in acknowledged
            acknowledged[offset] = value
            continue
        assert code == ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode(code)
        assert offset == -1
        refusals += 1
        if refusals == 25:
            return acknowledged
    raise AssertionError("the disk never filled")


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_full_disk_refuses_writes_loses_nothing_and_goes_on(small_disk: Path, tmp_path: Path, ending: str) -> None:
    data = small_disk / "data"
    broker = BrokerProcess(data, *SETTINGS)
    broker.log_path = tmp_path / "broker.log"
    broker.start()
    try:
        acknowledged = talk(broker, fill)
        assert sum(map(len, acknowledged.values())) > 2 << 20
        assert talk(broker, read_all) == acknowledged
        if ending == "kill":
            broker.kill()
        else:
            assert broker.stop() == 0
        (small_disk / "ballast").unlink()
        broker.start()
        assert talk(broker, read_all) == acknowledged
        after = talk(broker, lambda channel: produce(channel, b"room again"))
        assert after == (ErrorCode.NONE, len(acknowledged))
        assert broker.stop() == 0
        check_indexes(data / f"{TOPIC}-0")
        broker.start()
        assert talk(broker, read_all) == {**acknowledged, len(acknowledged): b"room again"}
        assert "Traceback" not in broker.log, broker.log
    finally:
        broker.kill()


def test_room_that_returns_is_used_without_a_restart(small_disk: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(small_disk / "data", *SETTINGS)
    broker.log_path = tmp_path / "broker.log"
    broker.start()
    try:
        acknowledged = talk(broker, fill)
        (small_disk / "ballast").unlink()
        assert talk(broker, lambda channel: produce(channel, b"on")) == (ErrorCode.NONE, len(acknowledged))
        assert talk(broker, read_all) == {**acknowledged, len(acknowledged): b"on"}
        assert broker.stop() == 0
        check_indexes(small_disk / "data" / f"{TOPIC}-0")
    finally:
        broker.kill()
