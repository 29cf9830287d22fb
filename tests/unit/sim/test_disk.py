"""The simulated disk: what a crash leaves, full disks, and errors on order."""

import asyncio
import errno
import random
from collections import Counter

import pytest

from levada.sim import Simulation
from levada.sim.world.disk import SimDisk
from levada.sim.world.pages import LEAST_STALE_BYTES, tear
from levada.world.disk import File, SyncFailed
from levada.world.world import World

SEEDS = range(60)


def write(world: World, path: str, data: bytes, *, sync: bool) -> File:
    file = world.disk.open(path, create=True)
    file.append([data])
    if sync:
        file.sync()
    return file


def content(world: World, path: str) -> bytes | None:
    if not world.disk.exists(path):
        return None
    file = world.disk.open(path)
    return file.read(0, file.size())


def test_a_killed_process_leaves_all_it_wrote() -> None:
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        file = write(world, "/data/log", b"synced", sync=True)
        file.append([b" and not"])
        world.disk.open("/data/.tmp", create=True)
        world.disk.rename("/data/.tmp", "/data/new")
        sim.crash("a", power_loss=False)
        after = sim.world("a")
        assert content(after, "/data/log") == b"synced and not"
        assert after.disk.names("/data") == ["log", "new"]


def test_what_a_killed_process_did_not_sync_can_still_be_lost_with_the_power() -> None:
    outcomes = set()
    for seed in SEEDS:
        sim = Simulation(seed)
        write(sim.world("a"), "/data/log", b"unsynced", sync=False)
        sim.crash("a", power_loss=False)
        sim.world("a")
        sim.crash("a", power_loss=True)
        outcomes.add(content(sim.world("a"), "/data/log"))
    assert {None, b"", b"unsynced"} < outcomes


def test_power_loss_does_all_it_may_to_unsynced_bytes_and_nothing_to_synced_ones() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(300):
        sim = Simulation(seed)
        world = sim.world("a")
        file = write(world, "/data/log", b"synced", sync=True)
        world.disk.sync_directory("/data")
        file.append([b"UNSYNCED"])
        sim.crash("a", power_loss=True)
        after = content(sim.world("a"), "/data/log")
        assert after is not None
        assert after.startswith(b"synced")
        rest = after[6:]
        if rest == b"UNSYNCED":
            outcomes["all"] += 1
        elif not rest:
            outcomes["none"] += 1
        elif b"UNSYNCED".startswith(rest):
            outcomes["torn"] += 1
        elif set(rest) <= set(b"UNSYNCED\0"):
            outcomes["zeros"] += 1
        else:
            outcomes["garbage"] += 1
        assert len(rest) <= 8
    assert min(outcomes[kind] for kind in ("all", "none", "torn", "zeros", "garbage")) >= 5


def test_stale_bytes_before_others_that_lasted_are_no_fewer_than_a_device_leaves() -> None:
    written = bytes(range(1, 256))
    runs = []
    for seed in range(2_000):
        after = tear(written, random.Random(seed))
        differing = [place for place, pair in enumerate(zip(after, written)) if pair[0] != pair[1]]
        is_zeroed = all(after[place] == 0 for place in differing)
        if differing and not is_zeroed and len(after) == len(written) and after[-1] == written[-1]:
            runs.append(differing[-1] - differing[0] + 1)
    # A stale byte may happen to be what was written, at both ends of a run.
    assert len(runs) > 50
    assert min(runs) > LEAST_STALE_BYTES - 4


def test_a_name_lasts_only_with_its_directory() -> None:
    found = Counter[bool]()
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        write(world, "/data/log", b"synced", sync=True)
        sim.crash("a", power_loss=True)
        after = content(sim.world("a"), "/data/log")
        assert after in (None, b"synced")
        found[after is None] += 1
    assert len(found) == 2


def test_a_directory_lasts_only_with_its_parent_and_takes_its_files_along() -> None:
    found = set()
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        world.disk.make_directories("/data/topic-0")
        write(world, "/data/topic-0/log", b"synced", sync=True)
        world.disk.sync_directory("/data/topic-0")
        sim.crash("a", power_loss=True)
        after = sim.world("a")
        found.add(content(after, "/data/topic-0/log"))
    assert found == {None, b"synced"}


