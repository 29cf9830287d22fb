"""Gives a coordinator directory that is empty the memory of a cluster whose own one was lost."""

import json

from levada.doors.files import CoordinatorFiles
from levada.doors.frames import encode_snapshot
from levada.doors.local import CLUSTER_ID, EPOCH, SNAPSHOT
from levada.doors.local_frames import Start, encode_start
from levada.doors.local_logs import LOG
from levada.metadata.door import DoorError
from levada.metadata.image import Image
from levada.world.disk import Disk


def restore_local(disk: Disk, directory: str, cluster_id: str, image: Image, epoch: int) -> None:
    """DoorError if anything is there: what a coordinator knows is never written over.

    The epoch is one that no controller had, so that each that comes has a higher one than any before.
    """
    files = CoordinatorFiles(disk, directory, "restore")
    files.make()
    if files.read(CLUSTER_ID) or any(files.numbers(prefix) for prefix in (EPOCH, LOG, SNAPSHOT)):
        raise DoorError(f"{directory} is no empty directory: move what is there away first")
    start = encode_start(Start(0, image.offset + 1))
    files.write_whole(f"{EPOCH}{epoch:010d}", json.dumps({"node_id": -1, "incarnation": "restored"}).encode())
    files.write_whole(f"{LOG}{epoch:010d}", start)
    files.write_whole(f"{SNAPSHOT}{image.offset:020d}", encode_snapshot(image, epoch, len(start)))
    # Last: what has a cluster id is whole.
    files.write_whole(CLUSTER_ID, f"{cluster_id}\n".encode())
    disk.sync_directory(directory)
