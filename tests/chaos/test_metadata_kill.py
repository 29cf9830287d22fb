"""SIGKILL in a storm of creates, deletes, partition and config changes: metadata and disk agree after each."""

import asyncio
import os
import random
import re
from pathlib import Path

from penstock.net.channel import Channel
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import build_batch
from penstock.sim.storm import Known, Storm, Topic, described
from penstock.world.real_net import RealNet
from tests.brokers import BrokerProcess

KILLS = 100 if os.environ.get("PENSTOCK_SOAK") == "1" else 10
CLIENTS, TOPICS_EACH = 3, 4


async def produce_everywhere(channel: Channel, topics: dict[str, Topic]) -> None:
    """Each partition that is shown takes a record."""
    for name, topic in topics.items():
        data = [PartitionProduceData(index=index, records=batch()) for index in range(topic.partitions)]
        request = ProduceRequest(
            acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name=name, partition_data=data)]
        )
        response = await channel.call(request, 12)
        assert [one.error_code for one in response.responses[0].partition_responses] == [0] * topic.partitions


def batch() -> bytes:
    return build_batch([(1_700_000_000_000, None, b"v", ())])


def partitions_on_disk(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if re.fullmatch(r".+-\d+", path.name) and path.is_dir()}


async def check(broker: BrokerProcess, clients: list[Known]) -> None:
    """What is shown is what was acknowledged, or what was asked for last; the disk has just that."""
    channel = await Channel.connect(RealNet(), "localhost", broker.port)
    try:
        shown = await described(channel)
        for known in clients:
            known.settle(shown)
        assert set(shown) <= {name for known in clients for name in known.topics}
        expected = {f"{name}-{index}" for name, topic in shown.items() for index in range(topic.partitions)}
        assert partitions_on_disk(broker.data_directory) == expected
        await produce_everywhere(channel, shown)
    finally:
        channel.close()


async def storm(broker: BrokerProcess, clients: list[Known], chance: random.Random) -> None:
    """Changes from several clients, and a kill when some more of them were acknowledged."""
    tasks = []
    for known in clients:
        channel = await Channel.connect(RealNet(), "localhost", broker.port)
        tasks.append(asyncio.ensure_future(Storm(random.Random(chance.random()), known).run(channel)))
    wanted = sum(known.acknowledged for known in clients) + chance.randint(3, 60)
    while sum(known.acknowledged for known in clients) < wanted and not any(task.done() for task in tasks):
        await asyncio.sleep(0.001)
    broker.kill()
    await asyncio.gather(*tasks)


def test_metadata_and_disk_agree_after_every_kill(tmp_path: Path) -> None:
    chance = random.Random(1)
    settings = ("log.segment.delete.delay.ms=1000", "metadata.log.max.record.bytes.between.snapshots=20000")
    broker = BrokerProcess(tmp_path / "data", *settings).start()
    clients = [Known({f"storm-{number}-{one}": None for one in range(TOPICS_EACH)}) for number in range(CLIENTS)]
    try:
        for _ in range(KILLS):
            asyncio.run(storm(broker, clients, chance))
            broker.start()
            asyncio.run(check(broker, clients))
        assert "Traceback" not in broker.log, broker.log
        assert broker.stop() == 0
    finally:
        broker.kill()
