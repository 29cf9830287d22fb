"""Record batch v2 as a view over bytes: its header read once, its records left where they are."""

from collections.abc import Iterator
from struct import Struct
from typing import NoReturn

from levada.model.buffers import Buffer
from levada.records.checksum import crc32c
from levada.records.compression import MAX_DECOMPRESSED_BYTES, Codec, codec_of, compress, decompress
from levada.records.errors import CorruptBatch, InvalidRecord
from levada.records.kernel import decode, decode_for_consumer, find_since
from levada.records.record import (
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_OVERHEAD,
    BATCH_MAGIC,
    BATCH_TRANSACTIONAL_BIT,
    ConsumerRecord,
    Record,
)

MAGIC = BATCH_MAGIC
HEADER_SIZE = BATCH_HEADER_SIZE
LENGTH_OVERHEAD = BATCH_LENGTH_OVERHEAD
PATCHED_SIZE = 16
CRC_START = 21

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = BATCH_TRANSACTIONAL_BIT
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
# The delete horizon is the cleaner's to set, and a batch written anew has none.
_BITS_BESIDE_CODEC = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT

HEADER = BATCH_HEADER
_PATCH = Struct(">qii")
_MAGIC_AT = 16
# The smallest message that magic 0 could hold; whatever is shorter has a broken length, in any format.
_SMALLEST_LENGTH = 14
_MAX_SEQUENCE = (1 << 31) - 1


