"""One record batch in one request: how many records a real client puts into a batch depends on the machine."""

import asyncio
from collections.abc import Sequence

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess

WAIT_SECONDS = 20
FIRST_MS = 1_700_000_000_000


def produce_one_batch(broker: BrokerProcess, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
    asyncio.run(asyncio.wait_for(_produce(broker.port, topic, values, partition), WAIT_SECONDS))


async def _produce(port: int, topic: str, values: Sequence[bytes], partition: int) -> None:
    batch = build_batch([(FIRST_MS, None, value, ()) for value in values])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    channel = await Channel.connect(RealNet(), "localhost", port)
    try:
        response = await channel.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 9)
    finally:
        channel.close()
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE, response
