"""Snapshots in ZooKeeper: an image in chunks, which counts once the fenced pointer in `/snapshots` names it.

Two are kept, and the log from where the older one ends: a reader that fell behind, or that meets a snapshot as it goes,
looks at the pointer again.
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

from levada.doors.frames import decode_snapshot, encode_snapshot
from levada.doors.zookeeper_claim import Claim, write_fenced
from levada.doors.zookeeper_entries import chunks_of
from levada.doors.zookeeper_layout import (
    PARTS,
    SNAPSHOTS,
    KeptSnapshot,
    Pointer,
    chunk_path,
    decode_pointer,
    encode_pointer,
    log_path,
    number_of_part,
    snapshot_path,
)
from levada.doors.zookeeper_session import Create, Delete, Set, ZooKeeperSession
from levada.metadata.door import DoorError
from levada.metadata.image import Image

logger = logging.getLogger(__name__)

SNAPSHOTS_KEPT: Final = 2
DELETED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place in the log: the number of the entry that comes next, and the offset of its first record."""

    number: int
    next_offset: int


BEGINNING: Final = LogPlace(0, 0)


class ZooKeeperSnapshots:
    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    async def load(self) -> tuple[Image | None, LogPlace]:
        """The newest image that can be read, and where the log goes on behind it."""
        pointer, before = await self._pointer(), None
        while pointer != before:
            for kept in reversed(pointer.kept):
                image = await self._load(kept)
                if image is not None:
                    return image, LogPlace(kept.entry, kept.offset + 1)
            if pointer.log_start == 0:
                return None, BEGINNING
            # They may have been replaced while we read them.
            pointer, before = await self._pointer(), pointer
        raise DoorError(
            f"no snapshot in ZooKeeper at {self._session.where} can be read, and its log begins with entry "
            f"{pointer.log_start}: restore it from a copy"
        )

    async def write(self, claim: Claim, image: Image, place: LogPlace) -> None:
        """Keep an image, and remove what is not needed any more; Deposed if the claim is over.

        OSError: it may be kept or not, and what is half done is begun anew by the next one.
        """
        pointer = await self._pointer()
        if not pointer.kept or pointer.kept[-1].offset < image.offset:
            chunks = chunks_of(encode_snapshot(image, claim.epoch, place.number))
            # Of one that was not finished.
            await self._remove(claim, image.offset)
            await self._fenced(claim, Create(snapshot_path(image.offset), b""))
            for index, chunk in enumerate(chunks):
                await self._fenced(claim, Create(chunk_path(image.offset, index), chunk))
            kept = (*pointer.kept, KeptSnapshot(image.offset, place.number, len(chunks)))[-SNAPSHOTS_KEPT:]
            pointer = replace(pointer, kept=kept)
            await self._fenced(claim, Set(SNAPSHOTS, encode_pointer(pointer)))
            logger.info("metadata snapshot offset=%d topics=%d", image.offset, len(image.topics))
        if len(pointer.kept) == SNAPSHOTS_KEPT:
            await self._trim(claim, pointer)

    async def _pointer(self) -> Pointer:
        node = await self._session.get_synced(SNAPSHOTS)
        if node is None:
            raise DoorError(f"ZooKeeper at {self._session.where} has no {SNAPSHOTS}: it was lost")
        return decode_pointer(node.data)

    async def _load(self, kept: KeptSnapshot) -> Image | None:
        paths = [chunk_path(kept.offset, index) for index in range(kept.chunks)]
        nodes = await self._session.get_all(paths)
        loaded = decode_snapshot(b"".join(node.data for node in nodes if node is not None))
        if loaded is None:
            logger.warning("ignored snapshot=%d, which is damaged or was replaced", kept.offset)
            return None
        return loaded[0]

    async def _trim(self, claim: Claim, pointer: Pointer) -> None:
        """Remove what both snapshots cover: entries, parts of entries, and older snapshots."""
        needed = pointer.kept[0].entry
        while pointer.log_start < needed:
            end = min(pointer.log_start + DELETED_AT_ONCE, needed)
            entries = [Delete(log_path(number)) for number in range(pointer.log_start, end)]
            pointer = replace(pointer, log_start=end)
            await self._fenced(claim, Set(SNAPSHOTS, encode_pointer(pointer)), *entries)
        parts = [name for name in await self._session.children(PARTS) if number_of_part(name) < needed]
        await self._delete(claim, [f"{PARTS}/{name}" for name in parts])
        kept = {one.offset for one in pointer.kept}
        for name in await self._session.children(SNAPSHOTS):
            if int(name) not in kept:
                await self._remove(claim, int(name))

    async def _remove(self, claim: Claim, offset: int) -> None:
        """A snapshot that the pointer does not name, or what there is of it."""
        path = snapshot_path(offset)
        if await self._session.exists(path):
            chunks = await self._session.children(path)
            await self._delete(claim, [*(f"{path}/{chunk}" for chunk in chunks), path])

    async def _delete(self, claim: Claim, paths: list[str]) -> None:
        for start in range(0, len(paths), DELETED_AT_ONCE):
            await self._fenced(claim, *[Delete(path) for path in paths[start : start + DELETED_AT_ONCE]])

    async def _fenced(self, claim: Claim, *operations: Create | Set | Delete) -> None:
        failed = await write_fenced(self._session, claim, *operations)
        if failed is not None:
            # Only this controller writes here, so an answer that was lost has told of the same operation before.
            raise OSError(f"{operations[failed].path} in ZooKeeper is not as it was left")
