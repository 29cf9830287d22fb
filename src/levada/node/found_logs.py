"""Which of the logs in a node's directories count when it starts, and which are left from deletions and moves."""

import logging
from dataclasses import dataclass

from levada.broker.broker import Broker
from levada.node.directories import (
    Found,
    Unfinished,
    find_deleted,
    find_partitions,
    find_unfinished,
    superseded,
    undecided,
)
from levada.storage.log_directory import DELETED, FUTURE
from levada.storage.move_tail import MOVED_FILE
from levada.world.disk import Disk

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundLogs:
    partitions: list[Found]
    unfinished: list[Unfinished]
    """Moves to another directory that are to be begun again."""


def find_logs(disk: Disk, broker: Broker) -> FoundLogs:
    """The logs to open; what is of no use any more is retired."""
    online, replicas = broker.logs.online, broker.replicas
    found = [one for place in online for one in find_partitions(disk, place)]
    replicas.retire_at_once([path for place in online for path in find_deleted(disk, place)])
    doubtful = undecided(disk, found, [place.directory_id for place in online])
    for one in doubtful:
        # An operator who has lost that directory for good removes the file, and goes on with what is here.
        logger.error("offline log=%s, which may have moved to a directory that is not here: %s", one.path, MOVED_FILE)
    found = [one for one in found if one not in doubtful]
    moved = superseded(disk, found)
    for one in moved:
        replicas.retire_log(one.place, one.topic, one.index)
    unfinished = [one for place in online for one in find_unfinished(disk, place)]
    for copied in unfinished:
        retired = copied.path.removesuffix(FUTURE) + DELETED
        disk.rename(copied.path, retired)
        replicas.retire_at_once([retired])
    return FoundLogs([one for one in found if one not in moved], unfinished)
