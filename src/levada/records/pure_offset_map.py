"""The last offset of each key, in plain Python: the twin of the compiled map, with the same answers."""

from hashlib import blake2b

from levada.model.buffers import Buffer
from levada.records.pure import rows
from levada.records.record import Sifted

NOT_THERE = -1
HASH_BYTES = 16


class OffsetMap:
    def __init__(self, slot_count: int, limit: int, key: bytes) -> None:
        if not 0 < limit < slot_count:
            raise ValueError(f"{limit} keys in {slot_count} slots")
        if len(key) != HASH_BYTES:
            raise ValueError("the key of a hash has 16 bytes")
        self._limit = limit
        self._key = key
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = NOT_THERE

    def __len__(self) -> int:
        return len(self._offsets)

    def note(self, body: Buffer, count: int, base_offset: int, from_offset: int) -> bool:
        """Remember the offset of each record with a key; False once there is no room, and no more is looked at."""
        for offset, _, key, _, _ in rows(body, count, base_offset, 0):
            if key is None or offset < from_offset:
                continue
            if len(self._offsets) >= self._limit:
                return False
            self._offsets[self._hash(key)] = self.latest_offset = offset
        return True

    def sift(self, body: Buffer, count: int, base_offset: int, drops_tombstones: bool) -> Sifted:
        """Which records of a section stay: those past the map, and the last of each key."""
        flags = bytearray()
        keyless = 0
        has_tombstone = False
        for offset, _, key, value, _ in rows(body, count, base_offset, 0):
            if offset > self.latest_offset:
                stays = True
            elif key is None:
                keyless += 1
                stays = False
            else:
                is_last = offset >= self._offsets.get(self._hash(key), NOT_THERE)
                stays = is_last and (value is not None or not drops_tombstones)
            flags.append(stays)
            has_tombstone = has_tombstone or (stays and value is None)
        return Sifted(sum(flags), keyless, has_tombstone, flags)

    def _hash(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=HASH_BYTES, key=self._key).digest()
