"""Records that wait to be sent: encoded at once into their partition's batch, within `buffer.memory`."""

import threading
from collections.abc import Callable, Iterable, Sequence

from levada.client.errors import IllegalState, RecordTooLarge
from levada.client.options import Options
from levada.client.options.older_keys import MAX_BATCH_RECORDS, MAX_WAITING_RECORDS
from levada.client.producer.batch import Batch, OnDelivery
from levada.client.producer.handle import Handle
from levada.client.producer.partition_queue import PartitionQueue
from levada.model.buffers import Buffer
from levada.records.record import BATCH_HEADER_SIZE, HeaderInput
from levada.records.writer import BatchWriter

# Length, timestamp delta, offset delta, key length, value length and header count at their longest, and attributes.
RECORD_OVERHEAD = 5 + 10 + 5 + 5 + 5 + 5 + 1
HEADER_OVERHEAD = 10


LARGEST_BATCH = 1_000_000
"""What a batch may grow to: any broker takes that, unless a topic is set to less."""


class BatchSizes:
    """What a new batch may take, unless `batch.size` is given: as much as records fill before `linger.ms` is over.

    At low rates that is `batch.size`. A batch that is full before its time doubles it; one that was not half full at
    its end halves it. So a record waits no longer than `linger.ms` says, and a fast producer sends few large requests.
    """

    def __init__(self, smallest: int, largest: int) -> None:
        sizes = [smallest]
        while 2 * sizes[-1] < largest:
            sizes.append(2 * sizes[-1])
        self.all = tuple(sizes) if largest <= smallest else (*sizes, largest)
        self._usual = 0

    def note(self, batch: Batch, *, is_full: bool) -> None:
        """A batch is closed: because it was full, or for another reason."""
        if is_full:
            self._usual = min(self._usual + 1, len(self.all) - 1)
        elif batch.writer.size < batch.reserved // 2:
            self._usual = max(self._usual - 1, 0)

    def within(self, most: int) -> int:
        """The usual size, or the largest of the others that is within a bound; the smallest at least."""
        return next((size for size in self.all[self._usual : 0 : -1] if size <= most), self.all[0])


