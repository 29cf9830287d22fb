"""Small text files that are replaced whole or not at all."""

from penstock.world.disk import Disk


def write_atomically(disk: Disk, directory: str, name: str, text: str) -> None:
    """Readers see the old text or the new one, also after a power cut."""
    path = f"{directory}/{name}"
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        data = text.encode()
        if file.append([data]) != len(data):
            raise OSError(f"{temporary}: the disk took only a part of {len(data)} bytes")
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
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
