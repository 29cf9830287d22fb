"""The last offset of each key in the dirty part of a log, in a bounded amount of memory."""

from hashlib import md5
from typing import Final

SLOT_BYTES: Final = 24
"""What Apache counts for a key: 16 bytes of hash and its offset."""
NOT_THERE: Final = -1


class OffsetMap:
    """Keys are known by a hash of 16 bytes, as in Apache; two keys of one hash would be taken for one."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self.limit = int(memory_bytes // SLOT_BYTES * load_factor)
        """How many keys there may be."""
        self.latest_offset = NOT_THERE
        """All records up to here are accounted for."""
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.limit

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_hash(key)] = offset
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        return self._offsets.get(_hash(key), NOT_THERE)


def _hash(key: bytes) -> bytes:
    return md5(key, usedforsecurity=False).digest()
