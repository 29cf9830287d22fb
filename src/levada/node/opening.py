"""Opens all topics of a node: at once after a clean stop, by recovery after a crash, several logs at a time."""

import asyncio
import logging
from dataclasses import dataclass, replace

from levada.broker.broker import Broker
from levada.broker.replicas import LogPlace, report_cuts
from levada.metadata.image import Image, TopicState
from levada.model.config import ConfigError
from levada.model.hashes import uuid_to_text
from levada.node.directories import Found, has_records
from levada.storage.loading import LogState
from levada.storage.log_directory import LogDirectory, Unflushed
from levada.storage.recovery_task import TASK, decode_cuts, encode_task
from levada.world.disk import Disk
from levada.world.workers import WorkerError
from levada.world.world import World

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
    node_id = broker.identity.node_id
    wanted = {
        (topic.name, partition.index): topic
        for topic in image.topics.values()
        for partition in topic.partitions
        if node_id in partition.replicas
    }
    here = _settle(world, broker, found, wanted)
    places = {key: LogPlace(directory, directory.state_of(*key)) for key, directory in here.items()}
    doubtful = [directory.unflushed(*key) for key, directory in here.items() if not directory.was_clean]
    recovery = Recovery(sum(one.size for one in doubtful), world.clock.monotonic_ms())
    large = [one for one in doubtful if one.size >= WORTH_A_WORKER_BYTES]
    if len(large) > 1:
        # One alone is recovered here, where its progress can be seen.
        workers = broker.config["num.recovery.threads.per.data.dir"]
        places |= await _recover_in_workers(world, broker, large, places, recovery, workers)

    def advance(size: int) -> None:
        recovery.advance(size, world.clock.monotonic_ms())

    by_topic: dict[str, dict[int, LogPlace]] = {}
    for key, topic in wanted.items():
        place = places.get(key) or _place_for_missing(world.disk, broker, topic, key[1])
        if place is not None:
            by_topic.setdefault(topic.name, {})[key[1]] = place
    for name, own in by_topic.items():
        broker.replicas.open_existing(image.topics[name], own, advance)


def _place_for_missing(disk: Disk, broker: Broker, topic: TopicState, index: int) -> LogPlace | None:
    """Where to make a log that no directory has: nowhere, if one that is not here may have it."""
    logs, partition = broker.logs, topic.partitions[index]
    if any(disk.exists(place.path(topic.name, index)) for place in logs.online):
        # One that was left out, for it may have moved.
        broker.replicas.keep_offline(topic, index)
        return None
    directory_id = partition.directory_of(broker.identity.node_id)
    home = None if directory_id is None else logs.with_id(directory_id)
    if home is not None and not home.is_offline:
        return LogPlace(home, LogState())
    is_elsewhere = directory_id is not None and len(partition.replicas) == 1
    if is_elsewhere or logs.offline:
        where = "unknown" if directory_id is None else uuid_to_text(directory_id)
        logger.error("offline log=%s-%d, which is in the directory with id %s", topic.name, index, where)
        broker.replicas.keep_offline(topic, index)
        return None
    return LogPlace(logs.for_new_log(), LogState())


def _settle(
    world: World, broker: Broker, found: list[Found], wanted: dict[tuple[str, int], TopicState]
) -> dict[tuple[str, int], LogDirectory]:
    """Where the logs lie that can be opened; those of deleted topics are retired."""
    here: dict[tuple[str, int], LogDirectory] = {}
    for one in found:
        key = one.topic, one.index
        topic = wanted.get(key)
        if topic is not None and one.topic_id in (None, topic.topic_id):
            if key in here:
                raise ConfigError(
                    f"{one.topic}-{one.index} is in {here[key].directory} and in {one.place.directory}; move away the "
                    "one that is not to be used"
                )
            here[key] = one.place
        elif one.topic_id is None and has_records(world.disk, one):
            logger.error("not served directory=%s, which belongs to no known topic", one.path)
        else:
            logger.warning("retired directory=%s, whose topic was deleted", one.path)
            broker.replicas.retire_log(one.place, one.topic, one.index)
    return here


async def _recover_in_workers(
    world: World,
    broker: Broker,
    large: list[Unflushed],
    places: dict[tuple[str, int], LogPlace],
    recovery: Recovery,
    workers: int,
) -> dict[tuple[str, int], LogPlace]:
    """Let workers recover the logs that take long; small ones are quicker done than a process is started."""
    recovered: dict[tuple[str, int], LogPlace] = {}
    slots = asyncio.Semaphore(workers)

    async def recover(one: Unflushed) -> None:
        directory, state = places[one.topic, one.partition]
        config = broker.log_config_of(one.topic)
        order = encode_task(directory.path(one.topic, one.partition), config, state, world.clock.now_ms())
        async with slots:
            try:
                report_cuts(decode_cuts(await world.workers.run(TASK, order)))
            except WorkerError as error:
                # This process does it again when it opens the log, and then says what is wrong.
                logger.warning("worker failed log=%s-%d reason=%r", one.topic, one.partition, str(error))
                return
        recovered[one.topic, one.partition] = LogPlace(directory, replace(state, was_clean=True))
        recovery.advance(one.size, world.clock.monotonic_ms())

    await asyncio.gather(*[recover(one) for one in large])
    return recovered
