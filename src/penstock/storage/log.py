"""The log of one partition: an ordered run of segments that is appended to at its end and read anywhere."""

from bisect import bisect_right
from dataclasses import dataclass

from penstock.model.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from penstock.records import BatchView, patch_header
from penstock.storage.producers import NO_PRODUCER, AppendedBatch, Producers
from penstock.storage.recovery import Cut, TornTail, sound_batches
from penstock.storage.segment import BatchPlace, Segment
from penstock.world.disk import Disk, FileRange

DEFAULT_SEGMENT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch came to lie; a duplicate lies where it was appended first."""

    base_offset: int
    last_offset: int
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """The answer to a question about time."""

    offset: int
    timestamp_ms: int


class Log:
    """Opened by `open_log`, which recovers it."""

    def __init__(self, disk: Disk, directory: str, segments: list[Segment], segment_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self._segment_bytes = segment_bytes
        self._failure: OSError | None = None
        self.producers = Producers()
        self.start_offset = segments[0].base_offset

    @property
    def end_offset(self) -> int:
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def append(self, batch: BatchView, leader_epoch: int) -> Appended:
        """Give a checked batch the next offsets and write it."""
        self._refuse_if_failed()
        if batch.size > self._segment_bytes:
            raise RecordListTooLarge(f"a batch of {batch.size} bytes does not fit a segment of {self._segment_bytes}")
        if batch.producer_id != NO_PRODUCER:
            repeated = self.producers.duplicate_of(
                batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence
            )
            if repeated is not None:
                return Appended(repeated.base_offset, repeated.last_offset, is_duplicate=True)
        base_offset = self.end_offset
        last_offset = base_offset + batch.last_offset_delta
        segment = self._segment_for(batch.size, last_offset)
        pieces = (patch_header(batch, base_offset, leader_epoch), batch.bytes_after_patch)
        try:
            segment.append(pieces, batch.size, last_offset, batch.max_timestamp)
        except OSError as error:
            self._note_failure(segment, error)
            raise KafkaStorageError(f"cannot append to {self._directory}: {error}") from error
        self._remember_producer(batch, base_offset)
        return Appended(base_offset, last_offset)

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool) -> FileRange | None:
        """The bytes from the batch that holds `offset` on, cut at `max_bytes`; None when there are none yet."""
        self._refuse_if_failed()
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside [{self.start_offset}, {self.end_offset}]")
        if offset == self.end_offset:
            return None
        segment, place = self._locate(offset)
        available = segment.size - place.position
        size = min(available, max_bytes)
        if at_least_one_batch:
            size = min(available, max(size, place.header.size))
        return FileRange(segment.file, place.position, size) if size > 0 else None

    def first_record_since(self, timestamp_ms: int) -> FoundRecord | None:
        """The first record that is not older."""
        for segment in self._segments:
            if segment.max_timestamp < timestamp_ms:
                continue
            for place in segment.headers():
                if place.header.max_timestamp >= timestamp_ms:
                    for record in segment.read_batch(place).records():
                        if record.timestamp_ms >= timestamp_ms:
                            return FoundRecord(record.offset, record.timestamp_ms)
        return None

    def newest_record(self) -> FoundRecord | None:
        """The first record with the largest timestamp."""
        newest = max(segment.max_timestamp for segment in self._segments)
        return None if newest < 0 else self.first_record_since(newest)

    def sync(self) -> None:
        self._segments[-1].file.sync()

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()

    def _segment_for(self, size: int, last_offset: int) -> Segment:
        active = self._segments[-1]
        fits = active.size + size <= self._segment_bytes and last_offset - active.base_offset < 2**31
        if fits or active.size == 0:
            return active
        path = segment_path(self._directory, active.next_offset)
        try:
            active.file.sync()
            file = self._disk.open(path, create=True)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise KafkaStorageError(f"cannot begin segment {path}: {error}") from error
        self._segments.append(Segment(file, active.next_offset))
        self._base_offsets.append(active.next_offset)
        return self._segments[-1]

    def _locate(self, offset: int) -> tuple[Segment, BatchPlace]:
        first = max(bisect_right(self._base_offsets, offset) - 1, 0)
        for segment in self._segments[first:]:
            place = segment.first_batch_to_contain(offset)
            if place is not None:
                return segment, place
        raise AssertionError(f"{self._directory}: no batch at {offset} below the end {self.end_offset}")

    def _remember_producer(self, batch: BatchView, base_offset: int) -> None:
        if batch.producer_id == NO_PRODUCER:
            return
        appended = AppendedBatch(
            first_sequence=batch.base_sequence,
            last_sequence=batch.last_sequence,
            base_offset=base_offset,
            last_offset=base_offset + batch.last_offset_delta,
            timestamp_ms=batch.max_timestamp,
        )
        self.producers.appended(batch.producer_id, batch.producer_epoch, appended)

    def _note_failure(self, segment: Segment, error: OSError) -> None:
        """A log whose file could not be cut back to its last good byte takes no more appends."""
        try:
            is_clean = segment.file.size() == segment.size
        except OSError:
            is_clean = False
        if not is_clean:
            self._failure = error

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise KafkaStorageError(f"{self._directory} is offline: {self._failure}")


def open_log(disk: Disk, directory: str, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> tuple[Log, Cut | None]:
    """Open or create a log, and cut whatever a crash left half written at its end."""
    disk.make_directories(directory)
    bases = sorted(int(name[:-4]) for name in disk.names(directory) if _is_segment_name(name))
    segments = [Segment(disk.open(segment_path(directory, base), create=True), base) for base in bases or [0]]
    if not bases:
        disk.sync_directory(directory)
    log = Log(disk, directory, segments, segment_bytes)
    return log, _recover(log, disk, segments)


def segment_path(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}.log"


def _is_segment_name(name: str) -> bool:
    return name.endswith(".log") and len(name) == 24 and name[:20].isdigit()


def _recover(log: Log, disk: Disk, segments: list[Segment]) -> Cut | None:
    for number, segment in enumerate(segments):
        try:
            for batch in sound_batches(segment.file, segment.base_offset):
                segment.note(batch.size, batch.last_offset, batch.max_timestamp)
                log._remember_producer(batch, batch.base_offset)
        except TornTail as torn:
            cut = Cut(segment.file.path, torn.position, segment.file.size() - torn.position, str(torn))
            segment.file.truncate(torn.position)
            segment.file.sync()
            for later in segments[number + 1 :]:
                later.file.close()
                disk.remove(later.file.path)
            del segments[number + 1 :]
            del log._base_offsets[number + 1 :]
            return cut
    return None
