"""Small text files that are replaced whole or not at all."""

from collections.abc import Mapping
from errno import ENOSPC

from levada.storage.formats import CorruptFile
from levada.world.disk import Disk


def write_atomically(disk: Disk, directory: str, name: str, text: str, *, durable: bool = True) -> None:
    """Readers see the old text or the new one; if durable also after a power cut, which may else leave any."""
    path = f"{directory}/{name}"
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        data = text.encode()
        if file.append([data]) != len(data):
            raise OSError(ENOSPC, f"the disk took only a part of {len(data)} bytes", temporary)
        if durable:
            file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    if durable:
        disk.sync_directory(directory)


def read_text(disk: Disk, directory: str, name: str) -> str | None:
    """The text, or None if there is no such file."""
    path = f"{directory}/{name}"
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read(0, file.size()).decode(errors="replace")
    finally:
        file.close()


def write_offsets(
    disk: Disk, directory: str, name: str, offsets: Mapping[tuple[str, int], int], *, durable: bool = True
) -> None:
    """An offset checkpoint file: one offset per partition."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    write_atomically(disk, directory, name, "\n".join(["0", str(len(lines)), *lines]) + "\n", durable=durable)


def read_offsets(disk: Disk, directory: str, name: str) -> dict[tuple[str, int], int]:
    """The offsets of a checkpoint file, none if there is no file; CorruptFile when it cannot be read."""
    lines = (read_text(disk, directory, name) or "").splitlines()
    if not lines:
        return {}
    offsets: dict[tuple[str, int], int] = {}
    try:
        if lines[0] != "0" or int(lines[1]) != len(lines) - 2:
            raise CorruptFile(f"{directory}/{name}: version or count is wrong")
        for line in lines[2:]:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
    except (IndexError, ValueError) as error:
        raise CorruptFile(f"{directory}/{name}: {error}") from error
    return offsets
