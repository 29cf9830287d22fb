"""Ends transactions in the partitions they wrote to, as their coordinators have decided."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from levada.broker.broker import Broker
from levada.coordination.decision import EndOfTransaction, Record
from levada.model.errors import ErrorCode, KafkaError
from levada.model.topics import CONSUMER_OFFSETS
from levada.storage.producers import TransactionEnd
from levada.transactions import Marker, MarkerWork

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
FRUITLESS = frozenset(
    (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_TXN_STATE)
)
"""A later producer or coordinator has been there: the transaction is ended, and not by this marker."""


async def write_markers(broker: Broker, topic: str, index: int, ends: Sequence[TransactionEnd]) -> None:
    """Append markers to a partition that is led here, in one write; KafkaError if it cannot be."""
    partition = broker.partition(topic, bytes(16), index)
    is_flush_due = partition.append_markers(ends, broker.clock.now_ms())
    shard = broker.groups.shard_at(index) if topic == CONSUMER_OFFSETS else None
    if shard is not None:
        for end in ends:
            shard.follow(Record(EndOfTransaction(end.producer_id, end.is_commit), None))
    if is_flush_due:
        # A coordinator that forgets the transaction must not be ahead of the partitions that it was about.
        await broker.flushing.flush(partition.log)


class MarkerSender:
    """Brings decided transactions to their end, however long partitions cannot be written to."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def send(
        self, work: MarkerWork, coordinator_epoch: int, complete: Callable[[Sequence[Marker]], None]
    ) -> None:
        left = dict(work.by_partition())
        waiting = {marker.transactional_id: len(marker.partitions) for marker in work.markers}
        complete([marker for marker in work.markers if not marker.partitions])
        while left:
            for (topic, index), markers in list(left.items()):
                if not await self._write(topic, index, markers, coordinator_epoch):
                    continue
                del left[topic, index]
                for marker in markers:
                    waiting[marker.transactional_id] -= 1
                complete([marker for marker in markers if not waiting[marker.transactional_id]])
            if left:
                await asyncio.sleep(RETRY_SECONDS)

    async def _write(self, topic: str, index: int, markers: Sequence[Marker], coordinator_epoch: int) -> bool:
        """Whether nothing is left to do for a partition."""
        ends = [
            TransactionEnd(
                marker.producer_id,
                marker.producer_epoch,
                marker.is_commit,
                coordinator_epoch,
                marker.transaction_version,
            )
            for marker in markers
        ]
        try:
            await write_markers(self._broker, topic, index, ends)
        except KafkaError as error:
            if topic not in self._broker.image.topics:
                # It was deleted, and its part of the transaction with it.
                return True
            if error.code in FRUITLESS:
                logger.warning("marker refused partition=%s-%d reason=%r", topic, index, str(error))
                return True
            logger.info("marker waits partition=%s-%d reason=%r", topic, index, str(error))
            return False
        return True
