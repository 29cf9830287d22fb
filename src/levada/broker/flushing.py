"""Brings logs to the device off the event loop."""

from levada.model.errors import KafkaStorageError
from levada.model.metrics import Timer
from levada.storage.log import Log
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk

NANOSECONDS_PER_US = 1_000


class Flushing:
    def __init__(self, async_disk: AsyncDisk, clock: Clock, durations: Timer) -> None:
        self._async_disk = async_disk
        self._clock = clock
        self._durations = durations

    async def flush(self, log: Log) -> None:
        """Sync what was appended until now, wherever the log is by then; a failure takes it offline."""
        started_ns = self._clock.perf_ns()
        while log.successor is not None or not await self._is_synced(log):
            assert log.successor is not None
            log = log.successor
        self._durations.record((self._clock.perf_ns() - started_ns) // NANOSECONDS_PER_US)

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
            log.fail_flush(error)
            raise KafkaStorageError(f"cannot flush {log.directory}: {error}") from error
        if log.successor is not None:
            return False
        log.end_flush(due)
        return True
