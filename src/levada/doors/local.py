"""The coordinator in a directory: for one broker, or for all the brokers of one machine.

There is no lock to hold while writing. A node that wants to write claims an epoch by creating `epoch-N`, which only one
can; then notes how far its predecessor's log file goes, and begins a file of its own that says so. The predecessor
looks for a newer epoch after each write: if it finds one, it does not know whether the write came before the note, and
so says nothing.

A batch is written when the one before it is on the device, so only the last of a file can be torn or lost by a power
cut. The node that claims the next epoch writes that one again, in the first frame of its own file, and counts on none
of it.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from levada.doors.files import CoordinatorFiles, parent_of
from levada.doors.frames import (
    decode_batch,
    decode_snapshot,
    encode_batch,
    encode_snapshot,
    frames,
)
from levada.doors.local_frames import encode_start
from levada.doors.local_logs import LOG, LocalLogs, LogFile, log_name
from levada.doors.local_members import LocalMembers
from levada.metadata.door import Changes, Deposed, DoorError, Member, MetadataBatch, Token
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord
from levada.world.disk import DirectoryLock, File
from levada.world.world import World

logger = logging.getLogger(__name__)

EPOCH, SNAPSHOT = "epoch-", "snapshot-"
CLUSTER_ID = "cluster-id"
SNAPSHOTS_KEPT = 2
MAX_FILES = 16
"""Log files, one for each epoch, before a snapshot takes their place."""
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Up to where the log was read: the file of an epoch, a position in it, and the offset that comes next."""

    epoch: int
    position: int
    next_offset: int


BEGINNING = LogPosition(0, 0, 0)


class _Gap(DoorError):
    """Something between what was read and what comes next is not there."""


