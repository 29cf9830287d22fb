"""A producer on raw requests that repeats each batch, with its sequence, until it is acknowledged."""

import asyncio
from collections.abc import Callable

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.sim.checkers import PartitionHistory
from levada.sim.requests.connections import RETRY_SECONDS, Connector

LOST_STATE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)


class IdempotentProducer:
    """Sends one batch at a time to a partition."""

    def __init__(self, connector: Connector, clock_ms: Callable[[], int], topic: str, partition: int) -> None:
        self._connector = connector
        self._clock_ms = clock_ms
        self._topic = topic
        self._partition = partition
        self._next_sequence = 0
        self.producer_id = -1
        self.producer_ids: list[int] = []

    async def send(self, values: list[bytes], history: PartitionHistory) -> None:
        for value in values:
            history.send(value)
        while True:
            if self.producer_id < 0:
                await self._begin()
            if self.producer_id < 0:
                # Without an id it would be no idempotent producer.
                await asyncio.sleep(RETRY_SECONDS)
                continue
            code, base_offset = await self._produce(values)
            if code == ErrorCode.NONE:
                for number, value in enumerate(values):
                    history.acknowledge(base_offset + number, value)
                self._next_sequence += len(values)
                return
            if code in LOST_STATE:
                # The broker lost its end and our last sequences with it: what we repeat was lost as well.
                self.producer_id = -1
            await asyncio.sleep(RETRY_SECONDS)

    async def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await self._connector.call(request, 4)
        if response.error_code == ErrorCode.NONE:
            self.producer_id = response.producer_id
            self.producer_ids.append(self.producer_id)
            self._next_sequence = 0

    async def _produce(self, values: list[bytes]) -> tuple[int, int]:
        batch = build_batch(
            [(self._clock_ms(), None, value, ()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self._next_sequence,
        )
        data = PartitionProduceData(index=self._partition, records=batch)
        topic = TopicProduceData(name=self._topic, partition_data=[data])
        response = await self._connector.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
        partition = response.responses[0].partition_responses[0]
        return partition.error_code, partition.base_offset
