"""A crash at every disk operation of a move to another directory: nothing lost, nothing twice, the log in one place."""

import asyncio
import os
import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from levada.sim import Simulation
from levada.sim.requests.topics import create_topic
from levada.sim.world.disk_faults import DiskFaults
from levada.world.disk import AsyncDisk
from tests.logs import check_indexes
from tests.simulation.moving_log import (
    BROKER,
    FIRST,
    LOG,
    LOOK_SECONDS,
    NONE,
    SECOND,
    TOPIC,
    UNENDED,
    Prepared,
    Sequence,
    Town,
    prepare,
    transact,
    until,
)

IS_SOAK = os.environ.get("LEVADA_SOAK") == "1"
SEED = 1
SAMPLES = 25
"""Crash points of each kind, when not all of them are tried."""
BLOCKS = 5
LOOKING = ("exists", "read", "names")
ON_THE_WIRE_SECONDS = 1.0
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
LIMIT_MS = 600_000


class NotedFaults(DiskFaults):
    """None of them, but a list of all operations."""

    def __init__(self) -> None:
        super().__init__(random.Random(SEED))
        self.seen: list[tuple[str, str]] = []

    def check(self, operation: str, path: str) -> None:
        self.seen.append((operation, path))


@dataclass(frozen=True)
class Crash:
    after_operations: int
    power_loss: bool


class Session:
    """One move under two producers, with at most one crash, and what must be true when all is quiet again."""

    def __init__(self, simulation: Simulation, prepared: Prepared) -> None:
        self._simulation = simulation
        self._prepared = prepared
        self._town = Town(simulation, prepared.files)
        known = prepared.writer
        self._writers = [Sequence(known.producer_id, list(known.batches)), Sequence()]
        self._is_over = False

    async def measure(self) -> list[tuple[str, str]]:
        """The operations of the broker's disk from the begin of the move until the old log is removed."""
        town = self._town
        town.start()
        writing = await self._begin()
        faults = NotedFaults()
        town.machine.file_system.faults = faults
        await town.as_client(town.begin_move(SECOND))
        await until(self._is_moved, "it never ends")
        operations = list(faults.seen)
        await self._check(writing)
        return operations

    async def crash(self, crash: Crash) -> None:
        town = self._town
        town.start()
        writing = await self._begin()
        self._simulation.crash_at(BROKER, disk_operations=crash.after_operations, power_loss=crash.power_loss)
        moving = self._simulation.spawn("client", town.begin_move(SECOND))
        await until(lambda: not town.machine.processes, "it does not die")
        # Replies that were on the wire still arrive, and belong to the time before.
        await asyncio.sleep(ON_THE_WIRE_SECONDS)
        before = town.names()
        town.start()
        await moving
        await until(self._is_moved, f"the move is not ended, which had left {before}")
        await self._check(writing)

    async def lose_target(self, operations: int) -> None:
        """The new place is not there when the broker starts again, and later it is."""
        town = self._town
        files = town.machine.file_system
        town.start()
        writing = await self._begin()
        self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=False)
        await town.as_client(town.begin_move(SECOND))
        await until(lambda: not town.machine.processes, "it does not die")
        assert town.names() == {FIRST: [LOG], SECOND: [LOG]}
        files.rename(SECOND, f"{SECOND}-away")
        town.start()
        for _ in range(20):
            code, _ = await town.as_client(town.produce(-1, -1, [b"refused"]))
            assert code == STORAGE_ERROR
        town.crash(power_loss=False)
        files.remove_tree(SECOND)
        files.rename(f"{SECOND}-away", SECOND)
        town.start()
        await until(self._is_moved, "it is not in one place")
        await self._check(writing)

    def _is_moved(self) -> bool:
        return self._town.names() == {FIRST: [], SECOND: [LOG]}

    async def _begin(self) -> "list[asyncio.Future[None]]":
        self._writers[1].producer_id = await self._town.as_client(self._town.new_producer())
        return [self._simulation.spawn("client", self._write(number)) for number in range(len(self._writers))]

    async def _write(self, number: int) -> None:
        chance = self._simulation.chance("writer", str(number))
        writer, count = self._writers[number], 0
        while not self._is_over:
            values = [b"%d:new-%d-%d" % (number, count, n) + bytes(chance.randrange(60)) for n in range(1, 3)]
            count += 1
            await self._town.send(writer, values)
            await asyncio.sleep(chance.random() * 0.1)

    async def _check(self, writing: "list[asyncio.Future[None]]") -> None:
        town, before = self._town, self._prepared.content
        self._is_over = True
        await asyncio.gather(*writing)
        content = await town.as_client(town.read())
        expected = before.records | self._acknowledged_now()
        assert sorted(content.records) == sorted(expected)
        assert content.records == expected
        assert content.start_offset == before.start_offset
        assert content.last_stable_offset == before.last_stable_offset
        assert content.aborted == before.aborted
        for writer in self._writers:
            await town.as_client(self._repeat_last(writer))
        await town.as_client(town.new_producer(UNENDED))
        ended = await town.as_client(town.read())
        assert ended.records == content.records
        assert ended.last_stable_offset == ended.end_offset == content.end_offset + 1
        assert len(ended.aborted) == len(before.aborted) + 1
        assert self._is_moved(), town.names()
        town.connector.close()
        town.crash(power_loss=False)
        check_indexes(f"{SECOND}/{LOG}", self._simulation.world(BROKER).disk)

    def _acknowledged_now(self) -> dict[int, bytes]:
        first = self._prepared.content.end_offset
        return self._writers[0].acknowledged_from(first) | self._writers[1].acknowledged_from(first)

    async def _repeat_last(self, writer: Sequence) -> None:
        """A batch that comes again, for its answer was lost, is known."""
        for number, values, offset in writer.batches[-3:]:
            assert await self._town.produce(writer.producer_id, number, values) == (NONE, offset)


