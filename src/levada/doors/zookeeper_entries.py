"""An entry of the log in ZooKeeper: a batch, and a mark by which its writer knows it again after a lost reply.

A batch that is too large for one znode lies in parts beside the log, which are written before the entry that names
them: parts without an entry are nothing.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from levada.doors.frames import VERSION, check_kind, decode_batch, encode_batch, frame, frames
from levada.metadata.door import DoorError, MetadataBatch

ENTRY: Final = b"e"
MAX_NODE_BYTES: Final = 512 << 10
"""ZooKeeper takes 1 MB, and everything else of the request with it."""
MARK_BYTES: Final = 16

_ENTRY = Struct(f">cB{MARK_BYTES}sI")


@dataclass(frozen=True, slots=True)
class Entry:
    mark: bytes
    parts: int
    """How many there are beside the log; 0 for a batch that is in the entry itself."""
    batch: bytes


def encode_entry(batch: MetadataBatch, mark: bytes) -> tuple[bytes, list[bytes]]:
    """The entry's data, and those of the parts that must be there before it."""
    encoded = encode_batch(batch)
    if len(encoded) <= MAX_NODE_BYTES:
        return frame(_ENTRY.pack(ENTRY, VERSION, mark, 0) + encoded), []
    parts = chunks_of(encoded)
    return frame(_ENTRY.pack(ENTRY, VERSION, mark, len(parts))), parts


def chunks_of(data: bytes) -> list[bytes]:
    return [data[start : start + MAX_NODE_BYTES] for start in range(0, len(data), MAX_NODE_BYTES)]


def decode_entry(data: bytes, name: str) -> Entry:
    payload = _sound(data, name)
    check_kind(payload, ENTRY)
    _, _, mark, parts = _ENTRY.unpack_from(payload)
    return Entry(mark, parts, payload[_ENTRY.size :])


def decode_entry_batch(encoded: bytes, name: str) -> MetadataBatch:
    """The batch of an entry, whose parts were put together."""
    return decode_batch(_sound(encoded, name))


def _sound(data: bytes, name: str) -> bytes:
    placed = next(frames(data), None)
    if placed is None or placed.end != len(data):
        raise DoorError(f"{name} in ZooKeeper is damaged: restore ZooKeeper from a copy")
    return placed.payload
