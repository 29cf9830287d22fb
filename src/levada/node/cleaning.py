"""Keeps compacted logs clean: the dirtiest first, in worker processes, as many at a time as there may be."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from levada.broker.broker_config import BrokerConfig
from levada.broker.cleaning_figures import CleaningFigures, Pass
from levada.broker.flushing import Flushing
from levada.model.errors import KafkaStorageError
from levada.node.cleaning_task import TASK, encode
from levada.storage.cleaning.cleaner import Cleaned, Order, order_for
from levada.storage.cleaning.dirty import DirtyPart, dirty_part
from levada.storage.cleaning.task import Faulty, Hindered, decode_cleaned, encode_order
from levada.storage.log import Log
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import LogDirectory
from levada.storage.segment import CLEANED
from levada.world.background import OnFatal, cancel_and_wait, start
from levada.world.disk import is_out_of_files
from levada.world.workers import WorkerError
from levada.world.world import World

logger = logging.getLogger(__name__)

MILLISECONDS: Final = 1_000
RETRY_SECONDS: Final = 0.1
HASH_KEY_BYTES: Final = 16
NONCE_BYTES: Final = 8
THREADS: Final = "log.cleaner.threads"
MEMORY: Final = "log.cleaner.dedupe.buffer.size"
LOAD_FACTOR: Final = "log.cleaner.io.buffer.load.factor"
READ_BUFFER: Final = "log.cleaner.io.buffer.size"
RATE: Final = "log.cleaner.io.max.bytes.per.second"

Key = tuple[str, int]
"""Topic and partition."""


class Candidate(NamedTuple):
    place: LogDirectory
    key: Key
    log: Log
    part: DirtyPart


class Outdated(Exception):
    """A pass was begun with settings that do not hold any more."""


class LogCleaning:
    """One for all directories of logs."""

    def __init__(
        self,
        world: World,
        logs: LogDirectories,
        flushing: Flushing,
        config: BrokerConfig,
        figures: CleaningFigures,
        on_fatal: OnFatal,
    ) -> None:
        self._world = world
        self._logs = logs
        self._flushing = flushing
        self._config = config
        self._figures = figures
        self._on_fatal = on_fatal
        self._under_way: dict[Key, asyncio.Task[None]] = {}
        self._paused: set[Key] = set()
        self._reading: dict[Key, asyncio.Task[bytes]] = {}
        """What workers do; until they are done a pass has changed nothing."""
        self._faulty: dict[Key, tuple[Log, int]] = {}
        """Logs with damage, and where each began then."""
        self._freed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = start("choice of logs to clean", self._run(), self._on_fatal)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go on with other settings, at once: what workers do by the old ones is begun again."""
        has_changed = any(config[key] != self._config[key] for key in (THREADS, MEMORY, LOAD_FACTOR, READ_BUFFER, RATE))
        self._config = config
        if has_changed:
            for task in self._reading.values():
                task.cancel()
        self._freed.set()

    async def stop(self) -> None:
        """What is under way is given up: its files are removed when the log is opened again."""
        await cancel_and_wait(self._running, *self._under_way.values())

    async def pause(self, key: Key) -> None:
        """Leave a log alone from when this returns until `resume`."""
        self._paused.add(key)
        task = self._under_way.get(key)
        if task is not None:
            await asyncio.wait([task])

    def resume(self, key: Key) -> None:
        self._paused.discard(key)
        self._freed.set()

    async def _run(self) -> None:
        while True:
            if self._config["log.cleaner.enable"]:
                self.begin_due()
            self._freed.clear()
            # Not wait_for, which loses a cancellation that comes in the same turn as what it waits for.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config["log.cleaner.backoff.ms"] / MILLISECONDS):
                    await self._freed.wait()

    def begin_due(self) -> None:
        """Start on the dirtiest logs that need it, as many as there is room for."""
        now_ms = self._world.clock.now_ms()
        candidates = self._candidates(now_ms)
        self._figures.note_round(
            now_ms,
            max((one.part.ratio for one in candidates), default=0.0),
            max((one.part.overdue_ms for one in candidates), default=0),
        )
        due = [one for one in candidates if one.part.overdue_ms or one.part.ratio > one.log.config.min_cleanable_ratio]
        due.sort(key=lambda one: one.part.ratio, reverse=True)
        for candidate in due[: self._room()]:
            task = start(f"cleaning of {candidate.log.directory}", self._clean(candidate, now_ms))
            self._under_way[candidate.key] = task

    def _room(self) -> int:
        """How many more logs may be cleaned now; none at a rate at which none would ever be done."""
        return max(self._config[THREADS] - len(self._under_way), 0) if self._config[RATE] > 0 else 0

    def _candidates(self, now_ms: int) -> list[Candidate]:
        self._forget_gone()
        found = []
        for place, key, log in self._logs.compacted:
            if log.is_offline or key in self._paused or key in self._under_way or key in self._figures.uncleanable:
                continue
            try:
                part = dirty_part(log, place.clean_ends.get(key), now_ms)
            except (KafkaStorageError, OSError) as error:
                logger.error("cannot look at log=%s reason=%r", log.directory, str(error))
                continue
            if part.dirty_bytes and part.first_dirty < part.first_uncleanable:
                found.append(Candidate(place, key, log, part))
        return found

    def _forget_gone(self) -> None:
        """The damage may be gone: with the oldest segments, or with a topic that was deleted and made anew."""
        here = {key: log for _, key, log in self._logs.compacted}
        for key, (log, base_offset) in list(self._faulty.items()):
            if here.get(key) is not log or log.segments[0].base_offset != base_offset:
                del self._faulty[key]
                self._figures.uncleanable.pop(key, None)

    async def _clean(self, candidate: Candidate, now_ms: int) -> None:
        place, key, log, _ = candidate
        ending = f".{self._world.entropy.random_bytes(NONCE_BYTES).hex()}{CLEANED}"
        try:
            await self._pass(candidate, now_ms, ending)
            # There may be more to do; what failed is not tried again before the next round.
            self._freed.set()
        except Outdated:
            logger.info("cleaning begun again log=%s reason='its settings have changed'", log.directory)
            self._freed.set()
        except Faulty as error:
            self._faulty[key] = (log, log.segments[0].base_offset)
            self._figures.uncleanable[key] = (place.absolute_directory, log.size)
            logger.error("uncleanable log=%s reason=%r; it is left as it is", log.directory, str(error))
        except (Hindered, WorkerError, KafkaStorageError, OSError) as error:
            logger.error("cleaning failed log=%s reason=%r; it is tried again", log.directory, str(error))
        finally:
            del self._under_way[key]

    async def _pass(self, candidate: Candidate, now_ms: int, ending: str) -> None:
        place, key, log, part = candidate
        await self._secure(place, key, log, part.first_uncleanable)
        self._remove_leftovers(log)
        order = self._order(log, part, now_ms, ending)
        started_ns = self._world.clock.perf_ns()
        try:
            cleaned = decode_cleaned(await self._work(key, encode(encode_order(order), self._share(RATE))))
        except Exception:
            # What cannot be removed now goes before the next pass.
            with suppress(OSError):
                self._remove_leftovers(log)
            raise
        if await self._swap(place, log, cleaned, ending):
            place.note_clean(*key, cleaned.end_offset)
        seconds = (self._world.clock.perf_ns() - started_ns) / 1e9
        utilization = cleaned.keys * 24 / order.memory_bytes
        self._figures.note_pass(Pass(seconds, cleaned.counts.bytes_read, cleaned.counts.bytes_kept, utilization))
        counts = cleaned.counts
        logger.info(
            "cleaned log=%s from=%d to=%d keys=%d records=%d kept=%d bytes=%d kept_bytes=%d seconds=%.3f",
            log.directory,
            part.first_dirty,
            cleaned.end_offset,
            cleaned.keys,
            counts.records_read,
            counts.records_kept,
            counts.bytes_read,
            counts.bytes_kept,
            seconds,
        )

    async def _work(self, key: Key, argument: bytes) -> bytes:
        """Have a worker do it; Outdated when settings change meanwhile."""
        task = asyncio.get_running_loop().create_task(self._world.workers.run(TASK, argument))
        self._reading[key] = task
        try:
            return await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is not None and own.cancelling():
                raise
            raise Outdated from None
        finally:
            del self._reading[key]

    async def _secure(self, place: LogDirectory, key: Key, log: Log, offset: int) -> None:
        """Have it on record that a log is on the device so far.

        A start after a crash takes offsets that are missing in what may not have been flushed for lost ones, and cuts
        the log there; cleaning leaves such holes. What decides about records below may lie behind them: without their
        marker they would be open again, and in the place of others.
        """
        if log.recovery_point < log.high_watermark:
            await self._flushing.flush(log)
        if not place.is_on_record(*key, offset):
            place.write_checkpoints()

    async def _swap(self, place: LogDirectory, log: Log, cleaned: Cleaned, ending: str) -> bool:
        """Whether all that was cleaned is in the log now."""
        is_whole = True
        for group in cleaned.groups:
            for step in place.swap(log, group, ending).steps():
                if not await self._is_done(step, log):
                    is_whole = False
                    break
        return is_whole

    async def _is_done(self, step: Callable[[], bool], log: Log) -> bool:
        """Do a step of a swap and bring it to the device; a log that is left between two cannot be used."""
        has_begun = False
        while True:
            try:
                if not has_begun and not step():
                    return False
                has_begun = True
                await self._world.async_disk.sync_directory(log.directory)
                return True
            except OSError as error:
                if not is_out_of_files(error):
                    log.go_offline(error)
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    def _order(self, log: Log, part: DirtyPart, now_ms: int, ending: str) -> Order:
        return order_for(
            log,
            part,
            now_ms=now_ms,
            memory_bytes=int(self._share(MEMORY)),
            load_factor=self._config[LOAD_FACTOR],
            hash_key=self._world.entropy.random_bytes(HASH_KEY_BYTES),
            ending=ending,
            read_bytes=int(self._share(READ_BUFFER)),
        )

    def _share(self, key: str) -> float:
        """What one worker may have of something that is given for all of them."""
        share: float = self._config[key] / max(self._config[THREADS], 1)
        return share

    def _remove_leftovers(self, log: Log) -> None:
        """What passes that failed have written; Apache's broker takes them for a sign that a swap was not complete."""
        for name in self._world.disk.names(log.directory):
            if name.endswith(CLEANED):
                self._world.disk.remove(f"{log.directory}/{name}")
