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
        head = await session.get_synced(HEAD)
        if await session.exists(CLUSTER_ID) or (head is not None and head.version > 0):
            raise DoorError(f"ZooKeeper at {session.where} is not empty: choose another path, or remove what is there")
        # A broker that was refused for what is missing may have made what each begins with.
        first = PERSISTENT | {HEAD: UNFINISHED, CONTROLLER_EPOCH: str(epoch).encode()}
        begun = [
            Set(path, data, 0) if await session.exists(path) else Create(path, data)
            for path, data in first.items()
            if path in (HEAD, CONTROLLER_EPOCH) or not await session.exists(path)
        ]
        if await session.transact(*begun) is not None:
            raise DoorError(f"another program has written to ZooKeeper at {session.where} meanwhile")
        head_version = 0 if head is None else 1
        first_entry = head_version + 1
        chunks = chunks_of(encode_snapshot(image, epoch, first_entry))
        await session.create(snapshot_path(image.offset))
        for index, chunk in enumerate(chunks):
            await session.create(chunk_path(image.offset, index), chunk)
        pointer = Pointer((KeptSnapshot(image.offset, first_entry, len(chunks)),), first_entry)
        failed = await session.transact(
            Set(SNAPSHOTS, encode_pointer(pointer), 0),
            Set(HEAD, str(image.offset + 1).encode(), head_version),
            Create(CLUSTER_ID, encode_cluster_id(cluster_id)),
        )
        if failed is not None:
            raise DoorError(f"another program has written to ZooKeeper at {session.where} meanwhile")
    finally:
        await session.close()
