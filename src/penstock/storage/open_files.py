"""A bounded number of open files: the ones used last."""

from collections import OrderedDict
from collections.abc import Callable

from penstock.world.disk import Disk, File

DEFAULT_LIMIT = 4096
LOADED_INDEXES = 64
"""Indexes of closed segments that are kept in memory, 2 MB at most each."""


class OpenFiles:
    """Opens files when they are asked for and lets go of the one that was not used for longest.

    Letting go closes it, unless it is on its way to a client: a file closes itself when nobody holds it any more.
    """

    def __init__(self, disk: Disk, limit: int = DEFAULT_LIMIT) -> None:
        self._disk = disk
        self._limit = limit
        self._open: OrderedDict[str, File] = OrderedDict()
        self._loaded: OrderedDict[str, Callable[[], None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str, *, create: bool = False) -> File:
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        file = self._disk.open(path, create=create)
        self._open[path] = file
        if len(self._open) > self._limit:
            self._open.popitem(last=False)
        return file

    def note_loaded(self, path: str, forget: Callable[[], None]) -> None:
        """Something was read into memory; when too much is, what was loaded first is forgotten first."""
        self._loaded[path] = forget
        self._loaded.move_to_end(path)
        if len(self._loaded) > LOADED_INDEXES:
            _, forget_oldest = self._loaded.popitem(last=False)
            forget_oldest()

    def close(self, path: str) -> None:
        self._open.pop(path, None)
        self._loaded.pop(path, None)

    def close_all(self) -> None:
        self._open.clear()
