"""The metadata log in ZooKeeper: an entry for each batch, numbered by the version of `/head`.

An append is one transaction: the epoch is still this controller's, `/head` is where this controller left it and goes
on, and the entry is there. So no two entries have one number, none is left out, and `/log` need never be listed.

An append without an answer is asked for again, as it was. If the first one was carried out, or is yet to be, only one
of the two can find `/head` where it was; whether it was one of them at all, the entry's mark tells.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from levada.doors.zookeeper_claim import Claim, write_fenced
from levada.doors.zookeeper_entries import MARK_BYTES, decode_entry, decode_entry_batch, encode_entry
from levada.doors.zookeeper_layout import HEAD, log_path, part_path
from levada.doors.zookeeper_session import (
    RETRY_SECONDS,
    Create,
    Hint,
    LostReply,
    Node,
    Operation,
    Set,
    Unreachable,
    ZooKeeperSession,
)
from levada.doors.zookeeper_snapshots import BEGINNING, LogPlace, ZooKeeperSnapshots
from levada.metadata.door import Changes, Deposed, DoorError, MetadataBatch
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord
from levada.world.clock import Entropy

logger = logging.getLogger(__name__)

ENTRIES_AT_ONCE: Final = 64
MAX_ENTRIES: Final = 10_000
"""Since the last snapshot, before another one is worth its while whatever their size."""


class _Hole(Exception):
    """An entry is not there, though the log goes on behind it."""


@dataclass(slots=True)
class _Reading:
    """How far one call has come."""

    place: LogPlace
    snapshot: Image | None
    batches: list[MetadataBatch]
    bytes: int
    entries: int


class ZooKeeperLog:
    def __init__(self, session: ZooKeeperSession, snapshots: ZooKeeperSnapshots, entropy: Entropy) -> None:
        self._session = session
        self._snapshots = snapshots
        self._entropy = entropy
        self.changed = Hint()
        self.place: LogPlace | None = None
        """Up to where the log was read."""
        self.bytes_since_snapshot = 0
        self.entries_since_snapshot = 0

    # Writing

    async def append(self, claim: Claim, expected_offset: int, records: Sequence[MetadataRecord]) -> None:
        if expected_offset != claim.next_offset:
            raise Deposed(f"epoch {claim.epoch} ends at {claim.next_offset}, not at {expected_offset}")
        number, mark = claim.head_version, self._entropy.random_bytes(MARK_BYTES)
        batch = MetadataBatch(claim.epoch, expected_offset, tuple(records))
        entry, parts = encode_entry(batch, mark)
        for index, part in enumerate(parts):
            await self._write_part(claim, part_path(number, mark, index), part)
        head = Set(HEAD, str(batch.last_offset + 1).encode(), number)
        await self._carry_out(claim, mark, head, Create(log_path(number), entry))
        claim.head_version, claim.next_offset = number + 1, batch.last_offset + 1
        self.changed.give()

    async def _write_part(self, claim: Claim, path: str, part: bytes) -> None:
        """Nothing counts yet, so an answer that does not come is an error and no more."""
        try:
            failed = await write_fenced(self._session, claim, Create(path, part))
        except LostReply:
            # It is there if it was carried out, and has our mark in its name.
            await write_fenced(self._session, claim, Create(path, part))
            return
        assert failed is None, f"{path} has another writer's mark"

    async def _carry_out(self, claim: Claim, mark: bytes, *operations: Operation) -> None:
        """Until it is known whether they were; OSError if nothing was sent."""
        number, is_in_doubt = claim.head_version, False
        while True:
            try:
                failed = await write_fenced(self._session, claim, *operations)
                if failed is None:
                    return
                break
            except Deposed:
                break
            except Unreachable:
                if not is_in_doubt:
                    raise
            except LostReply as error:
                if not is_in_doubt:
                    logger.warning("append in doubt epoch=%d entry=%d reason=%r", claim.epoch, number, str(error))
                is_in_doubt = True
                await asyncio.sleep(RETRY_SECONDS)
            if self._session.session_id != claim.session_id:
                break
        if is_in_doubt and await self._is_ours(number, mark):
            logger.info("append counts epoch=%d entry=%d", claim.epoch, number)
            return
        raise claim.is_over

    async def _is_ours(self, number: int, mark: bytes) -> bool:
        while True:
            try:
                node = await self._session.get_synced(log_path(number))
            except Unreachable:
                continue
            return node is not None and decode_entry(node.data, log_path(number)).mark == mark

    # Reading

    async def read(self, after_offset: int) -> Changes:
        head = await self._session.get_synced(HEAD, self.changed)
        end, place = self._end(head, after_offset), self.place
        if place is None or after_offset + 1 != place.next_offset:
            # The first time, and when a read that failed took us further than the reader.
            reading = _begin(*await self._snapshots.load())
        else:
            reading = _Reading(place, None, [], self.bytes_since_snapshot, self.entries_since_snapshot)
        while reading.place.number < end:
            try:
                await self._read_on(reading, min(end, reading.place.number + ENTRIES_AT_ONCE))
            except _Hole as hole:
                # The log before a snapshot was removed while we were on our way.
                loaded = await self._snapshots.load()
                if loaded[1].number <= reading.place.number:
                    raise DoorError(
                        f"{hole} is missing in ZooKeeper at {self._session.where}: restore it from a copy"
                    ) from None
                reading = _begin(*loaded)
        self.place = reading.place
        self.bytes_since_snapshot, self.entries_since_snapshot = reading.bytes, reading.entries
        snapshot = reading.snapshot
        if snapshot is not None and snapshot.offset <= after_offset:
            snapshot = None
        return Changes(snapshot, [batch for batch in reading.batches if batch.base_offset > after_offset])

    def _end(self, head: Node | None, after_offset: int) -> int:
        """The number of the entry that is not there yet."""
        known = self.place or BEGINNING
        if head is None or head.version < known.number or _offset_of(head) < max(known.next_offset, after_offset + 1):
            ends = 0 if head is None else _offset_of(head)
            raise DoorError(
                f"the log in ZooKeeper at {self._session.where} ends at offset {ends}, but this broker has read up to "
                f"{max(known.next_offset, after_offset + 1)}: it was lost, or is an older copy; stop all brokers, and "
                "restore an empty path with `levada metadata restore`"
            )
        return head.version

    async def _read_on(self, reading: _Reading, end: int) -> None:
        paths = [log_path(number) for number in range(reading.place.number, end)]
        for path, node in zip(paths, await self._session.get_all(paths)):
            if node is None:
                raise _Hole(path)
            encoded = await self._whole(reading.place.number, path, node.data)
            batch = decode_entry_batch(encoded, path)
            if batch.base_offset != reading.place.next_offset:
                raise DoorError(
                    f"{path} in ZooKeeper has offset {batch.base_offset} where {reading.place.next_offset} was due"
                )
            reading.batches.append(batch)
            reading.place = LogPlace(reading.place.number + 1, batch.last_offset + 1)
            reading.bytes += len(encoded)
            reading.entries += 1

    async def _whole(self, number: int, path: str, data: bytes) -> bytes:
        """The batch of an entry, with its parts if it has any."""
        entry = decode_entry(data, path)
        if not entry.parts:
            return entry.batch
        parts = await self._session.get_all([part_path(number, entry.mark, index) for index in range(entry.parts)])
        if None in parts:
            # They go after their entry does.
            raise _Hole(path)
        return b"".join(part.data for part in parts if part is not None)

    def wants_snapshot(self, max_bytes: int) -> bool:
        has_records = self.place is not None and self.place.next_offset > 0
        return has_records and (self.bytes_since_snapshot >= max_bytes or self.entries_since_snapshot > MAX_ENTRIES)

    def snapshot_was_written(self) -> None:
        self.bytes_since_snapshot = self.entries_since_snapshot = 0


def _begin(snapshot: Image | None, place: LogPlace) -> _Reading:
    return _Reading(place, snapshot, [], 0, 0)


def _offset_of(head: Node) -> int:
    try:
        return int(head.data)
    except ValueError:
        raise DoorError(f"{HEAD} in ZooKeeper is damaged: restore it from a copy") from None
