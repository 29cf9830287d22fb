"""What producers do between commands about transactions: open, committed, and such that hang."""

import asyncio

from levada import Admin, Producer
from levada.client.admin import ConfigKind, ConfigResource
from levada.net.channel import Channel
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.world.real_net import RealNet
from tests.tools.group_acts import START_MS
from tests.tools.scenario import Act, Stage
from tests.tools.stages import wait_until

VERIFICATION = "transaction.partition.verification.enable"
ALL_BROKERS = ConfigResource(ConfigKind.BROKER, "")
UNVERIFIED_VERSION = 11
"""The last of Produce with which the coordinator need not know of the partition."""


def transaction(transactional_id: str, topic: str, *partitions: int, then: str = "") -> Act:
    """A producer that writes a record to each partition, and stays; `then` is commit, abort or nothing."""

    def do(stage: Stage) -> None:
        if not then:
            # After the producer is closed: on Apache's broker its transaction would be there in the next scenario.
            stage.open.callback(fence, stage.bootstrap, transactional_id)
        producer = stage.open.enter_context(Producer(stage.bootstrap, transactional_id=transactional_id))
        producer.init_transactions()
        producer.begin_transaction()
        for partition in partitions:
            producer.send(topic, b"in a transaction", partition=partition, timestamp_ms=START_MS)
        producer.flush()
        if then == "commit":
            producer.commit_transaction()
        elif then == "abort":
            producer.abort_transaction()

    return Act(do)


def fence(bootstrap: str, transactional_id: str) -> None:
    with Admin(bootstrap) as admin:
        admin.fence_producers([transactional_id]).raise_any()


def hanging_transaction(topic: str, partition: int, producer_id: int) -> Act:
    """A record of a transaction that no coordinator knows of: what older clients could do by mistake (KIP-890)."""

    async def produce(port: int) -> int:
        record = (START_MS, None, b"this is left open", ())
        batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id="forgotten",
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        channel = await Channel.connect(RealNet(), "localhost", port)
        try:
            response = await channel.call(request, UNVERIFIED_VERSION)
        finally:
            channel.close()
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    def do(stage: Stage) -> None:
        port = int(stage.bootstrap.rpartition(":")[2])
        with Admin(stage.bootstrap) as admin:
            admin.incremental_alter_configs({ALL_BROKERS: {VERIFICATION: "false"}}).raise_any()
            # Apache's broker takes a moment to heed it.
            wait_until(lambda: asyncio.run(produce(port)) == 0)
            admin.incremental_alter_configs({ALL_BROKERS: {VERIFICATION: None}}).raise_any()

    return Act(do)
