"""Gives a path in ZooKeeper that is empty the memory of a cluster whose own one was lost."""

from levada.doors.frames import encode_snapshot
from levada.doors.zookeeper_entries import chunks_of
from levada.doors.zookeeper_layout import (
    CLUSTER_ID,
    CONTROLLER_EPOCH,
    HEAD,
    PERSISTENT,
    SNAPSHOTS,
    KeptSnapshot,
    Pointer,
    chunk_path,
    encode_cluster_id,
    encode_pointer,
    snapshot_path,
)
from levada.doors.zookeeper_session import Create, Set, ZooKeeperSession
from levada.metadata.door import DoorError
from levada.metadata.image import Image

UNFINISHED = b"-1"
"""No broker reads a log that ends before its beginning."""
FIRST_ENTRY = 1
"""The version that `/head` has when the restoring has set it once."""


async def restore_zookeeper(
    hosts: str, chroot: str, cluster_id: str, image: Image, epoch: int, session_timeout_ms: int = 10_000
) -> None:
    """DoorError if anything is there: what a coordinator knows is never written over. OSError: it may be half done.

    The epoch is one that no controller had, so that each that comes has a higher one than any before.
    """
    session = ZooKeeperSession(hosts, chroot, session_timeout_ms)
    try:
        await session.open(session.timeout_s)
        await session.make_root()
        first = PERSISTENT | {HEAD: UNFINISHED, CONTROLLER_EPOCH: str(epoch).encode()}
        if await session.transact(*[Create(path, data) for path, data in first.items()]) is not None:
            raise DoorError(f"ZooKeeper at {session.where} is not empty: choose another path, or remove what is there")
        chunks = chunks_of(encode_snapshot(image, epoch, FIRST_ENTRY))
        await session.create(snapshot_path(image.offset))
        for index, chunk in enumerate(chunks):
            await session.create(chunk_path(image.offset, index), chunk)
        pointer = Pointer((KeptSnapshot(image.offset, FIRST_ENTRY, len(chunks)),), FIRST_ENTRY)
        failed = await session.transact(
            Set(SNAPSHOTS, encode_pointer(pointer), 0),
            Set(HEAD, str(image.offset + 1).encode(), 0),
            Create(CLUSTER_ID, encode_cluster_id(cluster_id)),
        )
        if failed is not None:
            raise DoorError(f"another program has written to ZooKeeper at {session.where} meanwhile")
    finally:
        await session.close()
