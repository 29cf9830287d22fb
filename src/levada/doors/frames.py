"""The frames that the files of the local coordinator are made of: a length, a checksum, and what they guard."""

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

_START = Struct(">cBqq")
_BATCH = Struct(">cBqqI")
_SNAPSHOT = Struct(">cBqqqI")
_SIZE = Struct(">I")

FRAME_HEAD_SIZE = _FRAME.size
VERSION = 0
START, BATCH, SNAPSHOT = b"s", b"b", b"i"
MAX_FRAME_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Start:
    """The first frame of a log file: which file comes before it, and how much of that counts."""

    predecessor: int
    """The epoch of the file before this one, 0 if there is none."""
    next_offset: int
    """Up to which the predecessor counts, and where this file goes on."""
    carried: bytes = b""
    """The payload of the batch at that offset, taken over from the predecessor, which may not have synced it."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame's payload and where it ends."""

    payload: bytes
    end: int


def frame(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), crc32c(payload)) + payload


def frame_size(head: bytes) -> int:
    """How long the frame is that begins so."""
    return _FRAME.size + int(_FRAME.unpack(head)[0]) if len(head) == _FRAME.size else 0


def frames(data: bytes) -> Iterator[Placed]:
    """The whole, sound frames; a torn or damaged one ends them."""
    position = 0
    while (placed := _frame_at(data, position)) is not None:
        yield placed
        position = placed.end


def has_batch_behind(data: bytes, position: int) -> bool:
    """Whether a sound batch lies anywhere behind a place that has none: then what is between them was damaged."""
    for start in range(position + 1, len(data) - _FRAME.size):
        # Cheap, and seldom true by chance.
        if data[start + _FRAME.size : start + _FRAME.size + 1] == BATCH and _frame_at(data, start) is not None:
            return True
    return False


def _frame_at(data: bytes, position: int) -> Placed | None:
    if position + _FRAME.size > len(data):
        return None
    size, checksum = _FRAME.unpack_from(data, position)
    end = position + _FRAME.size + size
    # Zeros, which a power cut can leave, have the right checksum for nothing.
    if not 0 < size <= MAX_FRAME_BYTES or end > len(data):
        return None
    payload = data[position + _FRAME.size : end]
    return Placed(payload, end) if crc32c(payload) == checksum else None


def encode_start(start: Start) -> bytes:
    return frame(_START.pack(START, VERSION, start.predecessor, start.next_offset) + start.carried)


def decode_start(payload: bytes) -> Start:
    _check_kind(payload, START)
    _, _, predecessor, next_offset = _START.unpack_from(payload)
    return Start(predecessor, next_offset, payload[_START.size :])


def encode_batch(batch: MetadataBatch) -> bytes:
    head = _BATCH.pack(BATCH, VERSION, batch.epoch, batch.base_offset, len(batch.records))
    return frame(head + encode_records(batch.records))


def decode_batch(payload: bytes) -> MetadataBatch:
    _check_kind(payload, BATCH)
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
    _check_kind(payload, SNAPSHOT)
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


def _check_kind(payload: bytes, kind: bytes) -> None:
    """Before anything else is looked at: a newer version may be laid out in another way."""
    if payload[:1] != kind:
        raise DoorError(f"the metadata log has a frame of kind {payload[:1]!r} where {kind!r} was due")
    version = payload[1]
    if version > VERSION:
        raise DoorError(f"the metadata log has frames of version {version}; this release reads {VERSION}")
