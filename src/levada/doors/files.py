"""The small files of a coordinator's directory: read whole, replaced whole, and numbered."""

from levada.world.disk import Disk


class CoordinatorFiles:
    def __init__(self, disk: Disk, directory: str, writer: str) -> None:
        self._disk = disk
        self._directory = directory
        self._writer = writer
        """Sets this process's unfinished files apart from others'."""

    def make(self) -> None:
        """Make the directory, so that it lasts: a power cut could take all of one that its parent does not know yet."""
        parents = [parent_of(self._directory)]
        while not self._disk.exists(parents[-1]):
            parents.append(parent_of(parents[-1]))
        self._disk.make_directories(self._directory)
        for parent in parents:
            self._disk.sync_directory(parent)

    def path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def numbers(self, prefix: str) -> list[int]:
        """The numbers of the files that are called so, in order."""
        names = [name.removeprefix(prefix) for name in self._disk.names(self._directory) if name.startswith(prefix)]
        return sorted(int(name) for name in names if name.isdigit())

    def newest(self, prefix: str) -> int:
        """The highest of these numbers, -1 if there is none."""
        return max(self.numbers(prefix), default=-1)

    def read(self, name: str, position: int = 0, size: int | None = None) -> bytes:
        """A file from a position on; nothing for one that is not there."""
        try:
            file = self._disk.open(self.path(name))
        except FileNotFoundError:
            return b""
        try:
            return file.read(position, max(file.size() - position, 0) if size is None else size)
        finally:
            file.close()

    def remove(self, name: str) -> None:
        """What is not there needs no removing."""
        try:
            self._disk.remove(self.path(name))
        except FileNotFoundError:
            pass

    def write_whole(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Readers see the old content or the new one."""
        temporary = self.path(f".{name}.{self._writer}.tmp")
        if self._disk.exists(temporary):
            self._disk.remove(temporary)
        file = self._disk.open(temporary, create=True)
        try:
            if file.append([data]) != len(data):
                raise OSError(f"{temporary}: the disk took only a part of {len(data)} bytes")
            if durable:
                file.sync()
        finally:
            file.close()
        self._disk.rename(temporary, self.path(name))


def parent_of(path: str) -> str:
    parent, slash, _ = path.rstrip("/").rpartition("/")
    return parent or slash or "."
