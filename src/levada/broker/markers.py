"""Ends transactions in the partitions they wrote to, as their coordinators have decided."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from levada.broker.partition import Partition
from levada.coordination.decision import EndOfTransaction, Record
from levada.model.errors import ApiError, KafkaStorageError
from levada.model.topics import CONSUMER_OFFSETS
from levada.protocol.declare import NO_UUID
from levada.storage.marker_writes import NO_GROUP
from levada.storage.producers import TransactionEnd
from levada.transactions import Marker, MarkerWork

if TYPE_CHECKING:
    from levada.broker.broker import Broker

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
MARKERS_AT_ONCE = 500
"""Written before others get a turn of the loop."""


async def write_markers(
    broker: "Broker", topic: str, index: int, ends: Sequence[TransactionEnd], group: bytes = NO_GROUP
) -> Sequence[ApiError | None]:
    """Append markers to a partition that is led here, in one write; ApiError if it cannot be.

    For each, why it was refused: a later producer or coordinator has ended the transaction, and others do not suffer.
    """
    partition = broker.partition(topic, NO_UUID, index)
    appended = partition.append_markers(ends, group, broker.clock.now_ms())
    shard = broker.groups.shard_at(index) if topic == CONSUMER_OFFSETS else None
    if shard is not None:
        for end, refusal in zip(ends, appended.refused):
            if refusal is None:
                shard.follow(Record(EndOfTransaction(end.producer_id, end.is_commit), None))
    if appended.is_flush_due:
        # A coordinator that forgets the transaction must not be ahead of the partitions that it was about.
        await _flush(broker, partition)
    return appended.refused


async def _flush(broker: "Broker", partition: Partition) -> None:
    """Also one that is late for want of a file descriptor: what is written must not be written again for that."""
    while True:
        try:
            return await broker.flushing.flush(partition.log)
        except KafkaStorageError:
            if partition.log.is_offline:
                raise
        await asyncio.sleep(RETRY_SECONDS)


class MarkerSender:
    """Brings decided transactions to their end, however long partitions cannot be written to."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def send(
        self, work: MarkerWork, coordinator_epoch: int, complete: Callable[[Sequence[Marker]], None]
    ) -> None:
        left = dict(work.by_partition())
        waiting = {marker.transactional_id: len(marker.partitions) for marker in work.markers}
        complete([marker for marker in work.markers if not marker.partitions])
        written = 0
        while left:
            for (topic, index), markers in list(left.items()):
                written += len(markers)
                if written > MARKERS_AT_ONCE:
                    written = 0
                    await asyncio.sleep(0)
                if not await self._write(topic, index, markers, coordinator_epoch, work.group):
                    continue
                del left[topic, index]
                for marker in markers:
                    waiting[marker.transactional_id] -= 1
                complete([marker for marker in markers if not waiting[marker.transactional_id]])
            if left:
                await asyncio.sleep(RETRY_SECONDS)

    async def _write(
        self, topic: str, index: int, markers: Sequence[Marker], coordinator_epoch: int, group: bytes
    ) -> bool:
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
            refused = await write_markers(self._broker, topic, index, ends, group)
        except ApiError as error:
            if topic not in self._broker.image.topics:
                # It was deleted, and its part of the transaction with it.
                return True
            logger.info("marker waits partition=%s-%d reason=%r", topic, index, str(error))
            return False
        for refusal in refused:
            if refusal is not None:
                logger.warning("marker refused partition=%s-%d reason=%r", topic, index, str(refusal))
        return True