@cache
def prepared() -> Prepared:
    return prepare(SEED)


@cache
def operations() -> tuple[tuple[str, str], ...]:
    with Simulation(SEED) as simulation:
        session = Session(simulation, prepared())
        return tuple(simulation.run(session.measure(), limit_ms=LIMIT_MS))


def points() -> list[int]:
    """After every change of the disk, or after some; the handing over, where most can go wrong, has half of these."""
    changes = [number + 1 for number, (operation, _) in enumerate(operations()) if operation not in LOOKING]
    if IS_SOAK:
        return changes
    chance = random.Random(SEED)
    begin, end = handing_over()
    within = [point for point in changes if begin < point <= end]
    others = [point for point in changes if point not in within]
    return sorted(chance.sample(within, SAMPLES // 2) + chance.sample(others, SAMPLES // 2))


def handing_over() -> tuple[int, int]:
    """From the note in the old log that it has moved to the new name it gets as a deleted one."""
    begin = [path for _, path in operations()].index(f"{FIRST}/{LOG}/moved.tmp")
    return begin, operations().index(("rename", f"{FIRST}/{LOG}")) + 1


@pytest.mark.parametrize("power_loss", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_crash_at_any_operation_of_a_move_loses_nothing(block: int, power_loss: bool) -> None:
    for point in points()[block::BLOCKS]:
        with Simulation(SEED) as simulation:
            session = Session(simulation, prepared())
            try:
                simulation.run(session.crash(Crash(point, power_loss)), limit_ms=LIMIT_MS)
            except Exception as error:
                error.add_note(f"crash at operation {point}, after {operations()[point - 1]}")
                raise


def test_a_log_of_one_segment_takes_its_producers_and_transactions_along() -> None:
    with Simulation(SEED) as simulation:
        town = Town(simulation)

        async def session() -> None:
            await create_topic(town.connector, TOPIC, 1)
            writer = Sequence(await town.new_producer())
            for value in (b"one", b"two", b"three"):
                await town.send(writer, [value])
            await transact(town, "ended", [False, True])
            # The last transaction is committed before its marker is on the device, and seen after.
            while (before := await town.read()).end_offset < 3 + 2 * (3 + 1):
                await asyncio.sleep(LOOK_SECONDS)
            assert len(before.aborted) == 1
            await town.begin_move(SECOND)
            await until(lambda: town.names() == {FIRST: [], SECOND: [LOG]}, "it never ends")
            for is_again in (False, True):
                for number, values, offset in writer.batches:
                    assert await town.produce(writer.producer_id, number, values) == (NONE, offset)
                assert await town.read() == before
                if not is_again:
                    town.crash(power_loss=False)
                    town.start()
            town.connector.close()

        async def main() -> None:
            town.start()
            await town.as_client(session())

        simulation.run(main(), limit_ms=LIMIT_MS)


class SlowNames:
    """A disk on which the names in one directory take a second to reach the device."""

    def __init__(self, disk: AsyncDisk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    async def sync_directory(self, path: str) -> None:
        if path == SECOND:
            await asyncio.sleep(1.0)
        await self._disk.sync_directory(path)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_acknowledged_before_the_new_name_is_on_the_device_is_not_lost(seed: int) -> None:
    with Simulation(seed) as simulation:
        town = Town(simulation, prepared().files)
        known = prepared().writer
        writer = Sequence(known.producer_id, list(known.batches))

        async def session() -> None:
            await town.begin_move(SECOND)
            await until(lambda: LOG in town.names()[SECOND], "it never ends")
            sending = asyncio.ensure_future(town.send(writer, [b"1:in the new place"]))
            await asyncio.sleep(0.5)
            town.crash(power_loss=True)
            town.start()
            await sending
            content = await town.read()
            assert content.records == prepared().content.records | writer.acknowledged_from(content.end_offset - 1)
            town.connector.close()

        async def main() -> None:
            town.start(lambda world: replace(world, async_disk=SlowNames(world.async_disk)))
            await town.as_client(session())

        simulation.run(main(), limit_ms=LIMIT_MS)


@pytest.mark.parametrize("is_reported", [False, True])
def test_a_log_that_may_have_moved_to_a_directory_that_is_not_here_waits_for_it(is_reported: bool) -> None:
    """The copy was taken over, and the broker killed before it was done with the old log."""
    begin, end = handing_over()
    report = next(n for n in range(begin, end) if operations()[n][1].startswith(f"{FIRST}/coordinator/"))
    with Simulation(SEED) as simulation:
        session = Session(simulation, prepared())
        simulation.run(session.lose_target(report + is_reported), limit_ms=LIMIT_MS)
