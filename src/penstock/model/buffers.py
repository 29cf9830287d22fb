"""The types of bytes that pass through without being copied."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


def has_views(memory: bytearray) -> bool:
    """Whether somebody still looks into it, so that it must not be filled anew."""
    try:
        # Refused while there are views, as its memory could move; nothing moves where the size stays.
        memory.append(memory.pop())
    except BufferError:
        return True
    except IndexError:
        return False
    return False
