"""A batch on its way: filled by sends, sealed and sent, and in the end acknowledged or failed as one."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from levada.client.errors import KafkaError
from levada.client.types import RecordMetadata
from levada.records.batch import NO_PRODUCER_ID, NO_SEQUENCE
from levada.records.writer import BatchWriter

if TYPE_CHECKING:
    from levada.client.producer.partition_queue import PartitionQueue

logger = logging.getLogger("levada.client")

NO_OFFSET = -1

OnDelivery: TypeAlias = Callable[[RecordMetadata | None, KafkaError | None], object]
"""Told where a record went, or why it went nowhere."""


class Batch:
    """Records for one partition. Appended to under the accumulator's lock; all else happens on the client's loop."""

    __slots__ = (
        "_callbacks",
        "_parts",
        "_waiters",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "error",
        "is_done",
        "is_on_wire",
        "log_append_time_ms",
        "producer_epoch",
        "producer_id",
        "queue",
        "reserved",
        "retry_at_ms",
        "writer",
    )

    def __init__(self, queue: "PartitionQueue", writer: BatchWriter, reserved: int, created_ms: float) -> None:
        self.queue = queue
        self.writer = writer
        self.reserved = reserved
        """Bytes of `buffer.memory` that it holds until it is done."""
        self.created_ms = created_ms
        self.attempts = 0
        self.retry_at_ms = 0.0
        self.is_on_wire = False
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.is_done = False
        self.error: KafkaError | None = None
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = -1
        self._callbacks: list[tuple[int, int, OnDelivery]] = []
        self._waiters: list[Callable[[], object]] = []
        self._parts: list[tuple[int, Batch]] = []

    @property
    def count(self) -> int:
        return self.writer.count

    def tell(self, index: int, timestamp_ms: int, callback: OnDelivery) -> None:
        """Call back with the outcome of one record."""
        self._callbacks.append((index, timestamp_ms, callback))

    def when_done(self, waiter: Callable[[], object]) -> None:
        """Call `waiter` on the client's loop once there is an outcome; at once if there is one."""
        self._waiters.append(waiter)
        # Looked at after the waiter is in the list: another thread may be about to finish the batch.
        if self.is_done:
            self._wake()

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()

    def fail(self, error: KafkaError) -> None:
        self.error = error
        self._finish()

    def orphan(self, error: KafkaError) -> None:
        """Fail it in a process to which it does not belong: its callbacks and waiters are those of the other."""
        self._callbacks, self._waiters = [], []
        self.error = error
        self.is_done = True

    def split(self, parts: "list[Batch]") -> None:
        """Its records live on in smaller batches; it is done when they all are."""
        first = 0
        for part in parts:
            self._parts.append((first, part))
            first += part.count
        remaining = len(parts)

        def part_done() -> None:
            nonlocal remaining
            remaining -= 1
            if not remaining:
                self._finish()

        for part in parts:
            part.when_done(part_done)

    def outcome(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Where a record of a batch that is done went; raises what kept it from going anywhere."""
        for first, part in reversed(self._parts):
            if index >= first:
                return part.outcome(index - first, timestamp_ms)
        if self.error is not None:
            raise self.error
        offset = NO_OFFSET if self.base_offset == NO_OFFSET else self.base_offset + index
        stamped = timestamp_ms if self.log_append_time_ms < 0 else self.log_append_time_ms
        return RecordMetadata(self.queue.topic, self.queue.partition, offset, stamped)

    def failure(self) -> KafkaError | None:
        """The first error among its records, once it is done."""
        return self.error or next(filter(None, (part.failure() for _, part in self._parts)), None)

    def _finish(self) -> None:
        self.is_done = True
        for index, timestamp_ms, callback in self._callbacks:
            try:
                metadata, error = self.outcome(index, timestamp_ms), None
            except KafkaError as refusal:
                metadata, error = None, refusal
            try:
                callback(metadata, error)
            except Exception:
                logger.exception("a delivery callback failed")
        self._callbacks.clear()
        self._wake()

    def _wake(self) -> None:
        # Two threads may be here at once, each with what the other has not taken.
        while True:
            try:
                waiter = self._waiters.pop()
            except IndexError:
                return
            waiter()
