"""The log of one partition: an ordered run of segments that is appended to at its end and read anywhere."""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from levada.model.buffers import Buffer
from levada.model.errors import KafkaStorageError, OffsetOutOfRange, RecordBatchTooLarge
from levada.records import BatchView, patch_header, patch_in_place
from levada.records.batch import LENGTH_OVERHEAD
from levada.storage.aborted import aborted_between, end_of_read
from levada.storage.formats import AbortedTransaction
from levada.storage.leader_epochs import LeaderEpochs
from levada.storage.log_config import NEVER, LogConfig
from levada.storage.lookups import Search, first_since, locate, newest
from levada.storage.marker_writes import NO_GROUP, MarkerWrite
from levada.storage.open_files import OpenFiles
from levada.storage.outcomes import Appended, FlushDue, MarkersAppended, PlainBatch
from levada.storage.producer_snapshots import ProducerSnapshots
from levada.storage.producers import NO_PRODUCER, Origin, Producers, TransactionEnd
from levada.storage.reading import READ_ERRORS, ReadGuard
from levada.storage.replay import Bounds, end_marker, note_producer, replay_producers
from levada.storage.segment import DELETED, Segment
from levada.storage.sequence_lookup import check_sequences
from levada.world.disk import Disk, FileRange, is_gone, is_out_of_files, is_passing

logger = logging.getLogger(__name__)


