"""A bounded number of open files: the ones used last."""

from collections import OrderedDict
from collections.abc import Callable

from levada.model.buffers import LentBuffers
from levada.world.disk import Disk, File

DEFAULT_LIMIT = 4096
LOADED_INDEXES = 64
"""Indexes of closed segments that are kept in memory, 2 MB at most each."""
READ_WINDOWS = 64
"""Stretches of segments that are kept in memory, 256 KB at most each."""


class Loaded:
    """What was read into memory; when too much is, what was loaded first is forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._loaded: OrderedDict[str, Callable[[], None]] = OrderedDict()

    def note(self, path: str, forget: Callable[[], None]) -> None:
        self._loaded[path] = forget
        self._loaded.move_to_end(path)
        if len(self._loaded) > self._limit:
            _, forget_oldest = self._loaded.popitem(last=False)
            forget_oldest()

    def drop(self, path: str) -> None:
        self._loaded.pop(path, None)


class OpenFiles:
    """Opens files when they are asked for and lets go of the one that was opened first.

    Letting go closes it, unless it is on its way to a client: a file closes itself with the last reference to it. One
    that is in use is opened again at once, which costs less than to note with every use which was used last.
    """

    def __init__(self, disk: Disk, limit: int = DEFAULT_LIMIT) -> None:
        self._disk = disk
        self._limit = limit
        self._open: dict[str, File] = {}
        self._holders: dict[str, Callable[[], None]] = {}
        self.indexes = Loaded(LOADED_INDEXES)
        self.windows = Loaded(READ_WINDOWS)
        self.lent = LentBuffers()
        """For what is read from any of them to be handed on."""

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str, *, create: bool = False) -> File:
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = self._disk.open(path, create=create)
            if len(self._open) > self._limit:
                self._let_go(next(iter(self._open)))
        return file

    def hold(self, path: str, let_go: Callable[[], None]) -> File:
        """The same for one who keeps it at hand, and is told when to let go of it."""
        file = self.get(path)
        self._holders[path] = let_go
        return file

    def close(self, path: str) -> None:
        self._let_go(path)
        self.indexes.drop(path)
        self.windows.drop(path)

    def close_all(self) -> None:
        for path in list(self._open):
            self._let_go(path)

    def _let_go(self, path: str) -> None:
        self._open.pop(path, None)
        holder_lets_go = self._holders.pop(path, None)
        if holder_lets_go is not None:
            holder_lets_go()
