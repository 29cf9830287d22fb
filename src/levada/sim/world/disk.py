"""The Disk and AsyncDisk doors of a simulated process."""

import asyncio
import errno
import os
import random
from collections.abc import Sequence
from typing import Final

from levada.model.buffers import Buffer
from levada.sim.world.filesystem import Directory, FileSystem
from levada.sim.world.incarnation import Incarnation
from levada.sim.world.pages import PageImage, Pages
from levada.sim.world.trace import NANOSECONDS_PER_MS, Trace
from levada.world.disk import File, SyncFailed, is_out_of_files

EPOCH_MS: Final = 1_700_000_000_000
UNLIMITED_BYTES: Final = 1 << 40
READ_DELAY_US: Final = (50, 5_000)
SYNC_DELAY_US: Final = (200, 20_000)
REMOVE_DELAY_US: Final = (20, 2_000)


class SimDisk:
    def __init__(self, file_system: FileSystem, incarnation: Incarnation, trace: Trace, chance: random.Random) -> None:
        self.file_system = file_system
        self.incarnation = incarnation
        self.cold_probability = 0.05
        self._trace = trace
        self._chance = chance

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> "SimFile":
        self.operate("open", path)
        if exclusive and self.file_system.has(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        return SimFile(self, path, self.file_system.open_file(path, create=create))

    def names(self, path: str) -> list[str]:
        self.operate("names", path)
        return sorted(self.file_system.find_directory(path).entries)

    def exists(self, path: str) -> bool:
        self.operate("exists", path)
        return self.file_system.has(path)

    def absolute(self, path: str) -> str:
        return path

    def space(self, path: str) -> tuple[int, int]:
        used, capacity = self.file_system.used, self.file_system.capacity
        total = UNLIMITED_BYTES if capacity is None else capacity
        return total, max(total - used, 0)

    def network_file_system(self, path: str) -> str | None:
        return None

    def make_directories(self, path: str) -> None:
        self.operate("make_directories", path)
        self.file_system.make_directories(path)

    def rename(self, old: str, new: str) -> None:
        self.operate("rename", old, f" to {new}")
        self.file_system.rename(old, new)

    def remove(self, path: str) -> None:
        self.operate("remove", path)
        self.file_system.remove(path)

    def remove_tree(self, path: str) -> None:
        self.operate("remove_tree", path)
        self.file_system.remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self.sync("sync_directory", path)
        self.file_system.commit(self.file_system.pending(self.file_system.find_directory(path)))

    def lock(self, path: str) -> "SimLock":
        self.operate("lock", path)
        pages = self.file_system.open_file(path, create=True)
        if pages in self.file_system.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        self.file_system.locks[pages] = self.incarnation
        return SimLock(self.file_system, pages, self.incarnation)

    def operate(self, operation: str, path: str, detail: str = "", data: Buffer = b"") -> None:
        """What every operation begins with: is the process alive, does it die here, does the operation fail."""
        self.incarnation.check()
        self.file_system.faults.before_operation(self.incarnation.process)
        self.incarnation.check()
        self._trace.note(f"{self.incarnation} {operation} {path}{detail}", data)
        self.file_system.faults.check(operation, path)

    def sync(self, operation: str, path: str, detail: str = "") -> None:
        """The same for what tells whether the device has something."""
        try:
            self.operate(operation, path, detail)
        except OSError as error:
            if operation == "sync_directory" and is_out_of_files(error):
                # Unlike a file, it has to be opened for it.
                raise
            raise SyncFailed(error.errno, error.strerror, path) from error

    def now_ms(self) -> int:
        return EPOCH_MS + self._trace.now_ns() // NANOSECONDS_PER_MS

    def is_cold(self) -> bool:
        return self._chance.random() < self.cold_probability


class SimFile:
    def __init__(self, disk: SimDisk, path: str, pages: Pages) -> None:
        self.pages = pages
        self._disk = disk
        self._path = path
        self._open = True
        self._failed_syncs_told = pages.failed_syncs

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        self._check_open()
        return len(self.pages.data)

    def modified_ms(self) -> int:
        self._check_open()
        return self.pages.modified_ms

    def set_modified_ms(self, modified_ms: int) -> None:
        self._check_open()
        self._disk.operate("set_modified", self._path, f" to {modified_ms}")
        self.pages.modified_ms = modified_ms

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        self._disk.operate("read", self._path, f" {position}+{size}")
        return bytes(self.pages.data[position : position + size])

    def read_warm(self, position: int, size: int, into: bytearray | None = None) -> bytes | None:
        if self._disk.is_cold():
            self._check_open()
            return None
        return self.read(position, size)

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._check_open()
        data = b"".join(buffers)
        self._disk.operate("append", self._path, f" at {len(self.pages.data)}", data)
        file_system = self._disk.file_system
        room = file_system.room(len(data))
        if data and not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self.pages.append(data[:room])
        self.pages.modified_ms = self._disk.now_ms()
        file_system.charge(self.pages, room)
        return room

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.operate("truncate", self._path, f" to {size}")
        self._disk.file_system.charge(self.pages, size - len(self.pages.data))
        self.pages.truncate(size)
        self.pages.modified_ms = self._disk.now_ms()

    def sync(self) -> None:
        self._check_open()
        try:
            self._disk.sync("sync", self._path, f" {len(self.pages.data)}")
        except OSError:
            self.fail_sync(self.pages.begin_sync())
            raise
        self.end_sync(self.pages.begin_sync())

    def end_sync(self, image: PageImage) -> None:
        """Linux tells each descriptor once of a sync that failed while it was open, also through another (errseq_t)."""
        if self._failed_syncs_told == self.pages.failed_syncs:
            self.pages.end_sync(image)
            return
        self._failed_syncs_told = self.pages.failed_syncs
        # ext4 returns before it commits the length of the file.
        self.pages.give_up_sync(image)
        raise SyncFailed(errno.EIO, os.strerror(errno.EIO), self._path)

    def fail_sync(self, image: PageImage) -> None:
        self.pages.fail_sync(image)
        self._failed_syncs_told = self.pages.failed_syncs

    def close(self) -> None:
        self._open = False

    def _check_open(self) -> None:
        self._disk.incarnation.check()
        if not self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class SimLock:
    def __init__(self, file_system: FileSystem, pages: Pages, holder: Incarnation) -> None:
        self._file_system = file_system
        self._pages = pages
        self._holder: Incarnation | None = holder

    def release(self) -> None:
        # Only our own claim: the file may be locked again by the process after us.
        if self._holder is not None and self._file_system.locks.get(self._pages) is self._holder:
            del self._file_system.locks[self._pages]
        self._holder = None


class SimAsyncDisk:
    """The same calls after a virtual delay, and in the middle of it anything may happen."""

    def __init__(self, disk: SimDisk, chance: random.Random) -> None:
        self._disk = disk
        self._chance = chance

    async def read(self, file: File, position: int, size: int) -> bytes:
        pages = self._opened(file).pages
        await self._delay(READ_DELAY_US)
        self._disk.operate("read", file.path, f" {position}+{size}")
        return bytes(pages.data[position : position + size])

    async def sync(self, file: File) -> None:
        opened = self._opened(file)
        # As the real one: a device goes on with what it was told, though the caller be cancelled.
        syncing = self._sync(opened, opened.size(), opened.pages.begin_sync())
        await asyncio.shield(asyncio.get_running_loop().create_task(syncing))

    async def _sync(self, file: SimFile, size: int, image: PageImage) -> None:
        try:
            await self._delay(SYNC_DELAY_US)
            self._disk.sync("sync", file.path, f" {size}")
        except OSError:
            file.fail_sync(image)
            raise
        except BaseException:
            file.pages.give_up_sync(image)
            raise
        file.end_sync(image)

    async def sync_directory(self, path: str) -> None:
        self._disk.incarnation.check()
        directory: Directory = self._disk.file_system.find_directory(path)
        covered = self._disk.file_system.pending(directory)
        await self._delay(SYNC_DELAY_US)
        self._disk.sync("sync_directory", path)
        self._disk.file_system.commit(covered)

    async def remove(self, path: str) -> None:
        await self._delay(REMOVE_DELAY_US)
        self._disk.remove(path)

    async def remove_tree(self, path: str) -> None:
        """File by file: a process may die with a tree half gone."""
        for name in self._disk.names(path):
            await self.remove(f"{path}/{name}")
        await self._delay(REMOVE_DELAY_US)
        self._disk.remove_tree(path)

    def _opened(self, file: File) -> SimFile:
        assert isinstance(file, SimFile)
        # As the real one, which duplicates the descriptor: from here on the file may be closed or removed.
        file.size()
        return file

    async def _delay(self, range_us: tuple[int, int]) -> None:
        await asyncio.sleep(self._chance.randint(*range_us) / 1_000_000)
