"""The files of a segment's indexes: read whole, written whole, and looked at when a log is opened."""

from errno import ENOSPC

from levada.storage.formats import OFFSET_ENTRY, TIME_ENTRY, CorruptFile
from levada.storage.open_files import OpenFiles
from levada.world.disk import Disk


def read_index(disk: Disk, files: OpenFiles, path: str, entry_size: int) -> bytes:
    """The whole entries of an index; none if there is no file."""
    if not disk.exists(path):
        return b""
    file = files.get(path)
    size = file.size()
    return file.read(0, size - size % entry_size)


def write_index(disk: Disk, files: OpenFiles, path: str, data: bytes, preallocate: int = 0) -> None:
    """Put all entries into the file, which may be given the size that it can grow to."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        if data and file.append([data]) != len(data):
            raise OSError(f"{path}: the disk took only a part of {len(data)} bytes")
        if preallocate > len(data):
            file.truncate(preallocate)
    finally:
        file.close()
    files.close(path)


def extend_index(disk: Disk, files: OpenFiles, path: str, written: int, data: bytes) -> None:
    """Put entries behind the `written` bytes that a preallocated file has of them; it keeps its size."""
    file = disk.open(path, create=True)
    try:
        size = file.size()
        file.truncate(written)
        try:
            if file.append([data]) != len(data):
                raise OSError(ENOSPC, f"the disk took only a part of {len(data)} bytes", path)
        finally:
            file.truncate(max(size, written + len(data)))
    finally:
        file.close()
    files.close(path)


def check_index_files(disk: Disk, files: OpenFiles, index_path: str, time_index_path: str, log_size: int) -> None:
    """CorruptFile if they cannot be what was written; their inner entries are not looked at."""
    for path, entry in ((index_path, OFFSET_ENTRY), (time_index_path, TIME_ENTRY)):
        if not disk.exists(path):
            continue
        file = files.get(path)
        size = file.size()
        if size % entry.size:
            raise CorruptFile(f"{path} has {size} bytes, no multiple of {entry.size}")
        if not size:
            continue
        first, last = entry.unpack(file.read(0, entry.size)), entry.unpack(file.read(size - entry.size, entry.size))
        relative, position = (last[0], last[1]) if entry is OFFSET_ENTRY else (last[1], 0)
        if relative < 0 or not 0 <= position < log_size or last[0] < first[0]:
            raise CorruptFile(f"{path} ends with {last}")
