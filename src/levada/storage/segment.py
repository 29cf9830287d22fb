"""One stretch of a log: a file of record batches and the indexes that find them."""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain

from levada.model.buffers import Buffer
from levada.model.errors import KafkaStorageError
from levada.records.batch import HEADER_SIZE, BatchView
from levada.storage.formats import OFFSET_ENTRY, TIME_ENTRY, CorruptFile
from levada.storage.header_scan import BatchPlace, WrongEntry, find_batch, headers, read_batch
from levada.storage.index_files import check_index_files, extend_index, read_index, write_index
from levada.storage.indexes import NO_TIMESTAMP, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.read_window import ReadWindow, cut_from
from levada.storage.transaction_index import TransactionIndex
from levada.world.disk import Disk, File, FileRange

logger = logging.getLogger(__name__)

SHORT_READ_BYTES = 256 * 1024
LONG_READ_BYTES = 1152 * 1024
"""The 1 MiB that clients ask for by default, and what may lie between an entry of the index and its beginning."""
LENT_FROM = 64 * 1024
"""Less than this, as there is at the end of a log, gets memory of its own."""
MAX_RELATIVE_OFFSET = 2**31 - 1
NOT_KNOWN_TO_FIT = -(2**63) - 1
RECORDS_SUFFIX = ".log"
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
SUFFIXES = (RECORDS_SUFFIX, *INDEX_SUFFIXES)
CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
"""What files of segments end with while they are written anew, when they are complete, and when they are to go."""


