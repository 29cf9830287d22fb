"""Opens all topics of a node: at once after a clean stop, by recovery after a crash, several logs at a time."""

import asyncio
import logging
from dataclasses import dataclass, replace

from penstock.broker.broker import Broker
from penstock.broker.replicas import report_cuts
from penstock.metadata.image import Image, TopicState
from penstock.node.directories import Found, has_records
from penstock.storage.loading import LogState
from penstock.storage.log_directory import Unflushed
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


async def open_replicas(world: World, broker: Broker, found: list[Found], image: Image) -> None:
    """Open the logs that the image gives this broker; a directory that is not one of them is not served."""
    logs, node_id = broker.logs, broker.identity.node_id
    wanted = {
        (topic.name, partition.index): topic
        for topic in image.topics.values()
        for partition in topic.partitions
        if node_id in partition.replicas
    }
    here = _settle(world, broker, found, wanted)
    states = {key: logs.state_of(*key) if key in here else LogState() for key in wanted}
    doubtful = [] if logs.was_clean else [logs.unflushed(*key) for key in here]
    recovery = Recovery(sum(one.size for one in doubtful), world.clock.monotonic_ms())
    large = [one for one in doubtful if one.size >= WORTH_A_WORKER_BYTES]
    if len(large) > 1:
        # One alone is recovered here, where its progress can be seen.
        workers = broker.config["num.recovery.threads.per.data.dir"]
        states |= await _recover_in_workers(world, broker, large, recovery, workers)

    def advance(size: int) -> None:
        recovery.advance(size, world.clock.monotonic_ms())

    by_topic: dict[str, dict[int, LogState]] = {}
    for (name, index), state in states.items():
        by_topic.setdefault(name, {})[index] = state
    for name, own in by_topic.items():
        broker.replicas.open_existing(image.topics[name], own, advance)


def _settle(
    world: World, broker: Broker, found: list[Found], wanted: dict[tuple[str, int], TopicState]
) -> list[tuple[str, int]]:
    """The directories that can be opened; those of deleted topics are retired."""
    here = []
    for one in found:
        topic = wanted.get((one.topic, one.index))
        if topic is not None and one.topic_id in (None, topic.topic_id):
            here.append((one.topic, one.index))
        elif one.topic_id is None and has_records(world.disk, broker.logs.directory, one):
            logger.error("not served directory=%s-%d, which belongs to no known topic", one.topic, one.index)
        else:
            logger.warning("retired directory=%s-%d, whose topic was deleted", one.topic, one.index)
            broker.replicas.retire_directory(one.topic, one.index)
    return here


async def _recover_in_workers(
    world: World, broker: Broker, large: list[Unflushed], recovery: Recovery, workers: int
) -> dict[tuple[str, int], LogState]:
    """Let workers recover the logs that take long; small ones are quicker done than a process is started."""
    logs = broker.logs
    recovered: dict[tuple[str, int], LogState] = {}
    slots = asyncio.Semaphore(workers)

    async def recover(one: Unflushed) -> None:
        state = logs.state_of(one.topic, one.partition)
        config = broker.log_config_of(one.topic)
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
