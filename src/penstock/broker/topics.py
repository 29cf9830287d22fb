"""The topics of a node, as its data directory holds them."""

import logging
from dataclasses import dataclass

from penstock.broker.partition import Partition
from penstock.model.errors import InvalidPartitions, InvalidTopic, KafkaStorageError, TopicAlreadyExists
from penstock.model.hashes import uuid_from_text, uuid_to_text
from penstock.model.topics import check_topic_name, collision_key
from penstock.storage.checkpoint import read_text, write_atomically
from penstock.storage.identity import new_uuid
from penstock.storage.loading import LogState
from penstock.storage.log_directory import LogDirectory
from penstock.storage.recovery import Cut, Progress
from penstock.world.clock import Clock, Entropy
from penstock.world.disk import Disk

logger = logging.getLogger(__name__)

METADATA_FILE = "partition.metadata"


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    partitions: tuple[Partition, ...]


class Topics:
    """Finds topics by name and id, creates them, and loads them at start.

    Partition 0 is written last, so a topic whose creation was cut off has none and is swept away at the next start.
    """

    def __init__(self, disk: Disk, directory: str, logs: LogDirectory, entropy: Entropy, clock: Clock) -> None:
        self._disk = disk
        self._directory = directory
        self._logs = logs
        self._entropy = entropy
        self._clock = clock
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_collision_key: dict[str, str] = {}

    def find(self) -> dict[str, tuple[bytes, list[int]]]:
        """The topics on disk that can be served: id and partitions of each."""
        found: dict[str, list[int]] = {}
        for name in self._disk.names(self._directory):
            topic, dash, index = name.rpartition("-")
            if dash and index.isdigit() and self._is_directory(f"{self._directory}/{name}"):
                found.setdefault(topic, []).append(int(index))
        readable = {
            topic: (self._check_topic(topic, sorted(indexes)), sorted(indexes)) for topic, indexes in found.items()
        }
        return {topic: (topic_id, indexes) for topic, (topic_id, indexes) in readable.items() if topic_id is not None}

    def open(
        self, name: str, topic_id: bytes, states: dict[int, LogState], progress: Progress = lambda _: None
    ) -> None:
        """Open the logs of a topic that `find` has found; a state that recovery left stands for the checkpoints'."""
        partitions = []
        for index, state in sorted(states.items()):
            log, cuts = self._logs.open(name, index, self._clock.now_ms(), state, progress)
            report_cuts(cuts)
            log.raise_high_watermark(log.end_offset)
            partitions.append(Partition(name, index, log))
        self._add(Topic(name, topic_id, tuple(partitions)))

    def all(self) -> list[Topic]:
        return list(self._by_name.values())

    def by_name(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def check_new(self, name: str, partition_count: int) -> None:
        """Raise what creating this topic would raise."""
        check_topic_name(name)
        if name in self._by_name:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        other = self._by_collision_key.get(collision_key(name))
        if other is not None:
            raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")
        if partition_count < 1:
            raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")

    def create(self, name: str, partition_count: int) -> Topic:
        self.check_new(name, partition_count)
        topic_id = new_uuid(self._entropy)
        partitions: list[Partition] = []
        try:
            for index in reversed(range(partition_count)):
                directory = self._partition_directory(name, index)
                log, _ = self._logs.open(name, index, self._clock.now_ms(), LogState())
                partitions.insert(0, Partition(name, index, log))
                text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
                write_atomically(self._disk, directory, METADATA_FILE, text)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            raise KafkaStorageError(f"cannot create topic {name}: {error}") from error
        topic = Topic(name, topic_id, tuple(partitions))
        self._add(topic)
        logger.info("created topic=%s id=%s partitions=%d", name, uuid_to_text(topic_id), partition_count)
        return topic

    def _add(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_collision_key[collision_key(topic.name)] = topic.name

    def _check_topic(self, name: str, indexes: list[int]) -> bytes | None:
        """The id of a topic that is whole; what is not is swept away or left alone, and said."""
        try:
            topic_id = self._read_topic_id(name) if indexes[0] == 0 else None
        except ValueError:
            logger.error("topic=%s not served: %s of partition 0 is damaged", name, METADATA_FILE)
            return None
        if topic_id is None:
            self._sweep(name, indexes)
            return None
        if indexes != list(range(len(indexes))):
            logger.error("topic=%s not served: its partition directories have gaps: %s", name, indexes)
            return None
        return topic_id

    def _read_topic_id(self, name: str) -> bytes | None:
        """The id that partition 0 was created with, None if it never was; ValueError when it cannot be read."""
        text = read_text(self._disk, self._partition_directory(name, 0), METADATA_FILE)
        if text is None:
            return None
        fields = dict(line.partition(": ")[::2] for line in text.splitlines())
        return uuid_from_text(fields.get("topic_id", ""))

    def _is_directory(self, path: str) -> bool:
        try:
            self._disk.names(path)
        except NotADirectoryError:
            return False
        return True

    def _sweep(self, name: str, indexes: list[int]) -> None:
        """Remove what an interrupted creation left; a directory with records is never one of those."""
        for index in indexes:
            directory = self._partition_directory(name, index)
            logs = [file for file in self._disk.names(directory) if file.endswith(".log")]
            if any(self._file_size(f"{directory}/{file}") for file in logs):
                logger.error("topic=%s not served: it has records but no %s for partition 0", name, METADATA_FILE)
                return
        for index in indexes:
            self._disk.remove_tree(self._partition_directory(name, index))
        logger.warning("removed topic=%s, whose creation was interrupted", name)

    def _file_size(self, path: str) -> int:
        file = self._disk.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def _partition_directory(self, name: str, index: int) -> str:
        return f"{self._directory}/{name}-{index}"


def report_cuts(cuts: list[Cut]) -> None:
    for cut in cuts:
        logger.warning(
            "recovered file=%s kept_bytes=%d lost_bytes=%d reason=%r",
            cut.path,
            cut.kept_bytes,
            cut.lost_bytes,
            cut.reason,
        )