class SpareMemory:
    """Memory of batches that are done, for others of their size; only the usual sizes come again."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self._by_size: dict[int, list[bytearray]] = {size: [] for size in sizes}
        self._bytes = 0

    def keep(self, memory: bytearray, size: int) -> None:
        kept = self._by_size.get(size)
        if kept is not None:
            kept.append(memory)
            self._bytes += size

    def take(self, size: int) -> bytearray | None:
        kept = self._by_size.get(size)
        if not kept:
            return None
        self._bytes -= size
        return kept.pop()

    def trim(self, limit: int) -> None:
        """Keep no more than may still be used."""
        while self._bytes > max(limit, 0):
            size = max(size for size, kept in self._by_size.items() if kept)
            self._by_size[size].pop()
            self._bytes -= size


class Accumulator:
    """Filled by the users' threads, emptied by the client's loop; `lock` is held for moments only."""

    def __init__(self, options: Options, now_ms: Callable[[], float], wake: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.ready: dict[PartitionQueue, None] = {}
        """Queues with something to send, in the order they became so."""
        self.incomplete: dict[Batch, None] = {}
        """Batches without an outcome, oldest first."""
        self.memory: int = options["buffer.memory"]
        self.free = self.memory
        self.linger_ms: float = options["linger.ms"]
        self.on_room: Callable[[], object] = _nothing
        """Called on the loop when memory has become free."""
        self.releases = 0
        """How often memory was given back: a send that found none, and sees this grown, may try again."""
        self.refusal: str | None = None
        """Why no batch is begun any more."""
        self._lingering: dict[PartitionQueue, None] = {}
        self._now_ms = now_ms
        self.wake = wake
        """Tells the loop that there is something to do; called without the lock."""
        self._max_request_size: int = options["max.request.size"]
        most = min(self._max_request_size, self.memory)
        batch_size: int = max(1, min(options["batch.size"], most))
        self._max_waiting_records = options.limits.get(MAX_WAITING_RECORDS)
        self._max_batch_records = options.limits.get(MAX_BATCH_RECORDS)
        self.counts_records = self._max_waiting_records is not None or self._max_batch_records is not None
        """Whether not only bytes count, so that each record must be looked at before it is put into a batch."""
        is_fixed = "batch.size" in options.given or batch_size >= LARGEST_BATCH
        self._sizes = BatchSizes(batch_size, batch_size if is_fixed else min(LARGEST_BATCH, most))
        self._spare = SpareMemory(self._sizes.all)

    def append_open(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[HeaderInput],
        on_delivery: OnDelivery | None,
    ) -> Handle | None:
        """Put a record into the batch that its queue has open; None when there is none, or it has no room."""
        with self.lock:
            batch = queue.open
            if batch is None or not self.takes_record(queue):
                return None
            index = batch.writer.append(timestamp_ms, key, value, headers)
            if index < 0:
                return None
            if on_delivery is not None:
                batch.tell(index, timestamp_ms, on_delivery)
            return Handle(batch, index, timestamp_ms)

    def append(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[HeaderInput],
        on_delivery: OnDelivery | None,
    ) -> Handle | None:
        """The same, in a new batch where it takes one; None when there is no memory for it."""
        handle = self.append_open(queue, timestamp_ms, key, value, headers, on_delivery)
        if handle is None:
            with self.lock:
                handle = self._append_anew(queue, timestamp_ms, key, value, headers, on_delivery)
            self.wake()
        return handle

    def _append_anew(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[HeaderInput],
        on_delivery: OnDelivery | None,
    ) -> Handle | None:
        batch = self.begin(queue, record_size(key, value, headers))
        if batch is None:
            return None
        try:
            index = batch.writer.append(timestamp_ms, key, value, headers)
        except BaseException:
            self.undo(queue, batch)
            raise
        if on_delivery is not None:
            batch.tell(index, timestamp_ms, on_delivery)
        return Handle(batch, index, timestamp_ms)

    def close_full(self, queue: PartitionQueue) -> bool:
        """The queue's batch has no room for the next record, so it need not wait for it; False if there is none."""
        with self.lock:
            is_closed = self.close(queue, is_full=True)
        if is_closed:
            self.wake()
        return is_closed

    def begin(self, queue: PartitionQueue, size: int) -> Batch | None:
        """Close the queue's batch and begin one with room for a record of this size; None when there is no memory.

        With the lock held, and kept until the new batch has its first record.
        """
        if self.refusal is not None:
            raise IllegalState(self.refusal)
        size += BATCH_HEADER_SIZE
        if size > self._max_request_size:
            raise RecordTooLarge(f"a record of {size} bytes, where max.request.size is {self._max_request_size}")
        if size > self.memory:
            raise RecordTooLarge(f"a record of {size} bytes, where buffer.memory is {self.memory}")
        self.close(queue, is_full=True)
        reserved = max(size, self._size_for(queue))
        if reserved > self.free or self._has_too_many_records():
            # Nothing can wait for company any more: only what is sent gives memory back.
            self._close_all()
            return None
        self.free -= reserved
        queue.used_at_ms = self._now_ms()
        self._spare.trim(self.free)
        batch = Batch(queue, BatchWriter(reserved, self._spare.take(reserved)), reserved, queue.used_at_ms)
        queue.open = batch
        self._lingering[queue] = None
        self.incomplete[batch] = None
        return batch

    def takes_record(self, queue: PartitionQueue) -> bool:
        """Whether the queue's batch may have one more, if it has the room; with the lock held."""
        if not self.counts_records:
            return True
        is_full = queue.open is not None and queue.open.count == self._max_batch_records
        return not is_full and not self._has_too_many_records()

    def _has_too_many_records(self) -> bool:
        limit = self._max_waiting_records
        return limit is not None and sum(batch.count for batch in self.incomplete) >= limit

    def _size_for(self, queue: PartitionQueue) -> int:
        """What a new batch may grow to: queues that are filled at once must not take the memory from each other."""
        share = self.memory // (4 * (len(self._lingering) + len(self.ready) + 1))
        return self._sizes.within(min(share, queue.largest_batch))

    def undo(self, queue: PartitionQueue, batch: Batch) -> None:
        """Nothing came of a batch: what was to be its first record cannot be encoded."""
        queue.open = None
        del self._lingering[queue]
        del self.incomplete[batch]
        self.free += batch.reserved

    # The loop's side

    def close_due(self, now_ms: float) -> float | None:
        """Close the batches that have waited for `linger.ms`; the time when the next one will have."""
        with self.lock:
            while self._lingering:
                queue = next(iter(self._lingering))
                assert queue.open is not None
                due_ms = queue.open.created_ms + self.linger_ms
                if due_ms > now_ms:
                    return due_ms
                self.close(queue)
        return None

    def flush(self) -> list[Batch]:
        """Let everything go, and tell what that is."""
        with self.lock:
            self._close_all()
            return list(self.incomplete)

    def shut(self, refusal: str) -> list[Batch]:
        """Take nothing more; what there is still."""
        with self.lock:
            self.refusal = refusal
            self._close_all()
            return list(self.incomplete)

    def expired(self, created_until_ms: float) -> tuple[list[Batch], float | None]:
        """The batches that were begun up to then, and when the oldest of the others was."""
        with self.lock:
            expired = [batch for batch in self.incomplete if batch.created_ms <= created_until_ms]
            others = (batch.created_ms for batch in self.incomplete if batch.created_ms > created_until_ms)
            return expired, min(others, default=None)

    def ready_queues(self) -> list[PartitionQueue]:
        with self.lock:
            return list(self.ready)

    def done(self, batch: Batch) -> None:
        """The batch has its outcome: its memory can be used again."""
        with self.lock:
            if batch in self.incomplete:
                del self.incomplete[batch]
                self.free += batch.reserved
                self.releases += 1
                if (memory := batch.writer.give_back()) is not None:
                    self._spare.keep(memory, batch.reserved)
        self.on_room()

    def take(self, queue: PartitionQueue) -> Batch:
        """Remove the first batch from a partition's queue."""
        with self.lock:
            return queue.waiting.popleft()

    def withdraw(self, batch: Batch) -> None:
        """Remove a batch from its queue, wherever it stands."""
        with self.lock:
            if batch is batch.queue.open:
                self.close(batch.queue)
            if batch in batch.queue.waiting:
                batch.queue.waiting.remove(batch)

    def retire(self, queue: PartitionQueue) -> None:
        """A queue has nothing to send for now."""
        with self.lock:
            if not queue.waiting and not queue.unresolved:
                self.ready.pop(queue, None)

    def mark_ready(self, queue: PartitionQueue) -> None:
        with self.lock:
            self.ready[queue] = None

    def put_back(self, queue: PartitionQueue, batches: Iterable[Batch]) -> None:
        """To the front of a partition's queue, in this order."""
        with self.lock:
            queue.waiting.extendleft(reversed(list(batches)))
            self.ready[queue] = None

    def reserve_again(self, batches: Iterable[Batch]) -> None:
        """Parts of a batch that was split take over its memory, whatever that comes to."""
        with self.lock:
            for batch in batches:
                self.free -= batch.reserved
                self.incomplete[batch] = None
            # Parts of split batches can take more than there is.
            self._spare.trim(self.free)

    def _close_all(self) -> None:
        for queue in list(self._lingering):
            self.close(queue)

    def close(self, queue: PartitionQueue, *, is_full: bool = False) -> bool:
        """Let the queue's batch go as it is, if there is one; with the lock held."""
        batch = queue.open
        if batch is None:
            return False
        self._sizes.note(batch, is_full=is_full)
        queue.open = None
        # A sending thread that looked at the queue a moment ago may still have the batch in hand.
        batch.writer.stop()
        del self._lingering[queue]
        queue.waiting.append(batch)
        queue.queued_bytes += batch.writer.size
        self.ready[queue] = None
        return True


def _nothing() -> None:
    pass


def record_size(key: Buffer | None, value: Buffer | None, headers: Sequence[HeaderInput]) -> int:
    """What a record takes in a batch at most."""
    size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD + 4 * len(name) + len(content or b"")
    return size
