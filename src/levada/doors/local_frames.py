"""What only the files of the local coordinator have: a first frame that names the predecessor, and torn ends."""

from dataclasses import dataclass
from struct import Struct

from levada.doors.frames import BATCH, FRAME_HEAD_SIZE, VERSION, check_kind, frame, frame_at

_START = Struct(">cBqq")
_LENGTH = Struct(">I")

START = b"s"


@dataclass(frozen=True, slots=True)
class Start:
    """The first frame of a log file: which file comes before it, and how much of that counts."""

    predecessor: int
    """The epoch of the file before this one, 0 if there is none."""
    next_offset: int
    """Up to which the predecessor counts, and where this file goes on."""
    carried: bytes = b""
    """The payload of the batch at that offset, taken over from the predecessor, which may not have synced it."""


def frame_size(head: bytes) -> int:
    """How long the frame is that begins so."""
    return FRAME_HEAD_SIZE + int(_LENGTH.unpack_from(head)[0]) if len(head) == FRAME_HEAD_SIZE else 0


def has_batch_behind(data: bytes, position: int) -> bool:
    """Whether a sound batch lies anywhere behind a place that has none: then what is between them was damaged."""
    for start in range(position + 1, len(data) - FRAME_HEAD_SIZE):
        # Cheap, and seldom true by chance.
        if data[start + FRAME_HEAD_SIZE : start + FRAME_HEAD_SIZE + 1] == BATCH and frame_at(data, start) is not None:
            return True
    return False


def encode_start(start: Start) -> bytes:
    return frame(_START.pack(START, VERSION, start.predecessor, start.next_offset) + start.carried)


def decode_start(payload: bytes) -> Start:
    check_kind(payload, START)
    _, _, predecessor, next_offset = _START.unpack_from(payload)
    return Start(predecessor, next_offset, payload[_START.size :])