def test_a_rename_has_happened_or_not_and_nothing_between() -> None:
    found = set()
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        write(world, "/data/checkpoint", b"old", sync=True)
        world.disk.sync_directory("/data")
        write(world, "/data/checkpoint.tmp", b"new", sync=True)
        world.disk.rename("/data/checkpoint.tmp", "/data/checkpoint")
        sim.crash("a", power_loss=True)
        after = sim.world("a")
        found.add((content(after, "/data/checkpoint"), content(after, "/data/checkpoint.tmp")))
    assert found == {(b"old", None), (b"old", b"new"), (b"new", None)}


def test_a_synced_directory_keeps_its_rename() -> None:
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        world.disk.make_directories("/data/x")
        world.disk.sync_directory("/data")
        write(world, "/data/x/log", b"bytes", sync=True)
        world.disk.rename("/data/x/log", "/data/log")
        # Either directory of a move settles it as a whole, with the creation it builds upon.
        world.disk.sync_directory("/data" if seed % 2 else "/data/x")
        sim.crash("a", power_loss=True)
        after = sim.world("a")
        assert content(after, "/data/log") == b"bytes"
        assert after.disk.names("/data/x") == []


def test_a_durable_file_is_never_lost_by_reusing_its_name() -> None:
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        write(world, "/data/log", b"first", sync=True)
        world.disk.sync_directory("/data")
        world.disk.rename("/data/log", "/data/old")
        write(world, "/data/log", b"second", sync=True)
        sim.crash("a", power_loss=True)
        after = sim.world("a")
        assert b"first" in (content(after, "/data/log"), content(after, "/data/old"))


def test_a_removed_file_may_come_back_whole() -> None:
    found = set()
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        world.disk.make_directories("/data/t")
        world.disk.sync_directory("/data")
        write(world, "/data/t/log", b"bytes", sync=True)
        world.disk.sync_directory("/data/t")
        world.disk.remove_tree("/data/t")
        sim.crash("a", power_loss=True)
        found.add(content(sim.world("a"), "/data/t/log"))
    assert found == {None, b"bytes"}


def test_a_truncation_may_be_undone_until_it_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        file = write(world, "/data/log", b"0123456789", sync=True)
        world.disk.sync_directory("/data")
        file.truncate(4)
        sim.crash("a", power_loss=True)
        found.add(content(sim.world("a"), "/data/log"))
        again = sim.world("b")
        file = write(again, "/data/log", b"0123456789", sync=True)
        again.disk.sync_directory("/data")
        file.truncate(4)
        file.append([b"XX"])
        file.sync()
        sim.crash("b", power_loss=True)
        assert content(sim.world("b"), "/data/log") == b"0123XX"
    assert found == {b"0123456789", b"0123"}


def test_bytes_in_the_place_of_truncated_ones_are_not_yet_safe() -> None:
    found = set()
    for seed in range(200):
        sim = Simulation(seed)
        world = sim.world("a")
        file = write(world, "/data/log", b"0123456789", sync=True)
        world.disk.sync_directory("/data")
        file.truncate(4)
        file.append([b"XXXXXX"])
        sim.crash("a", power_loss=True)
        after = content(sim.world("a"), "/data/log")
        assert after is not None
        assert after.startswith(b"0123")
        found.add(after)
    assert {b"0123456789", b"0123XXXXXX", b"0123XX", b"0123"} < found


def test_bytes_cut_off_before_they_were_synced_may_come_back() -> None:
    found = set()
    for seed in range(200):
        sim = Simulation(seed)
        world = sim.world("a")
        file = write(world, "/data/log", b"ab", sync=True)
        world.disk.sync_directory("/data")
        file.append([b"torn"])
        file.truncate(2)
        sim.crash("a", power_loss=True)
        after = content(sim.world("a"), "/data/log")
        assert after is not None
        assert after.startswith(b"ab")
        found.add(after)
    assert {b"ab", b"abtorn"} < found


