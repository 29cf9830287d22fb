"""What lies in a data directory when a node starts: whose partitions, and what is left of deleted ones."""

import logging
from dataclasses import dataclass

from penstock.broker.replicas import topic_id_of
from penstock.controller.adoption import FoundTopic
from penstock.model.config import ConfigError
from penstock.model.topics import CLUSTER_METADATA
from penstock.storage.log_directory import DELETED
from penstock.world.disk import Disk

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """The directory of a partition; without an id, its creation was cut off or its metadata file is damaged."""

    topic: str
    index: int
    topic_id: bytes | None


def find_partitions(disk: Disk, directory: str) -> list[Found]:
    """Every partition's directory."""
    found = []
    for name in disk.names(directory):
        path = f"{directory}/{name}"
        topic, dash, index = name.rpartition("-")
        # Apache's own metadata log is nobody's topic.
        is_partition = dash and topic and topic != CLUSTER_METADATA and index.isdigit()
        if is_partition and _is_directory(disk, path):
            found.append(Found(topic, int(index), topic_id_of(disk, path)))
    return found


def find_deleted(disk: Disk, directory: str) -> list[str]:
    """The directories of deleted logs that the last life of a node did not come to remove."""
    paths = [f"{directory}/{name}" for name in disk.names(directory) if name.endswith(DELETED)]
    return [path for path in paths if _is_directory(disk, path)]


def has_records(disk: Disk, directory: str, found: Found) -> bool:
    path = f"{directory}/{found.topic}-{found.index}"
    return any(_size(disk, f"{path}/{name}") for name in disk.names(path) if name.endswith(".log"))


def topics_to_adopt(disk: Disk, directory: str, found: list[Found]) -> list[FoundTopic]:
    """The topics, which must be whole: partitions from 0 on without a gap, all with the same id, or none with any."""
    by_topic: dict[str, list[Found]] = {}
    for one in found:
        by_topic.setdefault(one.topic, []).append(one)
    topics = []
    for name, partitions in by_topic.items():
        partitions.sort(key=lambda one: one.index)
        ids = {one.topic_id for one in partitions}
        topic_id = next(iter(ids)) if len(ids) == 1 else None
        if topic_id is not None and [one.index for one in partitions] == list(range(len(partitions))):
            topics.append(FoundTopic(name, topic_id, len(partitions)))
            logger.info("adopting topic=%s partitions=%d", name, len(partitions))
        elif ids != {None}:
            # At the next start it would look like a deleted one, whose files can go.
            raise ConfigError(
                f"{directory} has only some partitions of topic {name} and no metadata; restore its coordinator "
                f"directory, or move {name}-* away"
            )
    return topics


def _is_directory(disk: Disk, path: str) -> bool:
    try:
        disk.names(path)
    except NotADirectoryError:
        return False
    return True


def _size(disk: Disk, path: str) -> int:
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()