class BatchView:
    """One batch inside a buffer. It is as valid as the buffer: a caller that keeps it longer copies the bytes."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "start",
    )

    buffer: Buffer
    start: int
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, start: int = 0) -> None:
        """Read the header at a position where at least HEADER_SIZE bytes are; nothing is checked yet."""
        self.buffer = buffer
        self.start = start
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, start)

    @property
    def size(self) -> int:
        """All bytes of the batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & TIMESTAMP_TYPE_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on the cleaner may drop the tombstones here; it takes the place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def log_append_timestamp(self) -> int | None:
        """The timestamp that all records share if the broker gave it, else None."""
        return self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which follows 2147483647 with 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _MAX_SEQUENCE

    @property
    def body(self) -> memoryview:
        """The record section as it stands, compressed or not."""
        return memoryview(self.buffer)[self.start + HEADER_SIZE : self.start + self.size]

    @property
    def bytes_after_patch(self) -> memoryview:
        """What follows the bytes that `patch_header` replaces."""
        return memoryview(self.buffer)[self.start + PATCHED_SIZE : self.start + self.size]

    def crc_is_valid(self) -> bool:
        checked = memoryview(self.buffer)[self.start + CRC_START : self.start + self.batch_length + LENGTH_OVERHEAD]
        return crc32c(checked) == self.crc

    def validate(self) -> None:
        """Raise unless the batch is whole, of format 2 and undamaged, as a log or a replica may hold it."""
        _check_format(self.magic, self.batch_length)
        if self.start + self.batch_length + LENGTH_OVERHEAD > len(self.buffer):
            raise CorruptBatch(f"batch length {self.batch_length} goes beyond the end of the data")
        if not self.crc_is_valid():
            raise CorruptBatch(f"checksum of the batch at offset {self.base_offset} does not match")
        if self.last_offset_delta < 0:
            raise InvalidRecord(f"last offset delta {self.last_offset_delta} lies before the batch")
        codec_of(self.attributes)

    def uncompressed_body(self, max_size: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
        """The record section after decompression, refused if it would exceed max_size."""
        return decompress(codec_of(self.attributes), self.body, max_size)

    def records(self, max_size: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
        """The records as objects, with absolute offsets and timestamps."""
        return decode(
            self.uncompressed_body(max_size),
            self.record_count,
            self.base_offset,
            self.base_timestamp,
            self.log_append_timestamp,
        )

    def first_since(
        self, timestamp_ms: int, from_offset: int, max_size: int = MAX_DECOMPRESSED_BYTES
    ) -> tuple[int, int] | None:
        """Offset and timestamp of the first record from an offset on that is not older; None if there is none."""
        return find_since(
            self.uncompressed_body(max_size),
            self.record_count,
            self.base_offset,
            self.base_timestamp,
            self.log_append_timestamp,
            timestamp_ms,
            from_offset,
        )

    def consumer_records(
        self, topic: str, partition: int, max_size: int = MAX_DECOMPRESSED_BYTES
    ) -> list[ConsumerRecord]:
        """The records as a consumer hands them out, each with the partition that it came from."""
        epoch = self.partition_leader_epoch
        return decode_for_consumer(
            self.uncompressed_body(max_size),
            self.record_count,
            self.base_offset,
            self.base_timestamp,
            self.log_append_timestamp,
            topic,
            partition,
            None if epoch == NO_LEADER_EPOCH else epoch,
        )


def iter_batches(buffer: Buffer) -> Iterator[BatchView]:
    """The whole batches in a buffer; a last one that is cut off, as fetched data may end, is left out.

    The batches are not checked beyond what it takes to find the next one.
    """
    view = memoryview(buffer)
    start = 0
    while len(view) - start >= LENGTH_OVERHEAD:
        length = int.from_bytes(view[start + 8 : start + LENGTH_OVERHEAD], signed=True)
        if length < _SMALLEST_LENGTH:
            raise CorruptBatch(f"batch length {length} at byte {start} is too small")
        if length > len(view) - start - LENGTH_OVERHEAD:
            return
        _check_format(view[start + _MAGIC_AT], length)
        yield BatchView(view, start)
        start += length + LENGTH_OVERHEAD


def parse_produced(buffer: Buffer) -> BatchView:
    """The one batch that a producer may send for a partition, checked as Apache's leader checks it.

    What depends on the topic is left to the caller: size limits, timestamps, keys on compacted topics.
    """
    available = len(buffer)
    if available < HEADER_SIZE:
        _refuse_shape(buffer)
    view = BatchView(buffer)
    if view.magic != MAGIC or view.batch_length != available - LENGTH_OVERHEAD:
        _refuse_shape(buffer)
    if crc32c(memoryview(buffer)[CRC_START:]) != view.crc:
        raise CorruptBatch("checksum of the batch does not match")
    count = view.record_count
    if count <= 0 or count != view.last_offset_delta + 1:
        raise InvalidRecord(f"{count} records with a last offset delta of {view.last_offset_delta}")
    if view.producer_id != NO_PRODUCER_ID and view.base_sequence < 0:
        raise InvalidRecord(f"producer {view.producer_id} sent the sequence number {view.base_sequence}")
    if view.attributes:
        if view.attributes & CONTROL_BIT:
            raise InvalidRecord("clients may not write control batches")
        codec_of(view.attributes)
    return view


def patch_header(view: BatchView, base_offset: int, partition_leader_epoch: int) -> bytes:
    """The first 16 bytes with offset and epoch filled in; they lie before the CRC's range, so it stays valid."""
    return _PATCH.pack(base_offset, view.batch_length, partition_leader_epoch)


def patch_in_place(batch: memoryview, base_offset: int, partition_leader_epoch: int) -> None:
    """Fill in offset and epoch where the batch lies."""
    _PATCH.pack_into(batch, 0, base_offset, len(batch) - LENGTH_OVERHEAD, partition_leader_epoch)


def with_log_append_time(view: BatchView, now_ms: int) -> bytes:
    """The batch with the broker's time as the timestamp of all its records."""
    return _with_timestamp(view, view.attributes | TIMESTAMP_TYPE_BIT, now_ms)


def with_max_timestamp(view: BatchView, max_timestamp: int) -> bytes:
    """The batch with its records' own timestamps and their maximum; a leader does not believe the producer's."""
    return _with_timestamp(view, view.attributes & ~TIMESTAMP_TYPE_BIT, max_timestamp)


def with_codec(view: BatchView, body: Buffer, codec: Codec, level: int | None = None) -> bytes:
    """The batch with its record section, given uncompressed, stored by a codec; what the header says stays."""
    section = compress(codec, body, level)
    header = bytearray(memoryview(view.buffer)[view.start : view.start + HEADER_SIZE])
    header[8:12] = (HEADER_SIZE - LENGTH_OVERHEAD + len(section)).to_bytes(4)
    header[21:23] = (view.attributes & _BITS_BESIDE_CODEC | codec).to_bytes(2)
    header[17:CRC_START] = crc32c(section, crc32c(memoryview(header)[CRC_START:])).to_bytes(4)
    return b"".join((header, section))


def _with_timestamp(view: BatchView, attributes: int, max_timestamp: int) -> bytes:
    batch = bytearray(memoryview(view.buffer)[view.start : view.start + view.size])
    batch[21:23] = attributes.to_bytes(2, signed=True)
    batch[35:43] = max_timestamp.to_bytes(8, signed=True)
    batch[17:21] = crc32c(memoryview(batch)[CRC_START:]).to_bytes(4)
    return bytes(batch)


def _check_format(magic: int, length: int) -> None:
    if magic != MAGIC:
        raise InvalidRecord(f"record format {magic} is not supported, only {MAGIC}")
    if length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise CorruptBatch(f"batch length {length} is smaller than a header")


def _refuse_shape(buffer: Buffer) -> NoReturn:
    """Say what is wrong with a payload that is not exactly one batch of format 2."""
    view = memoryview(buffer)
    if len(view) >= LENGTH_OVERHEAD:
        length = int.from_bytes(view[8:LENGTH_OVERHEAD], signed=True)
        if length < _SMALLEST_LENGTH:
            raise CorruptBatch(f"batch length {length} is too small")
        if len(view) > _MAGIC_AT:
            if view[_MAGIC_AT] > MAGIC:
                raise CorruptBatch(f"Invalid magic found in record: {view[_MAGIC_AT]}")
            _check_format(view[_MAGIC_AT], length)
        if length < len(view) - LENGTH_OVERHEAD:
            raise InvalidRecord("more than one record batch for a partition")
    raise InvalidRecord("no whole record batch for a partition")
