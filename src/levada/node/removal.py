"""Removes what logs and deleted topics leave behind when its time has come, off the event loop."""

import asyncio
import logging

from levada.storage.log_directory import DELETED
from levada.world.background import start
from levada.world.disk import AsyncDisk

logger = logging.getLogger(__name__)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "."


class Removal:
    """One path after the other: a topic of a thousand partitions must not take every I/O thread from the readers."""

    def __init__(self, async_disk: AsyncDisk) -> None:
        self._async_disk = async_disk
        self._waiting: list[tuple[int, str]] = []
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    def retire(self, path: str, due_ms: int) -> None:
        """Take a file, or the directory of a deleted log, from which no new request is served."""
        self._waiting.append((due_ms, path))

    def begin(self, now_ms: int) -> None:
        """Start on what is due, unless what was due before is still on its way."""
        if self._running is not None and not self._running.done():
            return
        if any(due_ms <= now_ms for due_ms, _ in self._waiting):
            self._running = start("removal of retired files", self.remove_due(now_ms))

    async def remove_due(self, now_ms: int) -> None:
        due = [one for one in self._waiting if one[0] <= now_ms]
        self._waiting = [one for one in self._waiting if one[0] > now_ms]
        unsynced = await self._sync_parents({parent_of(path) for _, path in due if path.endswith(DELETED)})
        for due_ms, path in due:
            if self._is_closed:
                return
            if path.endswith(DELETED) and parent_of(path) in unsynced:
                self._waiting.append((due_ms, path))
            else:
                await self._remove(path)

    async def _sync_parents(self, directories: set[str]) -> set[str]:
        """Else a power cut could undo the rename of a directory and not the removal of what says whose it is.

        Those that could not be synced.
        """
        failed = set()
        for directory in directories:
            try:
                await self._async_disk.sync_directory(directory)
            except OSError as error:
                logger.error("cannot sync directory=%s reason=%r", directory, str(error))
                failed.add(directory)
        return failed

    async def close(self) -> None:
        """Let the one under way end, for the files are another process's soon; the next start removes the others."""
        self._is_closed = True
        if self._running is not None:
            await self._running

    async def _remove(self, path: str) -> None:
        try:
            if path.endswith(DELETED):
                await self._async_disk.remove_tree(path)
                logger.info("removed directory=%s, whose log is not used any more", path)
            else:
                await self._async_disk.remove(path)
        except FileNotFoundError:
            # It went with its directory.
            return
        except OSError as error:
            logger.error("cannot remove file=%s reason=%r", path, str(error))
