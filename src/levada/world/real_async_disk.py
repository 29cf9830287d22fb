"""The slow disk calls in a few threads, which do nothing but system calls and so hold no interpreter lock."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from levada.world.disk import File
from levada.world.real_disk import RealDisk, RealFile, read_fully, sync_descriptor

IO_THREADS: Final = 4

T = TypeVar("T")


class RealAsyncDisk:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(IO_THREADS, thread_name_prefix="levada-io")
        self._disk = RealDisk()

    async def read(self, file: File, position: int, size: int) -> bytes:
        return await self._with_descriptor(file, lambda fd: read_fully(fd, position, size))

    async def sync(self, file: File) -> None:
        await self._with_descriptor(file, sync_descriptor)

    async def sync_directory(self, path: str) -> None:
        await self._with_path(self._disk.sync_directory, path)

    async def remove(self, path: str) -> None:
        await self._with_path(self._disk.remove, path)

    async def remove_tree(self, path: str) -> None:
        await self._with_path(self._disk.remove_tree, path)

    def close(self) -> None:
        """Let running calls end; for tests and a clean exit, the process's end does it otherwise."""
        self._threads.shutdown()

    async def _with_path(self, call: Callable[[str], None], path: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, call, path)

    async def _with_descriptor(self, file: File, call: Callable[[int], T]) -> T:
        assert isinstance(file, RealFile)
        # The file may be closed while the call waits or runs.
        fd = file.borrow()
        try:
            called = asyncio.get_running_loop().run_in_executor(self._threads, call, fd)
        except BaseException:
            file.give_back()
            raise
        called.add_done_callback(lambda _: file.give_back())
        # Shielded: a cancelled call may have begun, and then the descriptor must not be closed under it.
        return await asyncio.shield(called)
