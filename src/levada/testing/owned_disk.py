"""The disk of an embedded broker: real files, which need not outlive the machine and so are never flushed."""

import contextlib
import os
from weakref import WeakSet

from levada.world.disk import File
from levada.world.real_async_disk import RealAsyncDisk
from levada.world.real_disk import RealDisk, RealFile, RealLock


class UnsyncedFile(RealFile):
    __slots__ = ("__weakref__",)

    def sync(self) -> None:
        """What was written is with the kernel: that is enough for a broker that is killed."""


class OwnedDisk(RealDisk):
    """Also knows its broker's files and locks: the kernel takes them from a process that dies, and here none does."""

    def __init__(self) -> None:
        self._files: WeakSet[UnsyncedFile] = WeakSet()
        self._locks: list[RealLock] = []

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> RealFile:
        opened = super().open(path, create=create, exclusive=exclusive)
        file = UnsyncedFile(path, opened.duplicate())
        opened.close()
        self._files.add(file)
        return file

    def sync_directory(self, path: str) -> None:
        """As for files."""

    def rename(self, old: str, new: str) -> None:
        # ext4 flushes a file that replaces another; the broker cannot die between these two calls.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        super().rename(old, new)

    def lock(self, path: str) -> RealLock:
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    def release_all(self) -> None:
        for lock in self._locks:
            lock.release()
        for file in list(self._files):
            file.abandon()


class UnsyncedAsyncDisk(RealAsyncDisk):
    async def sync(self, file: File) -> None:
        """As without asyncio."""

    async def sync_directory(self, path: str) -> None:
        """As without asyncio."""
