"""A bounded number of open files: the ones used last."""

from collections import OrderedDict

from penstock.world.disk import Disk, File

DEFAULT_LIMIT = 512


class OpenFiles:
    """Opens files when they are asked for and lets go of the one that was not used for longest.

    Letting go closes it, unless it is on its way to a client: a file closes itself when nobody holds it any more.
    """

    def __init__(self, disk: Disk, limit: int = DEFAULT_LIMIT) -> None:
        self._disk = disk
        self._limit = limit
        self._open: OrderedDict[str, File] = OrderedDict()

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

    def close(self, path: str) -> None:
        self._open.pop(path, None)

    def close_all(self) -> None:
        self._open.clear()
