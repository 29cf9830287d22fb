"""The frames that coordinators keep: a length, a checksum, and the batch or the snapshot that they guard."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

from levada.metadata.delta import apply
from levada.metadata.door import DoorError, MetadataBatch
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord, decode_record, encode_record
from levada.protocol.errors import CodecError
from levada.records.checksum import crc32c

_FRAME = Struct(">II")
"""Length of the payload, and its CRC-32C."""

_BATCH = Struct(">cBqqI")
_SNAPSHOT = Struct(">cBqqqI")
_SIZE = Struct(">I")

FRAME_HEAD_SIZE = _FRAME.size
VERSION = 0
BATCH, SNAPSHOT = b"b", b"i"
MAX_FRAME_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame's payload and where it ends."""

    payload: bytes
    end: int


def frame(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), crc32c(payload)) + payload


def frames(data: bytes) -> Iterator[Placed]:
    """The whole, sound frames; a torn or damaged one ends them."""
    position = 0
    while (placed := frame_at(data, position)) is not None:
        yield placed
        position = placed.end


def frame_at(data: bytes, position: int) -> Placed | None:
    """The whole, sound frame that begins there."""
    if position + _FRAME.size > len(data):
        return None
    size, checksum = _FRAME.unpack_from(data, position)
    end = position + _FRAME.size + size
    # Zeros, which a power cut can leave, have the right checksum for nothing.
    if not 0 < size <= MAX_FRAME_BYTES or end > len(data):
        return None
    payload = data[position + _FRAME.size : end]
    return Placed(payload, end) if crc32c(payload) == checksum else None


def encode_batch(batch: MetadataBatch) -> bytes:
    head = _BATCH.pack(BATCH, VERSION, batch.epoch, batch.base_offset, len(batch.records))
    return frame(head + encode_records(batch.records))


def decode_batch(payload: bytes) -> MetadataBatch:
    check_kind(payload, BATCH)
    _, _, epoch, base_offset, count = _BATCH.unpack_from(payload)
    return MetadataBatch(epoch, base_offset, tuple(_decode_records(payload, _BATCH.size, count)))


def encode_snapshot(image: Image, epoch: int, position: int) -> bytes:
    """An image, and where in the log the reader goes on."""
    records = list(image.records())
    return frame(encode_snapshot_head(image.offset, epoch, position, len(records)) + encode_records(records))


def encode_snapshot_head(offset: int, epoch: int, position: int, count: int) -> bytes:
    """What stands in a snapshot's frame before its records."""
    return _SNAPSHOT.pack(SNAPSHOT, VERSION, offset, epoch, position, count)


def decode_snapshot(data: bytes) -> tuple[Image, int, int] | None:
    """The image, epoch and position; None for a file that is torn or damaged."""
    placed = next(frames(data), None)
    return None if placed is None else decode_snapshot_payload(placed.payload)


def decode_snapshot_payload(payload: bytes) -> tuple[Image, int, int]:
    check_kind(payload, SNAPSHOT)
    _, _, offset, epoch, position, count = _SNAPSHOT.unpack_from(payload)
    records = _decode_records(payload, _SNAPSHOT.size, count)
    return apply(Image(), records, offset), epoch, position


def encode_records(records: Sequence[MetadataRecord]) -> bytes:
    encoded = [encode_record(record) for record in records]
    return b"".join([part for one in encoded for part in (_SIZE.pack(len(one)), one)])


def _decode_records(payload: bytes, position: int, count: int) -> Iterable[MetadataRecord]:
    records = []
    try:
        for _ in range(count):
            (size,) = _SIZE.unpack_from(payload, position)
            position += _SIZE.size
            records.append(decode_record(payload[position : position + size]))
            position += size
    except CodecError as error:
        # The checksum is right, so a newer release wrote it, and to skip it would be to misread the cluster.
        raise DoorError(f"the metadata log has what this release cannot read: {error}") from error
    return records


def check_kind(payload: bytes, kind: bytes) -> None:
    """Before anything else is looked at: a newer version may be laid out in another way."""
    if payload[:1] != kind:
        raise DoorError(f"the metadata log has a frame of kind {payload[:1]!r} where {kind!r} was due")
    version = payload[1]
    if version > VERSION:
        raise DoorError(f"the metadata log has frames of version {version}; this release reads {VERSION}")