class Segment:
    """Appends to the file and finds batches in it.

    The indexes of the active segment live in memory. Their files have the size that they may grow to, as Apache's do
    before they are cut, and get new entries now and then; after a crash the indexes are rebuilt.
    """

    __slots__ = (
        "_config",
        "_counted_from",
        "_directory",
        "_disk",
        "_ending",
        "_entries_written",
        "_file",
        "_files",
        "_first_timestamp",
        "_fits_until_ms",
        "_index_ending",
        "_largest",
        "_log_path",
        "_offset_index",
        "_time_index",
        "_window",
        "base_offset",
        "created_ms",
        "is_active",
        "next_offset",
        "roll_jitter_ms",
        "size",
        "transactions",
    )

    def __init__(
        self, disk: Disk, files: OpenFiles, directory: str, base_offset: int, config: LogConfig, ending: str = ""
    ) -> None:
        self._disk = disk
        self._files = files
        self._directory = directory
        self._ending = self._index_ending = ending
        self._config = config
        self.base_offset = base_offset
        self._log_path = self.path(".log")
        self.next_offset = base_offset
        self.size = 0
        self.created_ms = 0
        self.roll_jitter_ms = 0
        self.is_active = False
        self.transactions = TransactionIndex(disk, self.path(".txnindex"))
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._entries_written = (0, 0)
        """How many entries of the two indexes are in their files, as long as the segment is active."""
        self._largest: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._fits_until_ms = NOT_KNOWN_TO_FIT
        """A batch that is not younger has room in the indexes, and is no reason to roll by time."""
        self._counted_from = 0
        """The next entry of the indexes is due so many bytes behind this position."""
        self._file: File | None = None
        self._window: ReadWindow | None = None

    def path(self, suffix: str) -> str:
        ending = self._ending if suffix == RECORDS_SUFFIX else self._index_ending
        return f"{self._directory}/{self.base_offset:020d}{suffix}{ending}"

    def reconfigure(self, config: LogConfig) -> None:
        self._config = config
        self._fits_until_ms = NOT_KNOWN_TO_FIT

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._files.hold(self._log_path, self._let_go)
        return self._file

    def create(self) -> None:
        """Make the file, if there is none."""
        self._files.get(self._log_path, create=True)

    def _let_go(self) -> None:
        self._file = None

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            data = read_index(self._disk, self._files, self.path(".index"), OFFSET_ENTRY.size)
            self._offset_index = OffsetIndex(self.base_offset, self._config.max_index_bytes, data)
            self._note_loaded()
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            data = read_index(self._disk, self._files, self.path(".timeindex"), TIME_ENTRY.size)
            self._time_index = TimeIndex(self.base_offset, self._config.max_index_bytes, data)
            self._note_loaded()
        return self._time_index

    def _note_loaded(self) -> None:
        if not self.is_active:
            self._files.indexes.note(self.path(".index"), self._forget_indexes)

    def _forget_indexes(self) -> None:
        if not self.is_active:
            self._offset_index = self._time_index = None

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp in the segment, and the last offset of its batch."""
        if self._largest is None:
            self._largest = self.time_index.last
        return self._largest

    @property
    def largest_timestamp(self) -> int:
        """For retention and lookups: a segment without timestamps is as old as its file."""
        timestamp = self.largest.timestamp_ms
        return timestamp if timestamp >= 0 else self.file.modified_ms()

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 where there is none."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = next(self.headers()).header.max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    # Appending

    def append(
        self, pieces: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int, marker_count: int = 1
    ) -> None:
        """Write one batch, or markers of one size and offset each, by one call.

        On any failure the file has its old end again, or OSError says that it has not.
        """
        file = self._file or self.file
        try:
            written = file.append(pieces)
        except OSError:
            file.truncate(self.size)
            raise
        if written != size:
            file.truncate(self.size)
            raise OSError(f"{file.path}: the disk took {written} of {size} bytes")
        for behind in range(marker_count - 1, 0, -1):
            self.note(size // marker_count, last_offset - behind, max_timestamp)
        self.note(size // marker_count, last_offset, max_timestamp)

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Account for a batch that lies at the end of the file."""
        if self._first_timestamp is None:
            self._first_timestamp = max_timestamp
        largest = self._largest or self.largest
        if max_timestamp > largest.timestamp_ms:
            largest = self._largest = TimestampOffset(max_timestamp, last_offset)
        if self.size - self._counted_from > self._config.index_interval_bytes:
            self.offset_index.append(last_offset, self.size)
            self.time_index.append_if_larger(largest.timestamp_ms, largest.offset)
            if self._is_index_full():
                self._fits_until_ms = NOT_KNOWN_TO_FIT
            self._counted_from = self.size
        self.size += size
        self.next_offset = last_offset + 1

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether a batch must go to a new segment."""
        if self.size + size > self._config.segment_bytes or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        return max_timestamp > self._fits_until_ms and (self._is_old(max_timestamp, now_ms) or self._is_index_full())

    def _is_old(self, max_timestamp: int, now_ms: int) -> bool:
        if not self.size:
            return False
        allowed_ms = self._config.segment_ms - self.roll_jitter_ms
        first = self.first_timestamp
        if first < 0:
            return now_ms - self.created_ms > allowed_ms
        if not self._is_index_full():
            self._fits_until_ms = first + allowed_ms
        return max_timestamp - first > allowed_ms

    def _is_index_full(self) -> bool:
        return self.offset_index.is_full or self.time_index.is_full

    # Finding

    def first_batch_to_contain(self, offset: int, from_position: int = 0) -> BatchPlace | None:
        """The first batch whose last offset is at or past `offset`."""
        found = self.find(offset, from_position)
        if found is None:
            return None
        return BatchPlace(found.position, BatchView(found.file.read(found.position, HEADER_SIZE)))

    def find(self, offset: int, from_position: int = 0) -> FileRange | None:
        """Where the first batch lies whose last offset is at or past `offset`."""
        indexed_offset, position = (self._offset_index or self.offset_index).lookup(offset)
        if position > from_position:
            try:
                return find_batch(self.file, self.size, offset, position, indexed_offset)
            except (WrongEntry, KafkaStorageError, OSError):
                logger.warning("damaged index=%s offset=%d position=%d", self.path(".index"), indexed_offset, position)
        return find_batch(self.file, self.size, offset, from_position)

    def read_warm(self, offset: int, max_bytes: int) -> Buffer | None:
        """What `find` leads to, already read; None unless it is warm, as the index says, and not too long."""
        if max_bytes > SHORT_READ_BYTES:
            return self._read_long(offset, max_bytes)
        before = self._window
        data = None if before is None else before.read(offset, max_bytes, self.size)
        if data is not None:
            return data
        if before is not None and before.next_offset == offset:
            # A reader that goes on where the last one stopped will go on from here as well.
            window = self._open_window(before.end, max(max_bytes, SHORT_READ_BYTES))
        else:
            window = self._open_indexed_window(offset, max_bytes)
        return None if window is None else window.read(offset, max_bytes, self.size)

    def _read_long(self, offset: int, max_bytes: int) -> Buffer | None:
        """Too long for a window to be kept: read into memory that is lent to the connection that sends it."""
        if self._offset_index is None:
            return None
        indexed_offset, position, size = self._offset_index.stretch(offset, max_bytes, self.size, LONG_READ_BYTES)
        if not 0 < size <= LONG_READ_BYTES:
            return None
        memory = self._files.lent.borrow(LONG_READ_BYTES) if size >= LENT_FROM else None
        data = self.file.read_warm(position, size, memory)
        if data is None or len(data) != size:
            return None
        return cut_from(memoryview(data), offset, max_bytes, indexed_offset)

    def _open_indexed_window(self, offset: int, max_bytes: int) -> ReadWindow | None:
        if self._offset_index is None:
            return None
        indexed_offset, position, size = self._offset_index.stretch(offset, max_bytes, self.size, SHORT_READ_BYTES)
        window = self._open_window(position, size)
        is_wrong_entry = (
            indexed_offset is not None and window is not None and window.first_last_offset != indexed_offset
        )
        return None if is_wrong_entry else window

    def _open_window(self, position: int, size: int) -> ReadWindow | None:
        size = min(size, self.size - position)
        if not 0 < size <= SHORT_READ_BYTES:
            return None
        before, self._window = self._window, None
        memory = None if before is None else before.give_up()
        if memory is None or len(memory) < size:
            memory = bytearray(size)
        data = self.file.read_warm(position, size, memory)
        if data is None or len(data) != size:
            return None
        self._window = ReadWindow(position, data, memory)
        self._files.windows.note(self._log_path, self._forget_window)
        return self._window

    def _forget_window(self) -> None:
        self._window = None

    def _headers_before(self, offset: int, from_position: int = 0) -> Iterator[BatchPlace]:
        """The headers from the last indexed batch before an offset on; an entry that is wrong is not followed."""
        entry = self.offset_index.lookup(offset)
        if entry.position <= from_position:
            return self.headers(from_position)
        places = self.headers(entry.position)
        try:
            first = next(places, None)
        except (KafkaStorageError, OSError):
            first = None
        if first is None or first.header.last_offset != entry.offset:
            logger.warning("damaged index=%s offset=%d position=%d", self.path(".index"), entry.offset, entry.position)
            return self.headers(from_position)
        return chain((first,), places)

    def first_entry_behind(self, position: int) -> OffsetPosition | None:
        """The first indexed batch at or behind a position, unless its entry is wrong."""
        entry = self.offset_index.first_from_position(position)
        if entry is None or not 0 <= entry.position <= self.size - HEADER_SIZE:
            return None
        header = BatchView(self.file.read(entry.position, HEADER_SIZE))
        return entry if header.last_offset == entry.offset else None

    def headers(self, position: int = 0) -> Iterator[BatchPlace]:
        """The headers of all batches from a batch boundary on."""
        return headers(self.file, self.size, position)

    def read_batch(self, place: BatchPlace) -> BatchView:
        """A whole batch in memory."""
        return read_batch(self.file, place)

    def headers_since(self, timestamp_ms: int, from_offset: int) -> Iterator[BatchPlace]:
        """The headers from where the first record not older than a timestamp can be."""
        entry = self.time_index.lookup(timestamp_ms)
        return self._headers_before(max(entry.offset, from_offset))

    # Changing

    def truncate(self, offset: int, now_ms: int) -> None:
        """Drop every batch that reaches `offset`."""
        place = self.first_batch_to_contain(offset)
        self._fits_until_ms = NOT_KNOWN_TO_FIT
        self._window = None
        self.offset_index.truncate(offset)
        self.time_index.truncate(offset)
        self.transactions.truncate(offset)
        if place is not None:
            self.file.truncate(place.position)
            self.size = place.position
        if self.size == 0:
            self.created_ms = now_ms
            self._first_timestamp = None
        self._counted_from = self.size
        self.load_largest()

    def activate(self, now_ms: int, roll_jitter_ms: int) -> None:
        """Become the segment that is appended to, with indexes in memory."""
        self.is_active = True
        self._fits_until_ms = NOT_KNOWN_TO_FIT
        self.created_ms = now_ms
        self.roll_jitter_ms = roll_jitter_ms
        self._counted_from = self.size
        # An abort must be noted once its marker is written, though no file can be opened then.
        self.transactions.entries()

    def preallocate(self) -> None:
        """Give the files of the indexes the size that they may grow to."""
        for suffix, size in ((".index", OFFSET_ENTRY.size), (".timeindex", TIME_ENTRY.size)):
            content = self.offset_index.data if suffix == ".index" else self.time_index.data
            self._write_index(suffix, content, preallocate=self._config.max_index_bytes // size * size)
        self._entries_written = (len(self.offset_index), len(self.time_index))

    def write_new_entries(self) -> bool:
        """Let the files of the active segment's indexes say what the indexes say; whether there was something new."""
        offsets, times = self._offset_index, self._time_index
        if offsets is None or times is None or self._entries_written == (len(offsets), len(times)):
            return False
        offsets_written, times_written = self._entries_written
        if len(offsets) > offsets_written:
            written = offsets_written * OFFSET_ENTRY.size
            extend_index(self._disk, self._files, self.path(".index"), written, offsets.data_from(offsets_written))
            self._entries_written = (len(offsets), times_written)
        if len(times) > times_written:
            written = times_written * TIME_ENTRY.size
            extend_index(self._disk, self._files, self.path(".timeindex"), written, times.data_from(times_written))
            self._entries_written = (len(offsets), len(times))
        return True

    def _write_index(self, suffix: str, data: bytes, preallocate: int = 0) -> None:
        write_index(self._disk, self._files, self.path(suffix), data, preallocate)

    def deactivate(self) -> None:
        """Write the indexes with the entry that closes the segment, exactly sized, and forget them."""
        if self.largest.timestamp_ms > NO_TIMESTAMP:
            self.time_index.append_if_larger(self.largest.timestamp_ms, self.largest.offset)
        self._write_index(".index", self.offset_index.data)
        self._write_index(".timeindex", self.time_index.data)
        self.transactions.settle()
        self.is_active = False
        self._offset_index = self._time_index = None

    def check_indexes(self) -> None:
        """CorruptFile if the files of the indexes cannot be what was written; their inner entries are not looked at."""
        check_index_files(self._disk, self._files, self.path(".index"), self.path(".timeindex"), self.file.size())

    def load_end(self) -> None:
        """Find the end offset from the last index entry on; CorruptFile if entry and batches do not agree."""
        entry = self.offset_index.lookup(self.base_offset + MAX_RELATIVE_OFFSET)
        self.next_offset = self.base_offset
        try:
            for place in self.headers(entry.position):
                if place.position == entry.position > 0 and place.header.last_offset != entry.offset:
                    raise CorruptFile(f"{self.path('.index')} has no batch for its last entry {entry}")
                if place.header.base_offset < self.next_offset:
                    raise CorruptFile(f"{self.path('.log')} goes back to offset {place.header.base_offset}")
                self.next_offset = place.header.next_offset
        except KafkaStorageError as error:
            raise CorruptFile(str(error)) from error

    def load_largest(self) -> None:
        """Find the largest timestamp: in the last entry of the time index, or behind it."""
        last = self.time_index.last
        self._largest = last
        for place in self._headers_before(last.offset):
            if place.header.max_timestamp > self._largest.timestamp_ms:
                self._largest = TimestampOffset(place.header.max_timestamp, place.header.last_offset)

    def reset_indexes(self) -> None:
        """Forget all that was indexed, to build it again from the batches."""
        self.is_active = True
        self._fits_until_ms = NOT_KNOWN_TO_FIT
        self._offset_index = OffsetIndex(self.base_offset, self._config.max_index_bytes)
        self._time_index = TimeIndex(self.base_offset, self._config.max_index_bytes)
        self._window = None
        self._largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._first_timestamp = None
        self.transactions.clear()
        self.size = self._counted_from = 0
        self.next_offset = self.base_offset

    def files_to_sync(self) -> list[File]:
        """What must be on the device for this segment to be durable; an active one's indexes are rebuilt instead."""
        suffixes = [".log", *([] if self.is_active else [".index", ".timeindex"])]
        self.transactions.settle()
        if self._disk.exists(self.path(".txnindex")):
            suffixes.append(".txnindex")
        return [self._files.get(self.path(suffix)) for suffix in suffixes]

    def close(self) -> None:
        for suffix in SUFFIXES:
            self._files.close(self.path(suffix))

    def remove(self) -> None:
        """Undo a beginning that failed."""
        self.close()
        for kind in SUFFIXES:
            if self._disk.exists(self.path(kind)):
                self._disk.remove(self.path(kind))

    def settle_indexes(self) -> None:
        """Take the names that a log's own segment has; until then files with another ending were read."""
        for kind in INDEX_SUFFIXES:
            self._settle(kind, self._index_ending)
        self._index_ending = ""
        self.transactions = TransactionIndex(self._disk, self.path(".txnindex"))

    def settle(self) -> None:
        """The same for the records, which come last: their name says whether all others are there."""
        self._settle(RECORDS_SUFFIX, self._ending)
        self._ending = ""
        self._log_path = self.path(RECORDS_SUFFIX)

    def _settle(self, kind: str, ending: str) -> None:
        path = self.path(kind)
        self._files.close(path)
        if self._disk.exists(path):
            self._disk.rename(path, path.removesuffix(ending))

    def rename(self, suffix: str) -> list[str]:
        """Give all files another ending and say their new names; readers that hold the old file keep it."""
        renamed = []
        for kind in SUFFIXES:
            path = self.path(kind)
            self._files.close(path)
            if self._disk.exists(path):
                self._disk.rename(path, path + suffix)
                renamed.append(path + suffix)
        return renamed
