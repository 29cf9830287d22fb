"""The way to one partition: the batch being filled, those that wait, and those whose outcome is open."""

import sys
from collections import deque
from collections.abc import Iterator

from levada.client.producer.batch import Batch
from levada.records.batch import NO_PRODUCER_ID, NO_SEQUENCE

SEQUENCE_LIMIT = 1 << 31

FORGOTTEN_AFTER_MS = 10 * 60_000
"""A leader may forget a producer that is idle for `producer.id.expiration.ms`, a day unless an operator shortens it."""


class PartitionQueue:
    """Batches of one partition, in order. `open` and `queue` change under the accumulator's lock, the rest on the loop.

    With idempotence each batch has a sequence from its first attempt on, and `unresolved` keeps those without an
    outcome in that order. If one has to be repeated, it goes alone until all before the next new one are through:
    whatever came after it was refused as out of order, or will be.
    """

    __slots__ = (
        "acknowledged_batch_ms",
        "acknowledged_producer_id",
        "in_doubt",
        "is_muted",
        "largest_batch",
        "last_acknowledged",
        "needs_new_epoch",
        "next_sequence",
        "open",
        "partition",
        "producer_epoch",
        "producer_id",
        "queued_bytes",
        "topic",
        "unresolved",
        "used_at_ms",
        "waiting",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.open: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.largest_batch = sys.maxsize
        """What its topic is known to take."""
        self.used_at_ms = 0.0
        """When its last batch was begun."""
        self.queued_bytes = 0
        """What went into the queue since the partitioner last looked, which spreads records by it."""
        self.unresolved: deque[Batch] = deque()
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.next_sequence = 0
        self.last_acknowledged = NO_SEQUENCE
        self.acknowledged_producer_id = NO_PRODUCER_ID
        """The producer id under which the partition's leader has acknowledged something."""
        self.acknowledged_batch_ms = 0.0
        """When the last batch was begun that it acknowledged."""
        self.in_doubt = False
        """A batch was given up whose sequence the broker may have seen; nothing new until the rest is settled."""
        self.is_muted = False
        """A batch is on the wire, and the next must not overtake it at another broker."""
        self.needs_new_epoch = False
        """The broker does not know what it should of our sequences; begin again when nothing is on the wire."""

    def batches(self) -> Iterator[Batch]:
        """All that have no outcome yet, oldest first."""
        yield from self.unresolved
        yield from self.waiting
        if self.open is not None:
            yield self.open

    @property
    def is_on_wire(self) -> bool:
        return any(batch.is_on_wire for batch in self.unresolved)

    def next_batch(self, now_ms: float) -> Batch | None:
        """The batch to send now, if one may be sent."""
        for batch in self.unresolved:
            if not batch.is_on_wire:
                is_first = batch is self.unresolved[0]
                return batch if is_first and batch.retry_at_ms <= now_ms and not self.needs_new_epoch else None
        if self.in_doubt or self.needs_new_epoch or not self.waiting:
            return None
        if self.unresolved and not self._is_known_to_leader():
            # A leader that does not know a producer takes any sequence as its first: if the first batch were refused
            # and the second taken, the first would look like one that is there already (KAFKA-14359).
            return None
        first = self.waiting[0]
        return first if first.retry_at_ms <= now_ms else None

    def number(self, batch: Batch) -> None:
        """Give a batch from the queue the next sequence."""
        batch.producer_id, batch.producer_epoch = self.producer_id, self.producer_epoch
        batch.base_sequence = self.next_sequence
        self.next_sequence = (self.next_sequence + batch.count) % SEQUENCE_LIMIT
        self.unresolved.append(batch)

    def is_next(self, batch: Batch) -> bool:
        """Whether the broker should have expected exactly this batch."""
        return batch.base_sequence == (self.last_acknowledged + 1) % SEQUENCE_LIMIT

    def acknowledged(self, batch: Batch) -> None:
        self.acknowledged_producer_id = batch.producer_id
        self.acknowledged_batch_ms = batch.created_ms
        if batch.producer_id == self.producer_id and batch.producer_epoch == self.producer_epoch:
            self.last_acknowledged = (batch.base_sequence + batch.count - 1) % SEQUENCE_LIMIT

    def adopt(self, producer_id: int, producer_epoch: int) -> None:
        """Count from 0 under another identity, what is still to be sent included."""
        assert not self.is_on_wire
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.next_sequence = 0
        self.last_acknowledged = NO_SEQUENCE
        self.in_doubt = self.needs_new_epoch = False
        again, self.unresolved = self.unresolved, deque()
        for batch in again:
            self.number(batch)

    def _is_known_to_leader(self) -> bool:
        idle_ms = self.unresolved[0].created_ms - self.acknowledged_batch_ms
        return self.acknowledged_producer_id == self.producer_id and idle_ms < FORGOTTEN_AFTER_MS
