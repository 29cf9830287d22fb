"""Brings logs to the device off the event loop."""

import asyncio
import logging

from levada.model.errors import ApiError
from levada.model.metrics import Timer
from levada.storage.log import Log
from levada.world.background import start
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk

logger = logging.getLogger(__name__)

NANOSECONDS_PER_US = 1_000


class Flushing:
    """One flush of a log at a time, and those who come while it runs share the next.

    A flush belongs to its log: it runs to its end though every request that waits for it be cancelled, and what its
    syncs report counts. The kernel tells of lost pages once, so an error that goes unheard would be acknowledged by the
    flush after it.
    """

    def __init__(self, async_disk: AsyncDisk, clock: Clock, durations: Timer) -> None:
        self._async_disk = async_disk
        self._clock = clock
        self._durations = durations
        self._running: dict[Log, asyncio.Task[None]] = {}
        self._next: dict[Log, asyncio.Future[None]] = {}
        """The outcomes of flushes that have not begun."""

    def begin(self, log: Log) -> "asyncio.Future[None]":
        """The outcome of the flush that covers what was appended until now; a failure takes the log offline.

        KafkaStorageError without that if no file could be opened for it: then the caller, or the upkeep of the node,
        tries again. A caller that waits for the outcome shields it.
        """
        outcome = self._next.get(log)
        if outcome is None:
            loop = asyncio.get_running_loop()
            outcome = self._next[log] = loop.create_future()
            # The log knows of the failure even if no request waits for the outcome.
            outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        if log not in self._running:
            self._running[log] = start(f"flush of {log.directory}", self._run(log))
        return outcome

    async def flush(self, log: Log) -> None:
        """Bring what was appended until now to the device, wherever the log is by then."""
        await asyncio.shield(self.begin(log))

    async def drain(self) -> None:
        """Wait until nothing is under way."""
        while self._running:
            await asyncio.shield(next(iter(self._running.values())))

    async def _run(self, log: Log) -> None:
        try:
            while (outcome := self._next.pop(log, None)) is not None:
                await self._settle(log, outcome)
        finally:
            del self._running[log]

    async def _settle(self, log: Log, outcome: "asyncio.Future[None]") -> None:
        started_ns = self._clock.perf_ns()
        try:
            if log.successor is not None or not await self._is_synced(log):
                assert log.successor is not None
                await self.flush(log.successor)
            else:
                self._durations.record((self._clock.perf_ns() - started_ns) // NANOSECONDS_PER_US)
            outcome.set_result(None)
        except ApiError as error:
            outcome.set_exception(error)
        except Exception as error:
            # An error of our own: what is on the device cannot be known.
            logger.exception("flush failed log=%s", log.directory)
            outcome.set_exception(log.fail_flush(OSError(repr(error))))
        finally:
            outcome.cancel()

    async def _is_synced(self, log: Log) -> bool:
        """False if the log moved meanwhile: what counts is its new place, whatever happened in the old one."""
        due = log.begin_flush()
        try:
            for file in due.files:
                await self._async_disk.sync(file)
            for directory in due.directories:
                await self._async_disk.sync_directory(directory)
        except OSError as error:
            if log.successor is not None:
                return False
            raise log.fail_flush(error, due) from error
        if log.successor is not None:
            return False
        log.end_flush(due)
        return True
