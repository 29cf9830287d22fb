"""Moves replicas between the directories of a broker, while they are written to and read.

Closed segments are copied by workers. When little is left the rest is written in one go, and the log goes on in its
new place. A file in the old one says so first: whatever a crash leaves, one of the two is known to count.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from levada.broker.broker import Broker, MovingReplica
from levada.broker.partition import Partition
from levada.broker.replicas import METADATA_FILE
from levada.model.errors import KafkaStorageError
from levada.model.hashes import uuid_to_text
from levada.node.cleaning import LogCleaning
from levada.node.directories import Unfinished
from levada.node.moving_task import TASK, CopyFailed, SourceGone, check_reply, encode_order
from levada.storage.checkpoint import write_atomically
from levada.storage.log import Log
from levada.storage.log_directory import LogDirectory
from levada.storage.move_tail import MOVED_FILE, names_to_copy, state_to_hand_over, write_end
from levada.storage.segment import Segment
from levada.world.background import cancel_and_wait, start
from levada.world.disk import is_out_of_files
from levada.world.workers import WorkerError
from levada.world.world import World

logger = logging.getLogger(__name__)

RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LAST_BYTES: Final = 1 << 20
"""So much is written while everybody waits."""
LOOK_SECONDS: Final = 0.5
"""How soon it is seen that a copy is not wanted any more, or at another rate."""
REPORT_SECONDS: Final = 30.0
ORDER_BYTES: Final = 16 << 20
"""About so much is copied by one order."""

Key = tuple[str, int]


@dataclass(slots=True, eq=False)
class DirectoryMove:
    partition: Partition
    source: LogDirectory
    target: LogDirectory
    path: str
    """Where the copy is put together."""
    size: int = 0
    end_offset: int = 0
    """Of what is copied."""

    @property
    def key(self) -> Key:
        return self.partition.topic, self.partition.index


class Moves:
    def __init__(self, world: World, broker: Broker, cleaning: LogCleaning) -> None:
        self._world = world
        self._broker = broker
        self._cleaning = cleaning
        self._moves: dict[Key, DirectoryMove] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        # As many at a time as there are disks to keep busy, which is Kafka's default too.
        threads = broker.config["num.replica.alter.log.dirs.threads"]
        self._slots = asyncio.Semaphore(max(threads or len(list(broker.logs)), 1))

    def want(self, partition: Partition, target: LogDirectory) -> None:
        key = partition.topic, partition.index
        known = self._moves.get(key)
        source = self._broker.logs.holding(*key)
        if source is None:
            return
        if known is not None and known.target is target and known.partition is partition:
            return
        if source is not target:
            # Else its directories would be made anew, where no disk is.
            target.probe()
            if target.failure is not None:
                raise KafkaStorageError(f"{target.directory} has failed: {target.failure}")
        if known is not None:
            # The task that works on it sees that it is another's turn, or that nothing is to be done.
            del self._moves[key]
        if source is target:
            return
        path = target.future_path(*key, self._world.entropy.random_bytes(16).hex())
        self._world.disk.make_directories(path)
        self._moves[key] = DirectoryMove(partition, source, target, path)
        if key not in self._tasks:
            self._tasks[key] = start(f"move of {partition.name}", self._follow(key))

    def resume(self, unfinished: Iterable[Unfinished]) -> None:
        """Begin again what the last life of the node did not come to the end of."""
        for one in unfinished:
            hosted = self._broker.replicas.by_name(one.topic)
            partition = None if hosted is None else hosted.partitions.get(one.index)
            if partition is None:
                continue
            try:
                self.want(partition, one.place)
            except (KafkaStorageError, OSError) as error:
                logger.warning("not moved log=%s reason=%r", partition.name, str(error))

    def under_way(self) -> list[MovingReplica]:
        moves = [one for one in self._moves.values() if not one.partition.is_removed]
        return [MovingReplica(one.partition, one.target, one.size, one.end_offset) for one in moves]

    async def stop(self) -> None:
        """What is under way is begun again after the next start."""
        await cancel_and_wait(*self._tasks.values())

    async def _follow(self, key: Key) -> None:
        """One task for each replica, however often its goal changes."""
        try:
            async with self._slots:
                await self._cleaning.pause(key)
                while (move := self._moves.get(key)) is not None:
                    await self._carry_out(move)
        finally:
            del self._tasks[key]
            self._cleaning.resume(key)

    async def _carry_out(self, move: DirectoryMove) -> None:
        logger.info("moving log=%s-%d from=%s to=%s", *move.key, move.source.directory, move.target.directory)
        try:
            if await self._copy(move):
                await self._take_over(move)
                return
            reason = "it is not wanted any more"
        except (CopyFailed, SourceGone, WorkerError, KafkaStorageError, OSError) as error:
            reason = str(error)
        if self._moves.get(move.key) is move:
            del self._moves[move.key]
        logger.warning("not moved log=%s-%d to=%s reason=%r", *move.key, move.target.directory, reason)
        move.target.expect_no_more(*move.key)
        with suppress(OSError):
            self._world.disk.remove(f"{move.partition.log.directory}/{MOVED_FILE}")
        with suppress(OSError):
            await self._world.async_disk.remove_tree(move.path)

    def _is_wanted(self, move: DirectoryMove) -> bool:
        if move.partition.is_removed or move.source.is_offline or move.target.is_offline:
            return False
        return self._moves.get(move.key) is move

    async def _copy(self, move: DirectoryMove) -> bool:
        """Whether all is copied but a little."""
        log = move.partition.log
        has_id = False
        while self._is_wanted(move):
            if not has_id:
                has_id = await self._copy_files(move, [METADATA_FILE])
                continue
            segments = _next_to_copy(log, move.end_offset)
            if not segments:
                if log.active.size <= LAST_BYTES:
                    return True
                log.roll(log.end_offset, self._world.clock.now_ms())
                continue
            try:
                names = [name for one in segments for name in names_to_copy(self._world.disk, log, one)]
                if not await self._copy_files(move, names):
                    continue
            except SourceGone as error:
                if segments[0] in log.segments:
                    raise CopyFailed(str(error)) from error
                continue
            move.end_offset = segments[-1].next_offset
            move.size += sum(one.size for one in segments)
        return False

    async def _copy_files(self, move: DirectoryMove, names: list[str]) -> bool:
        """False if it was given up, for it is not wanted any more or at another rate."""
        # Nothing at all would be a rate that no copy ever ends with.
        rate = max(self._broker.config[RATE], 1)
        order = encode_order(move.partition.log.directory, move.path, names, rate)
        task = asyncio.get_running_loop().create_task(self._world.workers.run(TASK, order))
        try:
            while not (await asyncio.wait([task], timeout=LOOK_SECONDS))[0]:
                if not self._is_wanted(move) or max(self._broker.config[RATE], 1) != rate:
                    return False
            check_reply(task.result())
            return True
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _take_over(self, move: DirectoryMove) -> None:
        """The one step that counts is the renaming of the copy, and no append can come between its end and that."""
        world, partition, target, source = self._world, move.partition, move.target, move.source
        key, log = move.key, partition.log
        write_atomically(world.disk, log.directory, MOVED_FILE, uuid_to_text(target.directory_id))
        target.expect(*key, state_to_hand_over(log))
        write_end(world.disk, log, move.path)
        world.disk.sync_directory(move.path)
        now_ms = world.clock.now_ms()
        log.successor = target.adopt(move.path, *key, now_ms, log.config)
        log.successor.producers.count_on_from(log.producers)
        partition.go_on_with(log.successor)
        if key in source.clean_ends:
            target.clean_ends[key] = source.clean_ends[key]
        source.let_go(*key, "the log was moved to another directory")
        del self._moves[key]
        partition.notify(0)
        self._broker.replicas.note_placed(partition)
        logger.info("moved log=%s-%d bytes=%d to=%s", *key, partition.log.size, target.directory)
        if not await self._is_synced(target):
            return
        await self._is_reported(partition, target)
        self._broker.replicas.retire_log(source, *key)

    async def _is_synced(self, target: LogDirectory) -> bool:
        while True:
            try:
                await self._world.async_disk.sync_directory(target.directory)
                return True
            except OSError as error:
                if not is_out_of_files(error):
                    target.fail(error)
                    return False
            await asyncio.sleep(LOOK_SECONDS)

    async def _is_reported(self, partition: Partition, target: LogDirectory) -> None:
        """Until the cluster knows where the replica is: started without that directory, a broker would make it anew."""
        node_id, told = self._broker.identity.node_id, asyncio.Event()

        def look(*_: object) -> None:
            if partition.state.directory_of(node_id) == target.directory_id or partition.is_removed:
                told.set()

        partition.watch(look)
        try:
            look()
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    await told.wait()
        finally:
            partition.unwatch(look)


def _next_to_copy(log: Log, offset: int) -> list[Segment]:
    """The closed segments from an offset on that one order is for; many small ones would else take too many."""
    segments: list[Segment] = []
    for segment in log.segments[:-1]:
        if segment.base_offset >= offset and (not segments or sum(one.size for one in segments) < ORDER_BYTES):
            segments.append(segment)
    return segments
