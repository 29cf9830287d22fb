"""Copies files of a log into another directory, where they are on the device when it is done."""

from collections.abc import Callable, Iterable
from typing import Final

from levada.world.disk import Disk

CHUNK_BYTES: Final = 1 << 20


def copy_files(disk: Disk, source: str, target: str, names: Iterable[str], pause: Callable[[int], None]) -> None:
    """`pause` hears of every piece; what is there already under such a name is replaced."""
    for name in names:
        _copy(disk, f"{source}/{name}", f"{target}/{name}", pause)
    disk.sync_directory(target)


def _copy(disk: Disk, source: str, target: str, pause: Callable[[int], None]) -> None:
    original = disk.open(source)
    try:
        copy = disk.open(target, create=True)
        try:
            copy.truncate(0)
            size, position = original.size(), 0
            while position < size:
                data = original.read(position, min(CHUNK_BYTES, size - position))
                if not data or copy.append([data]) != len(data):
                    raise OSError(f"{target}: only {position} of {size} bytes could be copied")
                position += len(data)
                pause(len(data))
            copy.set_modified_ms(original.modified_ms())
            copy.sync()
        finally:
            copy.close()
    finally:
        original.close()