def test_after_a_failed_sync_the_next_one_promises_nothing() -> None:
    lost = 0
    for seed in SEEDS:
        sim = Simulation(seed)
        world = sim.world("a")
        file = write(world, "/data/log", b"safe", sync=True)
        world.disk.sync_directory("/data")
        file.append([b"LIMBO"])
        sim.machine("a").file_system.faults.fail_next("sync")
        with pytest.raises(OSError):
            file.sync()
        file.sync()
        assert file.read(0, 9) == b"safeLIMBO"
        file.append([b"later"])
        file.sync()
        sim.crash("a", power_loss=True)
        after = content(sim.world("a"), "/data/log")
        assert after in (b"safeLIMBOlater", b"safe\0\0\0\0\0later")
        lost += after != b"safeLIMBOlater"
    assert 10 < lost < 50


def test_every_descriptor_is_told_once_of_a_sync_that_failed_while_it_was_open() -> None:
    sim = Simulation(1)
    world = sim.world("a")
    writer = write(world, "/data/log", b"LIMBO", sync=False)
    reader = world.disk.open("/data/log")
    sim.machine("a").file_system.faults.fail_next("sync", count=2)
    for _ in range(2):
        with pytest.raises(SyncFailed):
            reader.sync()
    with pytest.raises(SyncFailed, match="/data/log"):
        writer.sync()
    for file in (reader, writer, world.disk.open("/data/log")):
        file.sync()


def test_an_async_sync_tells_of_one_that_failed_through_another_descriptor_during_it() -> None:
    async def test(sim: Simulation) -> None:
        world = sim.world("a")
        file = write(world, "/data/log", b"LIMBO", sync=False)
        syncing = asyncio.ensure_future(world.async_disk.sync(file))
        await asyncio.sleep(0)
        sim.machine("a").file_system.faults.fail_next("sync")
        with pytest.raises(SyncFailed):
            world.disk.open("/data/log").sync()
        with pytest.raises(SyncFailed):
            await syncing
        await world.async_disk.sync(file)

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_a_sync_that_tells_of_an_earlier_one_covers_nothing_and_the_next_one_all_but_the_lost_pages() -> None:
    told: set[bytes | None] = set()
    synced: set[bytes | None] = set()
    for seed in range(200):
        sim = Simulation(seed)
        world = sim.world("a")
        writer = write(world, "/data/log", b"safe", sync=True)
        world.disk.sync_directory("/data")
        sim.machine("a").file_system.faults.fail_next("sync")
        with pytest.raises(SyncFailed):
            world.disk.open("/data/log").sync()
        writer.append([b"later"])
        with pytest.raises(SyncFailed):
            writer.sync()
        if seed % 2:
            writer.sync()
        sim.crash("a", power_loss=True)
        (synced if seed % 2 else told).add(content(sim.world("a"), "/data/log"))
    assert {b"safe", b"safelater"} < told
    assert synced == {b"safelater"}


def test_an_async_sync_covers_what_was_written_before_it_began() -> None:
    lengths = set()

    async def test(sim: Simulation) -> None:
        world = sim.world("a")
        file = write(world, "/data/log", b"before", sync=False)
        world.disk.sync_directory("/data")
        syncing = sim.spawn("a", world.async_disk.sync(file))
        await asyncio.sleep(0)
        file.append([b" during"])
        file.truncate(10)
        await syncing
        sim.crash("a", power_loss=True)
        after = content(sim.world("a"), "/data/log")
        assert after is not None
        assert after.startswith(b"before")
        lengths.add(len(after))

    for seed in SEEDS:
        with Simulation(seed) as sim:
            sim.run(test(sim))
    assert {6, 10} < lengths


def test_a_crash_during_an_async_sync_leaves_it_undone() -> None:
    found = set()

    async def test(sim: Simulation) -> None:
        world = sim.world("a")
        file = write(world, "/data/log", b"old", sync=True)
        world.disk.sync_directory("/data")
        file.truncate(0)
        file.append([b"new"])
        syncing = sim.spawn("a", world.async_disk.sync(file))
        await asyncio.sleep(0.0001)
        assert not syncing.done()
        sim.crash("a", power_loss=True)
        found.add(content(sim.world("a"), "/data/log"))

    for seed in range(200):
        with Simulation(seed) as sim:
            sim.run(test(sim))
    assert {b"", b"old", b"n", b"new"} < found


