"""Opens all topics of a node: at once after a clean stop, by recovery after a crash, several logs at a time."""

import asyncio
import logging
from dataclasses import dataclass, replace

from penstock.broker.topics import Topics, report_cuts
from penstock.storage.loading import LogState
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory, Unflushed
from penstock.storage.recovery_task import TASK, decode_cuts, encode_task
from penstock.world.workers import WorkerError
from penstock.world.world import World

logger = logging.getLogger(__name__)

WORTH_A_WORKER_BYTES = 16 << 20
REPORT_AFTER_MS = 2_000


@dataclass(slots=True)
class Recovery:
    """How far the recovery of a node's logs is."""

    total_bytes: int
    started_ms: int
    done_bytes: int = 0
    reported_ms: int = 0

    def advance(self, size: int, now_ms: int) -> None:
        """Say how far it is, but not in the first two seconds and not more often than that."""
        self.done_bytes += size
        elapsed_ms = now_ms - self.started_ms
        if elapsed_ms < REPORT_AFTER_MS or now_ms - self.reported_ms < REPORT_AFTER_MS:
            return
        self.reported_ms = now_ms
        share = min(self.done_bytes / max(self.total_bytes, 1), 1.0)
        remaining_s = elapsed_ms / 1000 * (1 - share) / max(share, 0.001)
        logger.info("recovering percent=%d remaining_s=%d", share * 100, remaining_s)


async def open_topics(world: World, logs: LogDirectory, topics: Topics, config: LogConfig, workers: int) -> None:
    """Open every topic that `topics` finds in the directory."""
    found = topics.find()
    states: dict[tuple[str, int], LogState] = {
        (name, index): logs.state_of(name, index) for name, (_, indexes) in found.items() for index in indexes
    }
    doubtful = [] if logs.was_clean else [logs.unflushed(name, index) for name, index in states]
    recovery = Recovery(sum(one.size for one in doubtful), world.clock.monotonic_ms())
    large = [one for one in doubtful if one.size >= WORTH_A_WORKER_BYTES]
    if len(large) > 1:
        # One alone is recovered here, where its progress can be seen.
        states |= await _recover_in_workers(world, logs, large, recovery, config, workers)

    def advance(size: int) -> None:
        recovery.advance(size, world.clock.monotonic_ms())

    for name, (topic_id, indexes) in found.items():
        topics.open(name, topic_id, {index: states[name, index] for index in indexes}, advance)


async def _recover_in_workers(
    world: World, logs: LogDirectory, large: list[Unflushed], recovery: Recovery, config: LogConfig, workers: int
) -> dict[tuple[str, int], LogState]:
    """Let workers recover the logs that take long; small ones are quicker done than a process is started."""
    recovered: dict[tuple[str, int], LogState] = {}
    slots = asyncio.Semaphore(workers)

    async def recover(one: Unflushed) -> None:
        state = logs.state_of(one.topic, one.partition)
        order = encode_task(logs.path(one.topic, one.partition), config, state, world.clock.now_ms())
        async with slots:
            try:
                report_cuts(decode_cuts(await world.workers.run(TASK, order)))
            except WorkerError as error:
                # This process does it again when it opens the log, and then says what is wrong.
                logger.warning("worker failed log=%s-%d reason=%r", one.topic, one.partition, str(error))
                return
        recovered[one.topic, one.partition] = replace(state, was_clean=True)
        recovery.advance(one.size, world.clock.monotonic_ms())

    await asyncio.gather(*[recover(one) for one in large])
    return recovered
