"""What a node does beside answering: flushes that are due, retention, removal of retired files, checkpoints."""

import asyncio
import logging
from dataclasses import dataclass

from penstock.broker.flushing import Flushing
from penstock.broker.replicas import Replicas
from penstock.model.errors import KafkaError
from penstock.storage.log import Log
from penstock.storage.log_directory import DELETED, LogDirectory
from penstock.world.world import World

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Intervals:
    checkpoint_ms: int
    retention_check_ms: int
    producer_check_ms: int = 600_000


class Upkeep:
    """One task for all logs of a directory."""

    def __init__(
        self, world: World, logs: LogDirectory, replicas: Replicas, flushing: Flushing, intervals: Intervals
    ) -> None:
        self._world = world
        self._flushing = flushing
        self._logs = logs
        self._replicas = replicas
        self._intervals = intervals
        now_ms = world.clock.monotonic_ms()
        self._last_checkpoint_ms = self._last_retention_ms = self._last_producer_check_ms = now_ms
        self._retired: list[tuple[int, str]] = []

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for log in self._logs.logs:
                if log.flush_due(self._world.clock.now_ms()) or log.has_rolled_unflushed():
                    await self._flush(log)
            await self._replicas.sync_ids(self._world.async_disk)
            self.tick()

    def tick(self) -> None:
        """Whatever is due and does not wait."""
        now_ms = self._world.clock.monotonic_ms()
        if now_ms - self._last_retention_ms >= self._intervals.retention_check_ms:
            self._last_retention_ms = now_ms
            for log in self._logs.logs:
                self._apply_retention(log)
        if now_ms - self._last_producer_check_ms >= self._intervals.producer_check_ms:
            self._last_producer_check_ms = now_ms
            for log in self._logs.logs:
                log.producers.expire(self._world.clock.now_ms(), log.config.producer_id_expiration_ms)
        for log in self._logs.logs:
            self._retired += [(now_ms + log.config.delete_delay_ms, path) for path in log.take_retired()]
        self._retired += [(now_ms + delay_ms, path) for path, delay_ms in self._replicas.take_retired()]
        self._remove_retired(now_ms)
        is_due = self._replicas.is_checkpoint_due
        if is_due or now_ms - self._last_checkpoint_ms >= self._intervals.checkpoint_ms:
            self._replicas.is_checkpoint_due = False
            self._last_checkpoint_ms = now_ms
            self._write_checkpoints()

    async def _flush(self, log: Log) -> None:
        try:
            await self._flushing.flush(log)
        except KafkaError as error:
            logger.error("flush failed log=%s reason=%r", log.directory, str(error))

    def _apply_retention(self, log: Log) -> None:
        if log.is_offline:
            return
        try:
            count = log.apply_retention(self._world.clock.now_ms())
        except (KafkaError, OSError) as error:
            logger.error("retention failed log=%s reason=%r", log.directory, str(error))
            return
        if count:
            self._replicas.notify(log)
            logger.info("retired segments=%d log=%s start_offset=%d", count, log.directory, log.start_offset)

    def _remove_retired(self, now_ms: int) -> None:
        due = [path for due_ms, path in self._retired if due_ms <= now_ms]
        if any(path.endswith(DELETED) for path in due):
            try:
                # Else a power cut could undo the rename of a directory and not the removal of what says whose it is.
                self._world.disk.sync_directory(self._logs.directory)
            except OSError as error:
                logger.error("cannot sync directory=%s reason=%r", self._logs.directory, str(error))
                return
        self._retired = [(due_ms, path) for due_ms, path in self._retired if due_ms > now_ms]
        for path in due:
            try:
                if path.endswith(DELETED):
                    self._world.disk.remove_tree(path)
                    logger.info("removed directory=%s of a deleted topic", path)
                elif self._world.disk.exists(path):
                    self._world.disk.remove(path)
            except OSError as error:
                logger.error("cannot remove file=%s reason=%r", path, str(error))

    def _write_checkpoints(self) -> None:
        try:
            self._logs.write_checkpoints()
        except OSError as error:
            logger.error("checkpoint failed reason=%r", str(error))