class LocalDoor:
    def __init__(self, world: World, directory: str, node_id: int, incarnation: str, session_timeout_ms: int) -> None:
        self._disk = world.disk
        self._async_disk = world.async_disk
        self._directory = directory
        self._files = CoordinatorFiles(world.disk, directory, str(node_id))
        self._logs = LocalLogs(self._files)
        self._node_id = node_id
        self._incarnation = incarnation
        self._members = LocalMembers(world.disk, world.clock, self._files, (node_id, incarnation), session_timeout_ms)
        self._place: LogPosition | None = None
        self._bytes_since_snapshot = 0
        self._files_since_snapshot = 0
        self._seen_epoch = -1
        self._awaits_claimant = False
        self._own_log: File | None = None
        self._own_epoch = 0
        self._own_end = 0
        self._own_next_offset = 0
        self._appended = asyncio.Event()

    def open(self) -> None:
        """Make the directory; DoorError where it could not keep its promises."""
        self._files.make()
        kind = self._disk.network_file_system(self._directory)
        if kind is not None:
            raise DoorError(
                f"{self._directory} is on a network file system ({kind}), which can lose what it was told to keep; "
                "use a local disk"
            )

    async def cluster_id(self, proposal: str | None) -> str | None:
        # Of several brokers that start at once, one proposes: the others wait for what it has written.
        while (lock := self._try_lock(f"{CLUSTER_ID}.lock")) is None:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        try:
            text = self._files.read(CLUSTER_ID).decode(errors="replace").strip()
            if text or proposal is None:
                return text or None
            self._files.write_whole(CLUSTER_ID, f"{proposal}\n".encode())
            await self._async_disk.sync_directory(self._directory)
            return proposal
        finally:
            lock.release()

    def _try_lock(self, name: str) -> DirectoryLock | None:
        try:
            return self._disk.lock(self._files.path(name))
        except BlockingIOError:
            return None

    # Members

    async def register(self) -> None:
        self._members.register(self._directory)

    async def announce(self, host: str, port: int) -> None:
        self._members.announce(host, port)

    async def members(self) -> list[Member]:
        return self._members.all()

    async def beat(self) -> None:
        self._members.beat()

    # Electing

    def _newest_epoch(self) -> int:
        """-1 if there is none; DoorError if there was a newer one: what is written then has no name to be found by."""
        try:
            newest = self._files.newest(EPOCH)
        except FileNotFoundError:
            if not self._disk.exists(parent_of(self._directory)):
                # A disk that is gone altogether may be back.
                raise
            newest = -1
        if newest < self._seen_epoch:
            self._let_go_of_log()
            raise DoorError(
                f"{self._directory} was emptied while brokers ran; stop them all, and give it its memory back with "
                "`levada metadata restore`"
            )
        self._seen_epoch = newest
        return newest

    async def controller(self) -> Member | None:
        newest = self._newest_epoch()
        return self._members.find(*self._claimant(newest)) if newest > 0 else None

    async def vacancy(self) -> None:
        # It is another process that changes what is looked at.
        while not self._may_claim_after(self._newest_epoch()):  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)

    def _may_claim_after(self, epoch: int) -> bool:
        """Whether the node that claimed this epoch is this one, or has no use for it any more."""
        if epoch <= 0:
            return True
        owner, incarnation = self._claimant(epoch)
        return owner == self._node_id or not self._members.may_lead(owner, incarnation, epoch)

    async def campaign(self) -> Token | None:
        newest = max(self._newest_epoch(), 0)
        if not self._may_claim_after(newest):
            return None
        token = Token(newest + 1)
        claim = json.dumps({"node_id": self._node_id, "incarnation": self._incarnation})
        try:
            file = self._disk.open(self._files.path(f"{EPOCH}{token.epoch:010d}"), create=True, exclusive=True)
        except FileExistsError:
            return None
        try:
            file.append([claim.encode()])
            await self._async_disk.sync(file)
        finally:
            file.close()
        await self._async_disk.sync_directory(self._directory)
        await self._begin_log(token)
        return None if self._newest_epoch() > token.epoch else token

    def _claimant(self, epoch: int) -> tuple[int, str]:
        try:
            claim = json.loads(self._files.read(f"{EPOCH}{epoch:010d}"))
            return int(claim["node_id"]), str(claim["incarnation"])
        except (ValueError, KeyError, TypeError):
            # It died while it wrote its name.
            return -1, ""

    async def _begin_log(self, token: Token) -> None:
        """Note the end of the predecessor, only now that it can no longer write unnoticed, and begin our own file."""
        start = self._logs.successor(self._logs.last_started(before=token.epoch))
        data = encode_start(start)
        file = self._disk.open(self._files.path(log_name(token.epoch)), create=True)
        try:
            if file.append([data]) != len(data):
                raise OSError(f"{file.path}: the disk took only a part of {len(data)} bytes")
            await self._async_disk.sync(file)
            await self._async_disk.sync_directory(self._directory)
        except BaseException:
            file.close()
            raise
        self._let_go_of_log()
        self._own_log, self._own_epoch, self._own_end = file, token.epoch, len(data)
        self._own_next_offset = start.next_offset + (len(decode_batch(start.carried).records) if start.carried else 0)

    async def confirm(self, token: Token) -> None:
        self._refuse_if_over(token, self._newest_epoch())

    def _refuse_if_over(self, token: Token, newest: int) -> None:
        if newest > token.epoch:
            self._let_go_of_log()
            raise Deposed(f"epoch {token.epoch} is over")

    async def resign(self) -> None:
        self._let_go_of_log()
        self._members.resign(self._own_epoch)

    # Writing

    async def append(self, token: Token, expected_offset: int, records: Sequence[MetadataRecord]) -> None:
        file = self._own_log
        if file is None:
            raise Deposed("this node has no log of its own")
        if expected_offset != self._own_next_offset:
            # Only a newer epoch keeps a reader from our end or takes it further, and our file must not have a gap.
            self._let_go_of_log()
            raise Deposed(f"epoch {token.epoch} ends at {self._own_next_offset}, not at {expected_offset}")
        data = encode_batch(MetadataBatch(token.epoch, expected_offset, tuple(records)))
        try:
            written = file.append([data])
            if written != len(data):
                raise OSError(f"{file.path}: the disk took {written} of {len(data)} bytes")
        except OSError:
            self._undo_append(file)
            raise
        try:
            await self._async_disk.sync(file)
        except OSError as error:
            # What a failed sync left is not known; a new epoch reads what is there and writes it again.
            self._let_go_of_log()
            raise Deposed(f"cannot sync {file.path}: {error}") from error
        try:
            newest = self._newest_epoch()
        except OSError as error:
            self._let_go_of_log()
            raise Deposed(f"cannot tell whether epoch {token.epoch} is over: {error}") from error
        self._refuse_if_over(token, newest)
        self._own_end += len(data)
        self._own_next_offset += len(records)
        self._appended.set()

    def _undo_append(self, file: File) -> None:
        try:
            file.truncate(self._own_end)
        except OSError as error:
            self._let_go_of_log()
            raise Deposed(f"cannot cut {file.path} back to its last good byte: {error}") from error

    def wants_snapshot(self, max_bytes: int) -> bool:
        has_records = self._place is not None and self._place.next_offset > 0
        return has_records and (self._bytes_since_snapshot >= max_bytes or self._files_since_snapshot > MAX_FILES)

    async def write_snapshot(self, image: Image) -> None:
        place = self._place
        if place is None or place.next_offset != image.offset + 1:
            # A read that failed has begun anew, and waits for a claim to say which files count: the next one will do.
            return
        name = f"{SNAPSHOT}{image.offset:020d}"
        self._files.write_whole(name, encode_snapshot(image, place.epoch, place.position))
        await self._async_disk.sync_directory(self._directory)
        self._remove_old()
        self._bytes_since_snapshot = self._files_since_snapshot = 0
        logger.info("metadata snapshot offset=%d topics=%d", image.offset, len(image.topics))

    def _remove_old(self) -> None:
        """Snapshots but for the last two, and log files and claims that come before both."""
        snapshots = self._files.numbers(SNAPSHOT)
        for offset in snapshots[:-SNAPSHOTS_KEPT]:
            self._disk.remove(self._files.path(f"{SNAPSHOT}{offset:020d}"))
        kept = [self._load_snapshot(offset) for offset in snapshots[-SNAPSHOTS_KEPT:]]
        epochs = [one[1] for one in kept if one is not None]
        if len(epochs) < SNAPSHOTS_KEPT:
            return
        needed = min(epochs)
        for prefix in (LOG, EPOCH):
            for epoch in [epoch for epoch in self._files.numbers(prefix) if epoch < needed]:
                self._disk.remove(self._files.path(f"{prefix}{epoch:010d}"))

    # Reading

    async def read(self, after_offset: int) -> Changes:
        batches: list[MetadataBatch] = []
        snapshot, tried = None, after_offset
        if self._place is None or after_offset + 1 != self._place.next_offset:
            # The first time, and when a read that failed took us further than the reader.
            tried = self._files.newest(SNAPSHOT)
            snapshot = self._rewind()
        while True:
            try:
                while await self._read_on(batches):
                    pass
                break
            except _Gap:
                newest = self._files.newest(SNAPSHOT)
                if newest <= tried:
                    raise
                # The log before it was removed while we were on our way.
                tried = newest
                snapshot = self._rewind()
                batches.clear()
        if snapshot is not None and snapshot.offset <= after_offset:
            snapshot = None
        new = [batch for batch in batches if batch.base_offset > after_offset]
        return Changes(snapshot, new, is_whole=not self._awaits_claimant)

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, POLL_SECONDS)):
                await self._appended.wait()
        except TimeoutError:
            pass
        self._appended.clear()

    def _rewind(self) -> Image | None:
        """Begin at the newest snapshot that can be read, or at the first file."""
        self._place = BEGINNING
        self._bytes_since_snapshot = self._files_since_snapshot = 0
        for offset in reversed(self._files.numbers(SNAPSHOT)):
            loaded = self._load_snapshot(offset)
            if loaded is not None:
                image, epoch, position = loaded
                self._place = LogPosition(epoch, position, image.offset + 1)
                return image
            logger.warning("ignored snapshot=%d, which is damaged", offset)
        return None

    async def _read_on(self, batches: list[MetadataBatch]) -> bool:
        """Read one file as far as it counts; False when there is no more to read now."""
        place = self._place
        assert place is not None
        newest = self._newest_epoch()
        self._awaits_claimant = False
        if newest <= place.epoch:
            data = await self._read_synced(place)
            if self._newest_epoch() > newest:
                return True
            # Bytes that were there before any newer epoch began are before whatever it notes.
            self._take(data, batches)
            return False
        chain = self._logs.chain(newest)
        if not chain:
            # The node that claimed it has not said yet which of the older files count.
            self._awaits_claimant = True
            return False
        if self._newest_epoch() > newest:
            # Only a file that was there before a newer epoch began is sure to be built upon by it.
            return True
        await self._follow(chain, batches)
        return True

    async def _read_synced(self, place: LogPosition) -> bytes:
        """The rest of a file, once it is on the device: a node must not act on what a power cut may take."""
        data = self._files.read(log_name(place.epoch), place.position)
        if place.epoch == self._own_epoch:
            return data[: max(self._own_end - place.position, 0)]
        if data:
            await self._sync_log(place.epoch)
        return data

    async def _sync_log(self, epoch: int) -> None:
        try:
            file = self._disk.open(self._files.path(log_name(epoch)))
        except FileNotFoundError:
            # It went with what came before a snapshot.
            return
        try:
            await self._async_disk.sync(file)
        finally:
            file.close()

    async def _follow(self, chain: list[LogFile], batches: list[MetadataBatch]) -> None:
        """Go on in the file where the next offset is, by now; it may have been taken over into a newer one."""
        place = self._place
        assert place is not None
        older = [number for number, file in enumerate(chain) if file.start.next_offset <= place.next_offset]
        if not older:
            raise _Gap(
                f"{self._files.path(log_name(chain[0].epoch))} begins at offset {chain[0].start.next_offset}, but "
                f"{place.next_offset} was due; restore the directory from a copy"
            )
        file = chain[older[-1]]
        if file.epoch == place.epoch:
            self._finish(chain[older[-1] + 1], batches)
            return
        if file.epoch != self._own_epoch:
            # Its name may not be there to stay yet, any more than what it carries.
            await self._sync_log(file.epoch)
            await self._async_disk.sync_directory(self._directory)
        self._place = LogPosition(file.epoch, file.position, place.next_offset)
        self._files_since_snapshot += 1
        if file.start.carried:
            self._take_batch(file.start.carried, file.position, batches)

    def _finish(self, following: LogFile, batches: list[MetadataBatch]) -> None:
        """Read the rest of a file up to where the following one goes on."""
        place = self._place
        assert place is not None
        end = following.start.next_offset
        reached = self._take(self._files.read(log_name(place.epoch), place.position), batches, end)
        if reached != end:
            raise _Gap(
                f"{self._files.path(log_name(place.epoch))} ends at offset {reached}, but the one after it goes on at "
                f"{end}; restore the directory from a copy"
            )

    def _take(self, data: bytes, batches: list[MetadataBatch], end: int | None = None) -> int:
        """Take the batches of a file, up to an offset if one is given; returns the offset that comes next."""
        assert self._place is not None
        start = self._place.position
        for placed in frames(data):
            if end is not None and self._place.next_offset >= end:
                break
            self._take_batch(placed.payload, start + placed.end, batches)
        return self._place.next_offset

    def _take_batch(self, payload: bytes, position: int, batches: list[MetadataBatch]) -> None:
        """A batch is read once, also when it stands in two files."""
        assert self._place is not None
        batch, next_offset = decode_batch(payload), self._place.next_offset
        if batch.base_offset == next_offset:
            batches.append(batch)
            next_offset = batch.last_offset + 1
        elif batch.last_offset >= next_offset:
            raise DoorError(f"{self._directory}: offset {batch.base_offset} where {next_offset} was due")
        self._bytes_since_snapshot += len(payload)
        self._place = LogPosition(self._place.epoch, position, next_offset)

    def _load_snapshot(self, offset: int) -> tuple[Image, int, int] | None:
        return decode_snapshot(self._files.read(f"{SNAPSHOT}{offset:020d}"))

    # Files

    async def close(self) -> None:
        self._let_go_of_log()
        self._members.leave()

    def _let_go_of_log(self) -> None:
        if self._own_log is not None:
            self._own_log.close()
            self._own_log = None
