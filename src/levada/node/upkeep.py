"""What a node does beside answering: flushes that are due, retention, removal of retired files, checkpoints."""

import asyncio
import logging
from dataclasses import dataclass
from itertools import chain

from levada.broker.flushing import Flushing
from levada.broker.replicas import Replicas
from levada.model.errors import ApiError
from levada.node.removal import Removal
from levada.storage.live_indexes import write_index_entries
from levada.storage.log import Log
from levada.storage.log_directories import LogDirectories
from levada.storage.retention import Due, expire, retire
from levada.world.background import OnFatal, cancel_and_wait, start
from levada.world.disk import is_gone, is_out_of_files
from levada.world.world import World

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
INDEXES_A_TICK = 100
"""So many logs get new entries into their indexes' files in one tick; where more are busy, the others' turn is next."""


@dataclass(frozen=True, slots=True)
class Intervals:
    checkpoint_ms: int
    retention_check_ms: int
    producer_check_ms: int = 600_000
    first_retention_check_ms: int = 30_000
    """After the start, if that is sooner: a broker that is started often must come to it too."""


class Upkeep:
    """One task for all logs."""

    def __init__(
        self,
        world: World,
        logs: LogDirectories,
        replicas: Replicas,
        flushing: Flushing,
        intervals: Intervals,
        on_fatal: OnFatal,
    ) -> None:
        self._world = world
        self._flushing = flushing
        self._logs = logs
        self._replicas = replicas
        self._intervals = intervals
        self._on_fatal = on_fatal
        now_ms = world.clock.monotonic_ms()
        self._last_checkpoint_ms = self._last_producer_check_ms = now_ms
        check_ms = intervals.retention_check_ms
        self._last_retention_ms = now_ms - check_ms + min(intervals.first_retention_check_ms, check_ms)
        self._next_index = 0
        self._removal = Removal(world.async_disk)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = start("upkeep of logs", self._run(), self._on_fatal)

    async def stop(self) -> None:
        await cancel_and_wait(self._running)
        await self._removal.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for log in self._logs.logs:
                if log.flush_due(self._world.clock.now_ms()):
                    await self._flush(log)
            await self._replicas.sync_ids(self._world.async_disk)
            await self._replicas.make_missing()
            self.tick()

    def tick(self) -> None:
        """Whatever is due; the loop waits for none of it that takes long."""
        now_ms = self._world.clock.monotonic_ms()
        self._write_index_entries()
        if now_ms - self._last_retention_ms >= self._intervals.retention_check_ms:
            self._last_retention_ms = now_ms
            self._apply_retention()
        if now_ms - self._last_producer_check_ms >= self._intervals.producer_check_ms:
            self._last_producer_check_ms = now_ms
            for log in self._logs.logs:
                log.producers.expire(self._world.clock.now_ms(), log.config.producer_id_expiration_ms)
        for log in self._logs.logs:
            for path in log.take_retired():
                self._removal.retire(path, now_ms + log.config.delete_delay_ms)
        for path, delay_ms in self._replicas.take_retired():
            self._removal.retire(path, now_ms + delay_ms)
        self._removal.begin(now_ms)
        is_due = self._replicas.is_checkpoint_due
        if is_due or now_ms - self._last_checkpoint_ms >= self._intervals.checkpoint_ms:
            self._replicas.is_checkpoint_due = False
            self._last_checkpoint_ms = now_ms
            self._write_checkpoints()

    def _write_index_entries(self) -> None:
        logs = self._logs.logs
        first = self._next_index if self._next_index < len(logs) else 0
        left = INDEXES_A_TICK
        for slot in chain(range(first, len(logs)), range(first)):
            left -= write_index_entries(logs[slot])
            if not left:
                self._next_index = slot + 1
                return

    async def _flush(self, log: Log) -> None:
        try:
            await self._flushing.flush(log)
        except ApiError as error:
            logger.error("flush failed log=%s reason=%r", log.directory, str(error))

    def _apply_retention(self) -> None:
        """Where the logs begin is on record before what lies below goes; on a full disk it goes all the same."""
        expired = [(log, due) for log in self._logs.logs if (due := self._expire(log))]
        if expired:
            self._write_checkpoints()
        for log, due in expired:
            self._retire(log, due)

    def _expire(self, log: Log) -> list[Due]:
        if log.is_offline:
            return []
        try:
            return expire(log, self._world.clock.now_ms())
        except (ApiError, OSError) as error:
            logger.error("retention failed log=%s reason=%r", log.directory, str(error))
            return []

    def _retire(self, log: Log, due: list[Due]) -> None:
        if log.is_offline:
            return
        try:
            count = retire(log, due)
        except ApiError as error:
            logger.error("retention failed log=%s reason=%r", log.directory, str(error))
            return
        self._replicas.notify(log)
        logger.info("retired segments=%d log=%s start_offset=%d", count, log.directory, log.start_offset)

    def _write_checkpoints(self) -> None:
        for directory in self._logs.online:
            try:
                directory.write_checkpoints()
            except OSError as error:
                logger.error("checkpoint failed directory=%s reason=%r", directory.directory, str(error))
                self._replicas.is_checkpoint_due |= is_out_of_files(error)
                if is_gone(error):
                    directory.fail(error)
