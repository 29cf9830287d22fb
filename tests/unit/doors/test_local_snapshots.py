"""Snapshots of the metadata log: what they replace, and what is read where they are damaged."""

import asyncio
from pathlib import Path

import pytest

from levada.doors.local import MAX_FILES, LocalDoor
from levada.metadata.delta import apply
from levada.metadata.door import DoorError
from levada.metadata.image import Image
from levada.metadata.records import ConfigRecord
from levada.sim.world import DATA_DIRECTORY, Simulation
from levada.world.world import World
from tests.unit.doors.nodes import Machine, finish


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "coordinator")


def live(machine: Machine, *values: str, snapshot: bool = False) -> None:
    """One life of a node, which writes some values."""
    node = machine.node().lead()
    for value in values:
        node.write(value)
    if snapshot:
        node.snapshot()
    node.stop()


def test_a_snapshot_stands_for_the_log_before_it(machine: Machine) -> None:
    live(machine, "a", "b", snapshot=True)
    live(machine, "c")
    reader = machine.node(2)
    changes = finish(reader.door.read(-1))
    assert changes.snapshot is not None
    assert changes.snapshot.offset == 1
    records = [record for batch in changes.batches for record in batch.records]
    assert [one.name for one in records if isinstance(one, ConfigRecord)] == ["c"]
    assert machine.reader() == ["a", "b", "c"]


def test_files_that_come_before_both_snapshots_go(machine: Machine) -> None:
    live(machine, "a")
    live(machine, "b", snapshot=True)
    assert machine.names("log-") == ["log-0000000001", "log-0000000002"]
    live(machine, "c", snapshot=True)
    assert machine.names("log-") == ["log-0000000002", "log-0000000003"]
    assert machine.names("epoch-") == ["epoch-0000000002", "epoch-0000000003"]
    live(machine, "d", snapshot=True)
    assert machine.names("snapshot-") == ["snapshot-00000000000000000002", "snapshot-00000000000000000003"]
    assert machine.names("log-") == ["log-0000000003", "log-0000000004"]
    assert machine.reader() == ["a", "b", "c", "d"]


def test_a_damaged_snapshot_gives_way_to_the_one_before(machine: Machine) -> None:
    for value in ("a", "b", "c"):
        live(machine, value, snapshot=True)
    live(machine, "d")
    newest = machine.file("snapshot-00000000000000000002")
    whole = newest.read_bytes()
    for damaged in (b"", whole[:-1], whole[:20] + b"\xff" + whole[21:], bytes(len(whole))):
        newest.write_bytes(damaged)
        assert machine.reader() == ["a", "b", "c", "d"]


def test_without_any_sound_snapshot_the_log_says_that_it_is_cut(machine: Machine) -> None:
    for value in ("a", "b", "c"):
        live(machine, value, value * 2, snapshot=True)
    for name in machine.names("snapshot-"):
        machine.file(name).write_bytes(b"damaged")
    with pytest.raises(DoorError, match="begins at offset 1, but 0 was due; restore the directory from a copy"):
        machine.reader()


def test_nothing_goes_while_one_of_the_snapshots_is_damaged(machine: Machine) -> None:
    live(machine, "a", snapshot=True)
    machine.file(machine.names("snapshot-")[0]).write_bytes(b"damaged")
    live(machine, "b", snapshot=True)
    assert machine.names("log-") == ["log-0000000001", "log-0000000002"]
    machine.file(machine.names("snapshot-")[1]).unlink()
    assert machine.reader() == ["a", "b"]


def test_a_snapshot_that_was_cut_off_is_as_if_it_had_not_been_begun(machine: Machine) -> None:
    live(machine, "a")
    machine.file(".snapshot-00000000000000000001.1.tmp").write_bytes(b"half")
    live(machine, "b", snapshot=True)
    changes = finish(machine.node(2).door.read(-1))
    assert changes.snapshot is not None
    assert list(changes.snapshot.config_of(2, "log")) == ["a", "b"]


def test_a_reader_that_fell_behind_gets_a_snapshot(machine: Machine) -> None:
    reader = machine.node(2)
    live(machine, "a")
    assert reader.read() == ["a"]
    for value in ("b", "c", "d"):
        live(machine, value, value * 2, snapshot=True)
    changes = finish(reader.door.read(reader.image.offset))
    assert changes.snapshot is not None
    assert changes.snapshot.offset == 6


def test_a_reader_whose_log_goes_while_it_reads_gets_a_snapshot(machine: Machine) -> None:
    reader = machine.node(2)
    live(machine, "a")
    reader.read()

    def trim() -> None:
        for value in ("b", "c", "d"):
            live(machine, value, value * 2, snapshot=True)

    reader.disk.before("open", "log-0000000001", trim)
    assert reader.read() == ["a", "b", "bb", "c", "cc", "d", "dd"]


def test_a_snapshot_is_worth_its_while_after_some_bytes_or_many_files(machine: Machine) -> None:
    node = machine.node().lead()
    assert not node.door.wants_snapshot(0)
    node.write("a" * 500)
    node.read()
    assert node.door.wants_snapshot(400)
    assert not node.door.wants_snapshot(600)
    node.snapshot()
    assert not node.door.wants_snapshot(400)
    node.stop()
    for number in range(MAX_FILES + 1):
        live(machine, f"{number}")
    node = machine.node().lead()
    assert node.door.wants_snapshot(1 << 30)
    node.snapshot()
    assert not node.door.wants_snapshot(1 << 30)


def test_a_snapshot_is_never_ahead_of_its_log_after_a_power_cut() -> None:
    """A batch is in the file before it is on the device; a snapshot of it must not outlive it."""
    for seed in range(40):
        with Simulation(seed) as simulation:
            simulation.run(_snapshot_while_a_batch_is_synced(simulation), limit_ms=60_000)


async def _snapshot_while_a_batch_is_synced(simulation: Simulation) -> None:
    simulation.start("host", _write_and_snapshot)
    await asyncio.sleep(simulation.chance("cut").random() * 0.05)
    simulation.crash("host", power_loss=True)
    seen = await simulation.start("host", _lead)
    assert seen == sorted(seen)


async def _write_and_snapshot(world: World) -> None:
    door = _door(world)
    token = await door.campaign()
    assert token is not None
    loop = asyncio.get_running_loop()
    for number in range(5):
        image = (await _read(door))[0]
        appending = loop.create_task(door.append(token, image.offset + 1, [_record(number)]))
        await asyncio.sleep(0)
        image = (await _read(door))[0]
        if image.offset >= 0:
            await door.write_snapshot(image)
        await appending


async def _lead(world: World) -> list[str]:
    door = _door(world)
    token = await door.campaign()
    assert token is not None
    image, seen = await _read(door)
    await door.append(token, image.offset + 1, [_record(9)])
    assert (await _read(door))[1] == [*seen, "9"]
    return seen


def _door(world: World) -> LocalDoor:
    door = LocalDoor(world, f"{DATA_DIRECTORY}/coordinator", 1, "life", 9_000)
    door.open()
    return door


async def _read(door: LocalDoor) -> tuple[Image, list[str]]:
    """All that the log says, from its beginning or a snapshot on."""
    door._place = None
    changes = await door.read(-1)
    image = changes.snapshot or Image()
    for batch in changes.batches:
        image = apply(image, batch.records, batch.last_offset)
    return image, list(image.config_of(2, "log"))


def _record(number: int) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="log", name=f"{number}", value="")
