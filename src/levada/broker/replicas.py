"""The partitions this broker has: their logs are opened, made and removed as the cluster's metadata says."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from levada.broker.partition import Partition
from levada.metadata.delta import Delta
from levada.metadata.image import Image, PartitionState, TopicState
from levada.model.hashes import uuid_from_text, uuid_to_text
from levada.storage.checkpoint import read_text, write_atomically
from levada.storage.loading import LogState
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import LogDirectory
from levada.storage.recovery import Cut, Progress
from levada.world.clock import Clock, Entropy
from levada.world.disk import AsyncDisk, Disk, is_gone, is_out_of_files, is_passing

logger = logging.getLogger(__name__)

METADATA_FILE = "partition.metadata"
MAX_PREFERRED = 10_000
PARTITIONS_AT_ONCE = 1
"""Logs that are made or removed before others get a turn of the loop."""


@dataclass(slots=True)
class HostedTopic:
    """A topic with the partitions of it that are here, by index."""

    name: str
    topic_id: bytes
    config: LogConfig
    partitions: dict[int, Partition] = field(default_factory=dict)
    offline: set[int] = field(default_factory=set)
    """Partitions that are in a directory which has failed or is not there."""


class LogPlace(NamedTuple):
    """Where the log of a partition lies, and how far it can be trusted."""

    directory: LogDirectory
    state: LogState


class Replicas:
    def __init__(
        self,
        disk: Disk,
        logs: LogDirectories,
        clock: Clock,
        entropy: Entropy,
        *,
        node_id: int,
        config_of: Callable[[str], LogConfig],
        begin_flush: Callable[[Log], object],
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._clock = clock
        self._entropy = entropy
        self._node_id = node_id
        self._config_of = config_of
        self._begin_flush = begin_flush
        self._by_name: dict[str, HostedTopic] = {}
        self._by_id: dict[bytes, HostedTopic] = {}
        self._retired: list[tuple[str, int]] = []
        self._unsynced_ids: dict[Partition, None] = {}
        self._placed: dict[Partition, None] = {}
        self._preferred: dict[tuple[str, int], LogDirectory] = {}
        self._unmade: dict[tuple[bytes, int], tuple[TopicState, PartitionState]] = {}
        """Partitions whose logs could not be made, for want of open files or of space."""
        self.on_made: Callable[[], None] = lambda: None
        """Called when some of them are there after all."""
        self.on_placed: Callable[[], None] = lambda: None
        """Called when a replica got a directory of which the cluster may not know."""
        self.is_checkpoint_due = False
        """Whether a log begins later than the checkpoint says, by an order that was acknowledged."""

    def by_name(self, name: str) -> HostedTopic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> HostedTopic | None:
        return self._by_id.get(topic_id)

    def topics(self) -> Iterable[HostedTopic]:
        return self._by_id.values()

    def all(self) -> Iterable[Partition]:
        return (partition for topic in self._by_name.values() for partition in topic.partitions.values())

    def open_existing(
        self, topic: TopicState, places: Mapping[int, LogPlace], progress: Progress = lambda _: None
    ) -> None:
        """Open the logs of a topic at start; a state that recovery left stands for the checkpoints'."""
        for index, place in sorted(places.items()):
            if place.directory.is_offline:
                self.keep_offline(topic, index)
                continue
            try:
                self._host(topic, index, place.state, place.directory, progress)
            except OSError as error:
                if not self._logs.are_several or is_out_of_files(error):
                    raise
                place.directory.fail(error)
                self.keep_offline(topic, index)

    def take_placed(self) -> list[Partition]:
        """The replicas that got a directory since the last call, where there is a choice."""
        placed, self._placed = self._placed, {}
        return list(placed)

    def place_again(self, partitions: list[Partition]) -> None:
        """The controller could not be told of these."""
        self._placed |= dict.fromkeys(partitions)

    def note_placed(self, partition: Partition) -> None:
        if self._logs.are_several:
            self._placed[partition] = None
            self.on_placed()

    def prefer(self, topic: str, index: int, directory: LogDirectory) -> None:
        """Where a replica is to be made that is not here yet; of many that never come the oldest are forgotten."""
        self._preferred[topic, index] = directory
        if len(self._preferred) > MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def keep_offline(self, topic: TopicState, index: int) -> None:
        """A partition's log is out of reach; a request for it is told so."""
        self._hosted(topic).offline.add(index)

    def lose(self, directory: LogDirectory) -> int:
        """A directory has failed, and with it the replicas there; how many."""
        count = 0
        for topic in self._by_id.values():
            for index in [one for one in topic.partitions if (topic.name, one) in directory]:
                topic.partitions.pop(index).remove()
                topic.offline.add(index)
                count += 1
        return count

    async def follow(self, delta: Delta, image: Image) -> None:
        """Make this broker's logs what an image says, where a delta changed it; OSError keeps a partition away."""
        for count, _ in enumerate(self._changes(delta, image), 1):
            if count % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _changes(self, delta: Delta, image: Image) -> Iterator[None]:
        """One partition after the other."""
        for topic in delta.removed_topics.values():
            yield from self._remove(topic)
        for topic_id in delta.touched_topics:
            changed = image.topic_by_id(topic_id)
            assert changed is not None
            before = delta.before.topic_by_id(topic_id)
            known = before.partitions if before is not None else ()
            for state in changed.partitions:
                # Of another snapshot it may be another object that says the same.
                if state.index < len(known) and (known[state.index] is state or known[state.index] == state):
                    continue
                self._follow_partition(changed, state)
                yield

    def reconfigure(self, names: Iterable[str] | None) -> None:
        """Give logs their settings anew: those of some topics, or of all."""
        for name in list(self._by_name) if names is None else names:
            topic = self._by_name.get(name)
            if topic is not None:
                topic.config = self._config_of(name)
                for partition in topic.partitions.values():
                    partition.reconfigure(topic.config)

    def notify(self, log: Log) -> None:
        """Something that readers may see has changed in a log, by no request of theirs."""
        for partition in self.all():
            if partition.log is log:
                partition.notify(0)

    def retire_at_once(self, paths: list[str]) -> None:
        """Directories of deleted logs that are there from before."""
        self._retired += [(path, 0) for path in paths]

    def take_retired(self) -> list[tuple[str, int]]:
        """Directories of deleted logs since the last call, each with the milliseconds it is to stay."""
        retired, self._retired = self._retired, []
        return retired

    def _follow_partition(self, topic: TopicState, state: PartitionState) -> None:
        if self._node_id not in state.replicas:
            self._unmade.pop((topic.topic_id, state.index), None)
            return
        hosted = self._by_id.get(topic.topic_id)
        if hosted is not None and state.index in hosted.offline:
            return
        partition = None if hosted is None else hosted.partitions.get(state.index)
        if partition is None:
            partition = self._make(topic, state)
        if partition is not None:
            partition.follow(state, self._node_id)

    async def make_missing(self) -> None:
        """Try again what could not be made; of a directory that still takes no log, the first one is tried alone."""
        made, full = 0, set[LogDirectory]()
        for count, key in enumerate(list(self._unmade), 1):
            if full and len(full) >= len(self._logs.online):
                break
            if count % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            unmade = self._unmade.get(key)
            if unmade is None:
                # Meanwhile it was made, deleted, or given to other brokers.
                continue
            topic, state = unmade
            directory = self._directory_for(topic.name, state.index)
            if directory in full:
                continue
            self._follow_partition(topic, state)
            if key not in self._unmade:
                made += 1
            elif directory is not None:
                full.add(directory)
        if made:
            self.on_made()

    def _directory_for(self, topic: str, index: int) -> LogDirectory | None:
        """Where a new log belongs: where it is preferred, else where the fewest are; None if every directory failed."""
        preferred = self._preferred.get((topic, index))
        if preferred is not None and not preferred.is_offline:
            return preferred
        return self._logs.for_new_log() if self._logs.online else None

    def _make(self, topic: TopicState, state: PartitionState) -> Partition | None:
        """A new log; a directory that is gone is not tried again."""
        index, key = state.index, (topic.topic_id, state.index)
        was_unmade = self._unmade.pop(key, None) is not None
        while (directory := self._directory_for(topic.name, index)) is not None:
            if self._logs.are_several:
                # Else it would be made anew, where no disk is.
                directory.probe()
            if directory.is_offline:
                continue
            try:
                partition = self._host(topic, index, LogState(), directory)
            except OSError as error:
                if not was_unmade:
                    logger.error("cannot make log=%s-%d reason=%r", topic.name, index, str(error))
                if is_passing(error):
                    self._unmade[key] = topic, state
                    if self._logs.are_several:
                        # Some of it may be there, and a broker does not start with a partition in two directories.
                        self.prefer(topic.name, index, directory)
                    return None
                if not self._logs.are_several or not is_gone(error):
                    # It is in the metadata and will be made at the next start, if the disk lets it be.
                    return None
                directory.fail(error)
            else:
                self._preferred.pop((topic.name, index), None)
                return partition
        self.keep_offline(topic, index)
        return None

    def _hosted(self, topic: TopicState) -> HostedTopic:
        hosted = self._by_id.get(topic.topic_id)
        if hosted is None:
            hosted = HostedTopic(topic.name, topic.topic_id, self._config_of(topic.name))
            self._by_id[topic.topic_id] = self._by_name[topic.name] = hosted
        return hosted

    def _host(
        self,
        topic: TopicState,
        index: int,
        state: LogState,
        directory: LogDirectory,
        progress: Progress = lambda _: None,
    ) -> Partition:
        hosted = self._hosted(topic)
        log, cuts = directory.open(topic.name, index, self._clock.now_ms(), state, progress, hosted.config)
        report_cuts(cuts)
        partition = Partition(topic.name, topic.topic_id, index, log, self._begin_flush)
        if not log.end_offset or not self._disk.exists(f"{log.directory}/{METADATA_FILE}"):
            self._write_id(topic, log)
            partition.before_first_append = lambda: self._sync_id(partition)
            self._unsynced_ids[partition] = None
        hosted.partitions[index] = partition
        self.note_placed(partition)
        return partition

    def _write_id(self, topic: TopicState, log: Log) -> None:
        """Write down whose log it is; a power cut may have taken what was written before there were records."""
        found = topic_id_of(self._disk, log.directory)
        if found is None:
            text = f"version: 0\ntopic_id: {uuid_to_text(topic.topic_id)}"
            write_atomically(self._disk, log.directory, METADATA_FILE, text, durable=False)
        elif found != topic.topic_id:
            raise OSError(f"{log.directory} is still there from a topic with id {uuid_to_text(found)}")

    async def sync_ids(self, async_disk: AsyncDisk) -> None:
        """Bring the ids of new logs to the device, so that their first records need not wait for it."""
        while self._unsynced_ids:
            partition = next(iter(self._unsynced_ids))
            del self._unsynced_ids[partition]
            directory = partition.log.directory
            try:
                file = self._disk.open(f"{directory}/{METADATA_FILE}")
                try:
                    await async_disk.sync(file)
                finally:
                    file.close()
                await async_disk.sync_directory(directory)
            except OSError:
                # It is deleted, or its first record will meet the error.
                continue
            partition.before_first_append = None

    def _sync_id(self, partition: Partition) -> None:
        """After a power cut a directory without an id would not tell which topic's records it has."""
        self._unsynced_ids.pop(partition, None)
        directory = partition.log.directory
        file = self._disk.open(f"{directory}/{METADATA_FILE}")
        try:
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(directory)

    def _remove(self, topic: TopicState) -> Iterator[None]:
        """No request finds any of its partitions from now on; they go one by one, and their files a little later."""
        for state in topic.partitions:
            self._unmade.pop((topic.topic_id, state.index), None)
            self._preferred.pop((topic.name, state.index), None)
        hosted = self._by_id.pop(topic.topic_id, None)
        if hosted is None:
            return
        if self._by_name.get(topic.name) is hosted:
            del self._by_name[topic.name]
        logger.info("deleting topic=%s id=%s partitions=%d", topic.name, _text(topic), len(hosted.partitions))
        for index in hosted.offline:
            self._let_go_of_lost(topic, index)
            yield
        for index, partition in hosted.partitions.items():
            partition.remove()
            directory = self._logs.holding(topic.name, index)
            if directory is not None:
                self.retire_log(directory, topic.name, index)
            else:
                # Its directory has failed since the others were removed.
                self._let_go_of_lost(topic, index)
            yield

    def _let_go_of_lost(self, topic: TopicState, index: int) -> None:
        for lost in self._logs.offline:
            lost.let_go(topic.name, index, "the log was deleted")

    def retire_log(self, directory: LogDirectory, topic: str, index: int) -> None:
        try:
            path = directory.retire(topic, index, self._entropy.random_bytes(16).hex())
            self._retired.append((path, self._config_of(topic).delete_delay_ms))
        except OSError as error:
            logger.error("cannot retire log=%s-%d reason=%r", topic, index, str(error))


def topic_id_of(disk: Disk, directory: str) -> bytes | None:
    """The id of the topic that a partition's directory belongs to, None if it does not say."""
    text = read_text(disk, directory, METADATA_FILE)
    fields = dict(line.partition(": ")[::2] for line in (text or "").splitlines())
    try:
        return uuid_from_text(fields.get("topic_id", ""))
    except ValueError:
        return None


def _text(topic: TopicState) -> str:
    return uuid_to_text(topic.topic_id)


def report_cuts(cuts: list[Cut]) -> None:
    for cut in cuts:
        logger.warning(
            "recovered file=%s kept_bytes=%d lost_bytes=%d reason=%r",
            cut.path,
            cut.kept_bytes,
            cut.lost_bytes,
            cut.reason,
        )