class Log:
    """Opened by `loading.open_log`, which recovers it."""

    __slots__ = (
        "_base_offsets", "_directory", "_disk", "_failure", "_files", "_jitter", "_reading", "_segments",
        "_snapshots", "_truncated_to", "_unflushed_since_ms", "active", "config", "end_offset", "epochs",
        "has_changed", "high_watermark", "is_new", "is_untouched", "may_wait_for_flush", "on_failure", "on_flush",
        "producers", "recovery_point", "retired_paths", "settled_base", "start_offset", "successor",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        files: OpenFiles,
        directory: str,
        config: LogConfig,
        *,
        segments: list[Segment],
        epochs: LeaderEpochs,
        snapshots: ProducerSnapshots,
        jitter: Callable[[int], int],
    ) -> None:
        self._disk = disk
        self._files = files
        self._directory = directory
        self.config = config
        self._jitter = jitter
        self._segments = segments
        self.active = segments[-1]
        self._base_offsets = [segment.base_offset for segment in segments]
        self._failure: str | None = None
        self._reading = ReadGuard(directory)
        self._snapshots = snapshots
        self.epochs = epochs
        self.producers = Producers()
        self.start_offset = segments[0].base_offset
        self.end_offset = segments[-1].next_offset
        self.high_watermark = 0
        self.recovery_point = 0
        self._unflushed_since_ms: int | None = None
        self._truncated_to = NEVER
        """The lowest end that the log had since the flush under way began."""
        self.retired_paths: list[str] = []
        """Files that were renamed since the last `take_retired`."""
        self.settled_base = segments[0].base_offset
        """A power cut can bring back segments from this offset on, but none before it."""
        self.is_new = False
        """Whether the directory itself was made since the last flush."""
        self.may_wait_for_flush = config.may_wait_for_flush
        self.has_changed = False
        """Whether any file may differ from what the device has."""
        self.is_untouched = False
        """Whether every file is still as a clean stop left it: then a stop has nothing to write either."""
        self.on_failure: Callable[[OSError], None] = lambda _: None
        """Called when this log goes offline."""
        self.on_flush: Callable[[], None] = lambda: None
        """Called when a flush has ended, well or not."""
        self.successor: Log | None = None
        """What goes on in another directory, once this one has moved."""

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def is_offline(self) -> bool:
        """Whether a failure has ended all use of this log until it is opened again."""
        return self._failure is not None

    @property
    def last_stable_offset(self) -> int:
        """Below this, every transaction has an outcome that readers may see."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        # Retention may have taken the beginning of an open transaction; what it took is of no concern to readers.
        return min(max(unstable, self.start_offset), self.high_watermark)

    # Appending

    def append(
        self, batch: BatchView, *, leader_epoch: int, origin: Origin, now_ms: int, transaction_version: int = 0
    ) -> Appended:
        """Give a checked batch the next offsets and write it."""
        if self._failure is not None:
            self._refuse_if_failed()
        size = batch.batch_length + LENGTH_OVERHEAD
        if size > self.config.segment_bytes:
            raise RecordBatchTooLarge(f"a batch of {size} bytes does not fit a segment of {self.config.segment_bytes}")
        marker = None
        has_producer = batch.producer_id != NO_PRODUCER
        if has_producer:
            marker = end_marker(batch) if batch.is_control else None
            if origin is Origin.COORDINATOR:
                self.producers.check_coordinator_batch(
                    batch.producer_id, batch.producer_epoch, marker, transaction_version
                )
            is_judged = origin is Origin.CLIENT and marker is None
            repeated = check_sequences(batch, self.producers, self._segments, self._reading) if is_judged else None
            if repeated is not None:
                # The first attempt may still wait for its flush, and the second must wait for it too.
                due = self.awaits_flush and repeated.last_offset >= self.recovery_point
                return Appended(repeated.base_offset, repeated.last_offset, is_duplicate=True, is_flush_due=due)
        base_offset = self.end_offset
        pieces = (patch_header(batch, base_offset, leader_epoch), batch.bytes_after_patch)
        self._write(pieces, size, (batch.last_offset_delta, batch.max_timestamp), leader_epoch, now_ms, 1)
        if has_producer:
            self._note_aborts(note_producer(self.producers, batch, base_offset, marker))
        is_flush_due = self.may_wait_for_flush and self.awaits_flush
        return Appended(base_offset, base_offset + batch.last_offset_delta, False, is_flush_due)

    def append_plain(self, data: memoryview, plain: PlainBatch, *, leader_epoch: int, now_ms: int) -> int:
        """The same for a batch that needs no more than its offset and epoch, which are put into it where it lies."""
        if self._failure is not None:
            self._refuse_if_failed()
        size = len(data)
        if size > self.config.segment_bytes:
            raise RecordBatchTooLarge(f"a batch of {size} bytes does not fit a segment of {self.config.segment_bytes}")
        base_offset = self.end_offset
        patch_in_place(data, base_offset, leader_epoch)
        self._write((data,), size, plain, leader_epoch, now_ms, 1)
        return base_offset

    def append_markers(
        self, ends: Sequence[TransactionEnd], *, leader_epoch: int, now_ms: int, group: bytes = NO_GROUP
    ) -> MarkersAppended:
        """End transactions by one write, all but those that are refused; of a group all ends count, or none."""
        if self._failure is not None:
            self._refuse_if_failed()
        write = MarkerWrite(self.producers, ends, group, now_ms)
        count, base_offset = len(write.ends), self.end_offset
        if not count:
            return MarkersAppended(write.refused, 0, is_flush_due=False)
        pieces = write.batches(base_offset, leader_epoch)
        size = sum(map(len, pieces))
        self._write(pieces, size, (count - 1, now_ms), leader_epoch, now_ms, count)
        self._note_aborts(write.note(self.producers, base_offset))
        return MarkersAppended(write.refused, size, self.may_wait_for_flush and self.awaits_flush)

    def _write(
        self, pieces: Sequence[Buffer], size: int, plain: PlainBatch, epoch: int, now_ms: int, count: int
    ) -> None:
        last_offset_delta, max_timestamp = plain
        last_offset = self.end_offset + last_offset_delta
        try:
            if not self.has_changed:
                self.touch()
            segment = self.active
            if segment.should_roll(size, last_offset, max_timestamp, now_ms):
                self.roll(self.end_offset, now_ms)
                segment = self.active
            if epoch > self.epochs.latest:
                self.epochs.assign(epoch, self.end_offset)
            segment.append(pieces, size, last_offset, max_timestamp, count)
        except OSError as error:
            self._note_failure(error)
            raise KafkaStorageError(f"cannot append to {self._directory}: {error}") from error
        self.end_offset = self.producers.end_offset = segment.next_offset
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms

    def _note_aborts(self, aborted: Sequence[AbortedTransaction]) -> None:
        if not aborted:
            return
        try:
            for one in aborted:
                self.active.transactions.append(one)
        except OSError as error:
            # The marker is in the log and readers would not know of it; recovery finds it again.
            self.go_offline(error)
            raise KafkaStorageError(f"cannot note an abort in {self._directory}: {error}") from error

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Close the active segment and begin a new one, with a snapshot of the producers where they meet."""
        base_offset = max(base_offset, self.end_offset)
        self.touch()
        if base_offset == self.active.base_offset:
            # It is empty already, and two segments of one name would be one file.
            return
        segment = Segment(self._disk, self._files, self._directory, base_offset, self.config)
        try:
            segment.create()
            segment.activate(now_ms, self._jitter(min(self.config.segment_jitter_ms, self.config.segment_ms)))
            segment.preallocate()
            self.producers.end_offset = base_offset
            self._snapshots.take(self.producers)
            self.active.deactivate()
        except OSError:
            self._undo_roll(segment)
            raise
        self._segments.append(segment)
        self._base_offsets.append(base_offset)
        self.active = segment

    def _undo_roll(self, segment: Segment) -> None:
        """The old segment goes on; what is left of the new one would end the log there at the next start."""
        try:
            segment.remove()
        except OSError as error:
            self.go_offline(error)

    # Flushing

    @property
    def awaits_flush(self) -> bool:
        """Whether what was appended may be neither acknowledged nor read before it is on the device."""
        # As in Apache, where an append flushes what `flush.messages` asks for, and no producer waits for `flush.ms`.
        return self.end_offset - self.recovery_point >= self.config.flush_messages and self._failure is None

    def flush_due(self, now_ms: int) -> bool:
        """Whether configuration asks for a flush now, or a closed segment is not on the device yet."""
        since_ms = self._unflushed_since_ms
        is_old = since_ms is not None and now_ms - since_ms >= self.config.flush_ms
        has_rolled = self.recovery_point < self.active.base_offset
        return self._failure is None and (is_old or has_rolled or self.awaits_flush)

    def begin_flush(self) -> FlushDue:
        """The files that must be synced to make everything appended so far durable."""
        self._refuse_if_failed()
        # A segment that was closed right at the recovery point has new indexes since.
        first = max(bisect_left(self._base_offsets, self.recovery_point) - 1, 0)
        base_offset = self._segments[first].base_offset
        try:
            files = [file for segment in self._segments[first:] for file in segment.files_to_sync()]
            files += [self._snapshots.file(offset) for offset in self._snapshots.offsets if offset >= base_offset]
            self.epochs.write_if_changed()
        except OSError as error:
            raise self.fail_flush(error) from error
        since_ms, self._unflushed_since_ms = self._unflushed_since_ms, None
        self._truncated_to = NEVER
        parent = (self._directory.rpartition("/")[0] or ".",) if self.is_new else ()
        return FlushDue((self._directory, *parent), files, self._base_offsets[0], self.end_offset, since_ms)

    def end_flush(self, flushed: FlushDue) -> None:
        """Not where another flush has failed meanwhile: the kernel tells of lost pages once, and not to this one."""
        self._refuse_if_failed()
        end_offset = min(flushed.end_offset, self.end_offset, self._truncated_to)
        self.recovery_point = max(self.recovery_point, end_offset)
        self.settled_base = flushed.first_offset
        self.is_new = False
        self.on_flush()

    def fail_flush(self, error: OSError, begun: FlushDue | None = None) -> KafkaStorageError:
        """A failed sync is never repeated: the pages it covered may be gone, and a second one would not say so."""
        if not is_passing(error):
            self.go_offline(error)
        elif begun is not None:
            self._unflushed_since_ms = begun.since_ms
        self.on_flush()
        return KafkaStorageError(f"cannot flush {self._directory}: {error}")

    def flush(self) -> None:
        """Bring everything to the device now."""
        due = self.begin_flush()
        try:
            due.sync(self._disk)
        except OSError as error:
            raise self.fail_flush(error, due) from error
        self.end_flush(due)

    def close(self) -> None:
        """Write indexes and producers, bring all to the device, and let go of every file."""
        try:
            if self._failure is None and not self.is_untouched:
                self._snapshots.take(self.producers)
                self.active.deactivate()
                if self.has_changed:
                    self.flush()
        finally:
            for segment in self._segments:
                segment.close()

    def abandon(self, reason: str) -> None:
        """Let go of every file without writing anything more: the log is deleted, or its directory has failed."""
        self._failure = reason
        for segment in self._segments:
            segment.close()

    # Reading

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool, upper_offset: int) -> FileRange | None:
        """The bytes from the batch that holds `offset` on, cut at `max_bytes` and before `upper_offset`."""
        if self._failure is not None:
            self._refuse_if_failed()
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        if offset >= upper_offset:
            return None
        try:
            found = locate(self._segments, self._base_offsets, offset)
            if found is None:
                return None
            segment, batch = found
            limit = segment.size
            if segment.next_offset > upper_offset:
                stop = segment.find(upper_offset, batch.position)
                limit = segment.size if stop is None else stop.position
        except READ_ERRORS as error:
            raise KafkaStorageError(f"cannot read {self._directory}: {error}") from error
        wanted = batch.size if at_least_one_batch and batch.size > max_bytes else max_bytes
        batch.size = min(limit - batch.position, wanted)
        return batch if batch.size > 0 else None

    def read_warm(self, offset: int, max_bytes: int, *, upper_offset: int) -> Buffer | None:
        """What `read` would find, already read; None where that takes more than one system call, or waiting."""
        if self._failure is not None or not self.start_offset <= offset < upper_offset:
            return None
        segment = self._segments[bisect_right(self._base_offsets, offset) - 1]
        if segment.next_offset > upper_offset:
            return None
        try:
            return segment.read_warm(offset, max_bytes)
        except OSError:
            return None

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        return aborted_between(self._segments, start_offset, upper_offset)

    def aborted_in_read(self, offset: int, size: int) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of so many bytes from an offset may meet, or a few more."""
        with self._reading:
            found = locate(self._segments, self._base_offsets, offset)
            if found is None:
                return []
            segment, batch = found
            upper = end_of_read(self._segments, segment, batch.position + size, self.end_offset)
            return aborted_between(self._segments, offset, upper)

    def search_since(self, timestamp_ms: int) -> Search:
        """The first record that is not older, in steps; the log may go on meanwhile."""
        with self._reading:
            return (yield from first_since(self, timestamp_ms))

    def search_newest(self) -> Search:
        """The first record with the largest timestamp, in steps."""
        with self._reading:
            return (yield from newest(self))

    def readable_segments(self) -> Sequence[Segment]:
        self._refuse_if_failed()
        return self._segments

    # Cutting

    def set_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset if offset < self.end_offset else self.end_offset
        self.producers.set_high_watermark(self.high_watermark)

    def raise_start(self, offset: int) -> None:
        """Records below the new start are gone for readers; their segments go by `retention`."""
        if offset <= self.start_offset:
            return
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"cannot begin the log at {offset}, above its high watermark {self.high_watermark}")
        self.start_offset = offset
        self.epochs.truncate_start(offset)
        self.producers.raise_start(offset)

    def retire_oldest(self, count: int) -> None:
        """Take segments from the log's beginning; their files wait under another name until no reader can hold them."""
        if count:
            self.touch()
        for segment in self._segments[:count]:
            self._retire(segment)
        del self._segments[:count], self._base_offsets[:count]

    def replace_segments(self, count: int, replacement: Segment, retired_paths: list[str]) -> None:
        """One segment stands where so many closed ones stood, the first of which began where it begins."""
        self.touch()
        first = self._base_offsets.index(replacement.base_offset)
        for segment in self._segments[first + 1 : first + count]:
            self._snapshots.remove(segment.base_offset)
        self._segments[first : first + count] = [replacement]
        self._base_offsets[first : first + count] = [replacement.base_offset]
        self.retired_paths += retired_paths

    def take_retired(self) -> list[str]:
        """The files that were renamed since the last call; they may be removed once no reader can hold them."""
        paths, self.retired_paths = self.retired_paths, []
        return paths

    def truncate(self, offset: int, now_ms: int) -> bool:
        """Drop every record at or above an offset, as a follower does to agree with its leader."""
        self.touch()
        if offset >= self.end_offset:
            self.epochs.truncate_end(offset)
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully(offset, now_ms)
            return True
        while self._segments[-1].base_offset > offset:
            self._retire(self._segments.pop())
            self._base_offsets.pop()
        segment = self.active = self._segments[-1]
        segment.activate(now_ms, segment.roll_jitter_ms)
        segment.truncate(offset, now_ms)
        segment.preallocate()
        segment.next_offset = self.end_offset = offset
        self.epochs.truncate_end(offset)
        self.start_offset = min(self.start_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._truncated_to = min(self._truncated_to, offset)
        self.high_watermark = min(self.high_watermark, offset)
        bounds = Bounds(self.start_offset, offset, self.high_watermark)
        replay_producers(self.segments, self.producers, self._snapshots, bounds, now_ms, self.config)
        return True

    def truncate_fully(self, offset: int, now_ms: int) -> None:
        """Begin anew at an offset, with nothing before it."""
        while self._segments:
            self._retire(self._segments.pop())
        segment = Segment(self._disk, self._files, self._directory, offset, self.config)
        segment.create()
        segment.activate(now_ms, 0)
        segment.preallocate()
        self._segments.append(segment)
        self._base_offsets = [offset]
        self.active = segment
        self.settled_base = min(self.settled_base, offset)
        self._truncated_to = min(self._truncated_to, offset)
        self.start_offset = self.end_offset = self.recovery_point = self.high_watermark = offset
        self.epochs.clear()
        self._snapshots.clear(offset)
        self.producers.restore([], offset, now_ms, self.config.producer_id_expiration_ms)

    def reconfigure(self, config: LogConfig) -> None:
        """Go on with other settings; what is written already stays as it is."""
        self.config = config
        self.may_wait_for_flush = config.may_wait_for_flush
        for segment in self._segments:
            segment.reconfigure(config)

    def touch(self) -> None:
        self.has_changed = True
        if self.is_untouched:
            self.is_untouched = False
            self.active.preallocate()

    def _retire(self, segment: Segment) -> None:
        self.has_changed = True
        self.retired_paths += segment.rename(DELETED)
        self._snapshots.remove(segment.base_offset)

    def _note_failure(self, error: OSError) -> None:
        """A log whose file could not be cut back to its last good byte takes no more appends."""
        try:
            is_clean = not is_gone(error) and self.active.file.size() == self.active.size
        except OSError as unseen:
            # A process that cannot open the file has not written to it either.
            is_clean = is_out_of_files(unseen)
        if not is_clean:
            self.go_offline(error)

    def go_offline(self, error: OSError) -> None:
        if self._failure is not None:
            return
        self._failure = str(error)
        logger.error("log offline directory=%s reason=%r", self._directory, self._failure)
        self.on_failure(error)

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise KafkaStorageError(f"{self._directory} is offline: {self._failure}")
