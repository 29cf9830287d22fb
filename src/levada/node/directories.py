"""What lies in the data directories when a node starts: whose partitions, and what is left of deleted ones."""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from levada.broker.replicas import topic_id_of
from levada.controller.adoption import FoundTopic
from levada.model.config import ConfigError
from levada.model.hashes import uuid_to_text
from levada.model.topics import CLUSTER_METADATA
from levada.storage.checkpoint import read_text
from levada.storage.identity import FILE_NAME as IDENTITY_FILE
from levada.storage.log_directory import DELETED, FUTURE, LogDirectory
from levada.storage.move_tail import MOVED_FILE
from levada.world.disk import Disk

logger = logging.getLogger(__name__)

_FUTURE: Final = re.compile(rf"(?P<topic>.+)-(?P<index>[0-9]+)\.[0-9a-f]{{32}}{FUTURE}")


@dataclass(frozen=True, slots=True)
class Found:
    """The directory of a partition; without an id, its creation was cut off or its metadata file is damaged."""

    place: LogDirectory
    topic: str
    index: int
    topic_id: bytes | None

    @property
    def path(self) -> str:
        return self.place.path(self.topic, self.index)


def find_partitions(disk: Disk, place: LogDirectory) -> list[Found]:
    """Every partition's directory."""
    found = []
    for name in disk.names(place.directory):
        path = f"{place.directory}/{name}"
        topic, dash, index = name.rpartition("-")
        # Apache's own metadata log is not a client's topic.
        is_partition = dash and topic and topic != CLUSTER_METADATA and index.isdigit()
        # Another broker's data directory may lie in this one, and be called so.
        if is_partition and _is_directory(disk, path) and not disk.exists(f"{path}/{IDENTITY_FILE}"):
            found.append(Found(place, topic, int(index), topic_id_of(disk, path)))
    return found


def find_deleted(disk: Disk, place: LogDirectory) -> list[str]:
    """The directories of deleted logs that the last life of a node did not come to remove."""
    paths = [f"{place.directory}/{name}" for name in disk.names(place.directory) if name.endswith(DELETED)]
    return [path for path in paths if _is_directory(disk, path)]


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A copy that was to take the place of a partition's log."""

    place: LogDirectory
    topic: str
    index: int
    path: str


def find_unfinished(disk: Disk, place: LogDirectory) -> list[Unfinished]:
    """Moves that the last life of a node did not come to the end of."""
    matches = [_FUTURE.fullmatch(name) for name in disk.names(place.directory)]
    return [
        Unfinished(place, found["topic"], int(found["index"]), f"{place.directory}/{found[0]}")
        for found in matches
        if found is not None
    ]


def superseded(disk: Disk, found: list[Found]) -> list[Found]:
    """The logs that had moved to another directory when the node died; the copy there is the one that goes on."""
    places = {(one.topic, one.index, uuid_to_text(one.place.directory_id)) for one in found}
    gone = []
    for one in found:
        target = read_text(disk, one.path, MOVED_FILE)
        if target is None:
            continue
        if (one.topic, one.index, target) in places and target != uuid_to_text(one.place.directory_id):
            gone.append(one)
        else:
            disk.remove(f"{one.path}/{MOVED_FILE}")
    return gone


def undecided(disk: Disk, found: list[Found], present: Iterable[bytes]) -> list[Found]:
    """The logs that may have moved to a directory which is not here: only there it can be seen which one counts."""
    known = {uuid_to_text(directory_id) for directory_id in present}
    return [one for one in found if read_text(disk, one.path, MOVED_FILE) not in (None, *known)]


def has_records(disk: Disk, found: Found) -> bool:
    return any(_size(disk, f"{found.path}/{name}") for name in disk.names(found.path) if name.endswith(".log"))


def topics_to_adopt(found: list[Found]) -> list[FoundTopic]:
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
                f"{partitions[0].place.directory} has only some partitions of topic {name} and no metadata; restore "
                f"its coordinator directory, or move {name}-* away"
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
