"""Walks the batches of a .log for a reader that must survive damage, holding no more of the file than it needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from levada.records import BatchView, Codec, CorruptBatch, InvalidRecord, Record, RecordsError
from levada.records.batch import CRC_START, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from levada.records.checksum import crc32c
from levada.records.kernel import decode
from levada.records.varint import decode_varint
from levada.world.disk import File

WINDOW_BYTES = 1 << 20

_UP_TO_MAGIC = Struct(">qiib")
# What Apache calls the minimum record overhead: the smallest message that magic 0 could hold.
_SMALLEST_LENGTH = 14


class Window:
    """A file behind one buffer, so that neighbouring small reads cost one system call."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._start = 0
        self._data = memoryview(b"")

    def read(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes; fewer only at the end of the file."""
        at = position - self._start
        if at < 0 or at + size > len(self._data):
            self._data = memoryview(self.file.read(position, max(size, WINDOW_BYTES)))
            self._start = position
            at = 0
        return self._data[at : at + size]


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch where it lies in its file."""

    window: Window
    position: int
    header: BatchView
    """Over the bytes of the header alone: nothing of it reaches the records."""

    def is_valid(self) -> bool:
        """Whether the checksum is that of the bytes, read piece by piece: a damaged length can name the whole file."""
        if self.header.size < HEADER_SIZE:
            return False
        checksum = 0
        at, end = self.position + CRC_START, self.position + self.header.size
        while at < end:
            piece = self.window.read(at, min(WINDOW_BYTES, end - at))
            if not piece:
                return False
            checksum = crc32c(piece, checksum)
            at += len(piece)
        return checksum == self.header.crc

    def records(self) -> Iterator[Record]:
        """The records; of a damaged batch those before the damage, and then RecordsError."""
        if self.header.size < HEADER_SIZE:
            raise CorruptBatch(f"batch at position {self.position} is smaller than a header")
        batch = BatchView(self.window.read(self.position, self.header.size))
        try:
            return iter(batch.records())
        except RecordsError as error:
            if batch.codec is not Codec.NONE:
                raise
            return _records_before(error, batch)


def stored_batches(window: Window, start: int, end: int) -> Iterator[StoredBatch]:
    """The batches from `start` on, up to the first that is not whole before `end`.

    As Apache's reader does, it takes every magic from 2 on for the current format.
    """
    position = start
    while position < end - _UP_TO_MAGIC.size:
        _, length, _, magic = _UP_TO_MAGIC.unpack(window.read(position, _UP_TO_MAGIC.size))
        if length < _SMALLEST_LENGTH:
            raise CorruptBatch(
                f"Found record size {length} smaller than minimum record overhead ({_SMALLEST_LENGTH})"
                f" in file {window.file.path}."
            )
        if position > end - LENGTH_OVERHEAD - length:
            return
        if magic < MAGIC:
            raise InvalidRecord(f"record format {magic} at position {position} is not supported, only {MAGIC}")
        header = window.read(position, HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            raise CorruptBatch(f"the file ends within the header at position {position}")
        yield StoredBatch(window, position, BatchView(header))
        position += LENGTH_OVERHEAD + length


def _records_before(error: RecordsError, batch: BatchView) -> Iterator[Record]:
    body = batch.body
    at = 0
    for _ in range(batch.record_count):
        try:
            length, start = decode_varint(body, at)
            end = start + length
            if length < 0 or end > len(body):
                break
            [record] = decode(body[at:end], 1, batch.base_offset, batch.base_timestamp, batch.log_append_timestamp)
        except RecordsError:
            break
        yield record
        at = end
    raise error
