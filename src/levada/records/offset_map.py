"""Picks the compiled map of offsets where it was built, and its pure twin where it was not."""

from typing import Final

try:
    from levada.records._offset_map import OffsetMap
except ImportError:
    from levada.records.pure_offset_map import OffsetMap  # type: ignore[assignment]

SLOT_BYTES: Final = 24
"""What a key takes: 16 bytes of hash and its offset, as in Apache."""


def offset_map(memory_bytes: int, load_factor: float, key: bytes) -> OffsetMap:
    """An empty map that takes at most so much memory, of which so large a part is used before it counts as full."""
    slot_count = max(memory_bytes // SLOT_BYTES, 2)
    return OffsetMap(slot_count, max(min(int(slot_count * load_factor), slot_count - 1), 1), key)


__all__ = ["OffsetMap", "offset_map"]
