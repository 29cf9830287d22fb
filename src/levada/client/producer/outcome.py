"""What becomes of a batch after an attempt: acknowledged, tried again, split, or failed for good."""

import logging
from collections.abc import Callable

from levada.client.cluster import Cluster
from levada.client.errors import KafkaError, TimedOut, error_for
from levada.client.options import Options
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.batch import Batch
from levada.client.producer.partition_queue import PartitionQueue
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.produce import PartitionProduceResponse
from levada.records.batch import NO_SEQUENCE
from levada.records.writer import BatchWriter

logger = logging.getLogger("levada.client")

LOST_SEQUENCES = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class BatchOutcomes:
    """On the client's loop. A batch has exactly one outcome, however many attempts and answers it has."""

    def __init__(
        self,
        cluster: Cluster,
        options: Options,
        accumulator: Accumulator,
        *,
        is_transactional: bool,
        on_failure: Callable[[KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._is_transactional = is_transactional
        self._on_failure = on_failure
        self._retries: int = options["retries"]
        self._counts = dict.fromkeys(("record-send-total", "record-error-total", "record-retry-total"), 0)
        self.gives_up = False
        """While a transaction is aborted or the producer is stopped, nothing is tried again."""

    def metrics(self) -> dict[str, float]:
        return dict(self._counts)

    def answered(self, queue: PartitionQueue, batch: Batch, answer: PartitionProduceResponse | None) -> None:
        if answer is None:
            self.failed(queue, batch, error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves this partition out"))
            return
        if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.acknowledged(queue, batch, answer.base_offset, answer.log_append_time_ms)
            return
        if answer.current_leader is not None and answer.current_leader.leader_id >= 0:
            leader = answer.current_leader
            self._cluster.heard_of_leader(queue.topic, queue.partition, leader.leader_id, leader.leader_epoch)
        error = error_for(answer.error_code, _message(answer), context=f"{queue.topic}-{queue.partition}")
        if error.refreshes_metadata:
            self._cluster.refresh_soon()
        if error.code in TOO_LARGE and batch.count > 1 and not batch.is_done:
            self._split(queue, batch)
            return
        self.failed(queue, batch, error)

    def acknowledged(self, queue: PartitionQueue, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        batch.is_on_wire = False
        queue.acknowledged(batch)
        self._resolve(queue, batch)
        if not batch.is_done:
            self._counts["record-send-total"] += batch.count
            batch.succeed(base_offset, log_append_time_ms)
        self._accumulator.done(batch)

    def failed(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> None:
        """An attempt came to nothing, or no broker said what it came to."""
        batch.is_on_wire = False
        if batch.is_done:
            self._resolve(queue, batch)
            return
        if not self.gives_up and batch.attempts <= self._retries and self._can_retry(queue, batch, error):
            batch.retry_at_ms = self._cluster.world.clock.monotonic_ms() + self._cluster.backoff.pause_ms(
                batch.attempts
            )
            self._counts["record-retry-total"] += batch.count
            if batch.base_sequence == NO_SEQUENCE:
                self._accumulator.put_back(queue, [batch])
            else:
                self._accumulator.mark_ready(queue)
            logger.debug("%s-%d: attempt %d failed: %s", queue.topic, queue.partition, batch.attempts, error)
            return
        self.give_up(batch, error)

    def expired(self, batch: Batch, delivery_timeout_ms: int) -> None:
        attempts = f"after {batch.attempts} attempts" if batch.attempts else "before it could be sent"
        self.give_up(
            batch,
            TimedOut(
                f"{batch.count} record(s) for {batch.queue.topic}-{batch.queue.partition} were given up {attempts}: "
                f"delivery.timeout.ms ({delivery_timeout_ms}) is over; is the partition's leader up and reachable?"
            ),
        )

    def give_up(self, batch: Batch, error: KafkaError) -> None:
        """Fail a batch for good, on the wire or not."""
        queue = batch.queue
        if batch.base_sequence != NO_SEQUENCE:
            queue.in_doubt = True
            if not batch.is_on_wire:
                self._resolve(queue, batch)
        else:
            self._accumulator.withdraw(batch)
        self._counts["record-error-total"] += batch.count
        self._on_failure(error)
        batch.fail(error)
        self._accumulator.done(batch)
        self._accumulator.mark_ready(queue)

    def _can_retry(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        if error.code in LOST_SEQUENCES and batch.base_sequence != NO_SEQUENCE:
            return self._can_renumber(queue, batch, error)
        if error.code == ErrorCode.INVALID_PRODUCER_EPOCH and not self._is_transactional:
            queue.needs_new_epoch = True
            return True
        return error.retriable

    def _can_renumber(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        """A batch behind one that is missing waits for it; the missing one begins under a new epoch (KIP-360)."""
        if error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not queue.in_doubt and not queue.is_next(batch):
            return True
        if self._is_transactional:
            return False
        queue.needs_new_epoch = True
        return True

    def _split(self, queue: PartitionQueue, batch: Batch) -> None:
        """The topic takes smaller batches than ours are: send the records in two."""
        queue.largest_batch = batch.writer.size // 2
        records = batch.writer.records()
        parts: list[Batch] = []
        half = (len(records) + 1) // 2
        for first in (0, half):
            writer = BatchWriter(max(batch.writer.size, 1))
            for record in records[first : first + half]:
                writer.append(*record)
            part = Batch(queue, writer, writer.size, batch.created_ms)
            if batch.base_sequence != NO_SEQUENCE:
                part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
                part.base_sequence = (batch.base_sequence + first) % (1 << 31)
            parts.append(part)
        logger.info(
            "%s-%d: a batch of %d bytes is too large for the topic and is sent in two; set batch.size below its "
            "max.message.bytes",
            queue.topic,
            queue.partition,
            batch.writer.size,
        )
        batch.is_on_wire = False
        self._accumulator.done(batch)
        self._accumulator.reserve_again(parts)
        if batch in queue.unresolved:
            at = queue.unresolved.index(batch)
            del queue.unresolved[at]
            for part in reversed(parts):
                queue.unresolved.insert(at, part)
            self._accumulator.mark_ready(queue)
        else:
            self._accumulator.put_back(queue, parts)
        batch.split(parts)

    def _resolve(self, queue: PartitionQueue, batch: Batch) -> None:
        if batch in queue.unresolved:
            queue.unresolved.remove(batch)
            self._accumulator.mark_ready(queue)


def _message(answer: PartitionProduceResponse) -> str | None:
    """The broker's words, with the records they are about (KIP-467)."""
    faults = [
        f"record {each.batch_index}: {each.batch_index_error_message}"
        for each in answer.record_errors[:3]
        if each.batch_index_error_message
    ]
    return "; ".join(filter(None, (answer.error_message, *faults))) or None