def test_a_failed_async_sync_promises_nothing_either() -> None:
    found = set()

    async def test(sim: Simulation) -> None:
        world = sim.world("a")
        file = write(world, "/data/log", b"LIMBO", sync=False)
        world.disk.sync_directory("/data")
        sim.machine("a").file_system.faults.fail_next("sync")
        with pytest.raises(OSError):
            await world.async_disk.sync(file)
        await world.async_disk.sync(file)
        sim.crash("a", power_loss=True)
        found.add(content(sim.world("a"), "/data/log"))

    for seed in SEEDS:
        with Simulation(seed) as sim:
            sim.run(test(sim))
    assert found == {b"LIMBO", bytes(5)}


def test_async_calls_take_time_and_work_on_a_closed_or_removed_file() -> None:
    async def test(sim: Simulation) -> None:
        world = sim.world("a")
        file = write(world, "/data/log", b"0123456789", sync=False)
        read = asyncio.ensure_future(world.async_disk.read(file, 2, 3))
        await asyncio.sleep(0)
        file.close()
        world.disk.remove("/data/log")
        assert await read == b"234"
        assert sim.loop.time() > 0
        with pytest.raises(OSError):
            await world.async_disk.read(file, 0, 1)
        await world.async_disk.sync_directory("/data")
        sim.crash("a", power_loss=True)
        assert sim.world("a").disk.names("/data") == []

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_a_full_disk_takes_a_part_and_then_refuses() -> None:
    sim = Simulation(1)
    world = sim.world("a")
    file_system = sim.machine("a").file_system
    file_system.capacity = 10
    file = write(world, "/data/log", b"0123456", sync=False)
    assert file.append([b"abc", b"def"]) == 3
    with pytest.raises(OSError) as full:
        file.append([b"x"])
    assert full.value.errno == errno.ENOSPC
    assert file.append([b""]) == 0
    file.truncate(5)
    assert file.append([b"01234567"]) == 5
    other = write(world, "/data/empty", b"", sync=False)
    world.disk.rename("/data/empty", "/data/log")
    assert file_system.used == 0
    file.append([b"unlinked bytes are free"])
    assert other.append([b"x" * 20]) == 10
    world.disk.remove("/data/log")
    assert file_system.used == 0
    other.truncate(0)
    assert file_system.used == 0


def test_a_process_may_die_with_a_tree_half_gone() -> None:
    found = []

    async def test(sim: Simulation, operations: int) -> None:
        world = sim.world("a")
        world.disk.make_directories("/data/t")
        for name in ("index", "log"):
            write(world, f"/data/t/{name}", b"bytes", sync=True)
        sim.crash_at("a", disk_operations=operations, power_loss=False)
        sim.spawn("a", world.async_disk.remove_tree("/data/t"))
        await asyncio.sleep(1)
        found.append(sim.world("a").disk.names("/data/t"))

    for operations in range(4):
        with Simulation(1) as sim:
            sim.run(test(sim, operations))
    assert found == [["index", "log"], ["index", "log"], ["log"], []]


def test_errors_come_on_order() -> None:
    sim = Simulation(1)
    world = sim.world("a")
    faults = sim.machine("a").file_system.faults
    file = write(world, "/data/log", b"bytes", sync=True)
    faults.fail_next("append", path_part="log", count=2)
    faults.fail_next("append", path_part="other")
    faults.fail_next("read", error=errno.EACCES)
    for _ in range(2):
        with pytest.raises(OSError) as failure:
            file.append([b"x"])
        assert failure.value.errno == errno.EIO
    assert file.append([b"x"]) == 1
    with pytest.raises(PermissionError):
        file.read(0, 1)
    assert file.read(0, 9) == b"bytesx"
    faults.fail_randomly("append", 0.5)
    failures = 0
    for _ in range(100):
        try:
            file.append([b"x"])
        except OSError:
            failures += 1
    assert 25 < failures < 75
    faults.fail_randomly("append", 0)
    file.append([b"x"])


def test_warm_reads_are_sometimes_cold() -> None:
    sim = Simulation(1)
    world = sim.world("a")
    file = write(world, "/data/log", b"bytes", sync=True)
    cold = sum(file.read_warm(0, 5) is None for _ in range(1000))
    assert 10 < cold < 150
    assert isinstance(world.disk, SimDisk)
    world.disk.cold_probability = 0
    assert all(file.read_warm(0, 5) == b"bytes" for _ in range(100))
