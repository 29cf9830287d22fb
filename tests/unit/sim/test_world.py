"""Whole simulations: processes, their crashes, and the same run from the same seed."""

import asyncio
import os
import subprocess
import sys
import weakref
from typing import cast

import pytest

from levada.sim import HostCrashed, HostDied, SimDeadlock, Simulation, SimUnhandled
from levada.sim.world.disk import EPOCH_MS
from levada.sim.world.simulation import SimWorkers
from levada.world.workers import WorkerError
from levada.world.world import World
from tests.unit.echo import EchoClient, EchoServer
from tests.unit.sim.busy_cluster import run_busy_cluster

TASKS = "tests.unit.world.worker_tasks"


def test_clocks_start_at_the_epoch_and_follow_virtual_time() -> None:
    with Simulation(1) as sim:
        clock, other = sim.world("a").clock, sim.world("b").clock
        assert clock.now_ms() == EPOCH_MS
        assert clock.monotonic_ms() != other.monotonic_ms()
        booted = clock.monotonic_ms()
        sim.run(asyncio.sleep(12.3456))
        assert clock.now_ms() == EPOCH_MS + 12_345
        assert clock.monotonic_ms() == booted + 12_345
        sim.machine("a").skew_ms = -500
        assert clock.now_ms() == EPOCH_MS + 11_845
        assert other.now_ms() == EPOCH_MS + 12_345
        sim.crash("a", power_loss=True)
        assert sim.world("a").clock.monotonic_ms() == 0


def test_entropy_comes_from_the_seed_and_differs_by_process() -> None:
    def draw(seed: int, host: str, lives: int = 1) -> tuple[bytes, list[int]]:
        with Simulation(seed) as sim:
            for _ in range(lives - 1):
                sim.world(host)
                sim.crash(host, power_loss=False)
            entropy = sim.world(host).entropy
            return entropy.random_bytes(8), [entropy.below(1000) for _ in range(5)]

    assert draw(1, "a") == draw(1, "a")
    drawn = [draw(1, "a"), draw(2, "a"), draw(1, "b"), draw(1, "a", lives=2)]
    assert len({bytes_drawn for bytes_drawn, _ in drawn}) == 4


def test_workers_run_the_task_later_on_the_same_disk() -> None:
    async def test(world: World, sim: Simulation) -> None:
        assert await world.workers.run(f"{TASKS}:reverse", b"abc") == b"cba"
        assert sim.loop.time() > 0
        with pytest.raises(WorkerError, match="too bad"):
            await world.workers.run(f"{TASKS}:fail", b"too bad")
        with pytest.raises(WorkerError):
            await world.workers.run("no.such:task", b"")
        cast(SimWorkers, world.workers).kill_next()
        with pytest.raises(WorkerError, match="died"):
            await world.workers.run(f"{TASKS}:reverse", b"abc")
        assert await world.workers.run(f"{TASKS}:reverse", b"abc") == b"cba"
        await world.workers.close()

    with Simulation(1) as sim:
        sim.run(test(sim.world("a"), sim))


def test_a_crashed_process_does_nothing_more() -> None:
    done: list[str] = []

    async def tick(name: str) -> None:
        try:
            while True:
                await asyncio.sleep(1)
                done.append(name)
        finally:
            done.append(f"{name} finally")
            asyncio.get_running_loop().call_soon(done.append, f"{name} zombie")

    async def node(world: World) -> None:
        file = world.disk.open("/data/log", create=True)
        loop = asyncio.get_running_loop()
        loop.call_later(3.5, done.append, "timer")
        background = asyncio.create_task(tick("background"))
        try:
            await tick("main")
        finally:
            file.append([b"must not be written"])
            background.cancel()

    async def test(sim: Simulation) -> None:
        outcome = sim.start("a", node)
        await asyncio.sleep(2.5)
        sim.crash("a", power_loss=False)
        assert sorted(done) == ["background", "background", "main", "main"]
        with pytest.raises(HostCrashed):
            await outcome
        await asyncio.sleep(10)
        assert len(done) == 4
        assert sim.world("a").disk.open("/data/log").size() == 0

    with Simulation(1) as sim:
        sim.run(test(sim))
        assert len(done) == 4


def test_what_a_process_had_made_ready_dies_with_it() -> None:
    done: list[str] = []

    async def node(world: World) -> None:
        asyncio.get_running_loop().call_soon(done.append, "callback")
        await asyncio.sleep(0)
        done.append("task")

    async def test(sim: Simulation) -> None:
        sim.start("a", node)
        await asyncio.sleep(0)
        sim.crash("a", power_loss=False)
        await asyncio.sleep(1)
        assert done == []

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_bytes_on_the_wire_arrive_from_a_killed_process_and_not_from_a_dark_machine() -> None:
    async def talk(sim: Simulation, *, power_loss: bool) -> bytes:
        a, b = sim.world("a"), sim.world("b")
        server = EchoServer()
        await (await b.net.listen("", 1, lambda: server)).start()
        client = EchoClient()
        await a.net.connect("b", 1, lambda: client)
        sim.network.link("b", "a").latency_us = (500_000, 500_000)
        server.transport.write(b"last words")
        await asyncio.sleep(0.1)
        sim.crash("b", power_loss=power_loss)
        assert isinstance(await client.wait_lost(), ConnectionResetError)
        return bytes(client.received)

    with Simulation(1) as sim:
        assert sim.run(talk(sim, power_loss=False)) == b"last words"
    with Simulation(1) as sim:
        assert sim.run(talk(sim, power_loss=True)) == b""


def test_the_doors_of_a_dead_process_are_shut() -> None:
    async def test(sim: Simulation) -> None:
        old = sim.world("a")
        file = old.disk.open("/data/log", create=True)
        lock = old.disk.lock("/data/.lock")
        await (await sim.world("b").net.listen("", 1, EchoServer)).start()
        transport = await old.net.connect("b", 1, EchoClient)
        sim.crash("a", power_loss=False)
        new = sim.world("a")
        new_lock = new.disk.lock("/data/.lock")
        lock.release()
        with pytest.raises(BlockingIOError):
            new.disk.lock("/data/.lock")
        new_lock.release()
        for attempt in (file.size, file.sync, lambda: file.append([b"x"]), lambda: file.read(0, 1)):
            with pytest.raises(HostDied):
                attempt()
        for door_call in (
            lambda: old.disk.names("/data"),
            lambda: old.disk.open("/data/new", create=True),
            lambda: old.disk.remove("/data/log"),
        ):
            with pytest.raises(HostDied):
                door_call()
        with pytest.raises(HostDied):
            await old.net.connect("b", 1, EchoClient)
        with pytest.raises(HostDied):
            await old.net.listen("", 2, EchoServer)
        with pytest.raises(HostDied):
            await old.async_disk.sync(file)
        transport.write(b"from the grave")
        transport.close()
        transport.abort()
        assert new.disk.names("/data") == [".lock", "log"]

    with Simulation(1) as sim:
        sim.run(test(sim))


@pytest.mark.parametrize("power_loss", [False, True])
def test_peers_of_a_crashed_process_see_a_reset(power_loss: bool) -> None:
    async def serve(world: World) -> None:
        await (await world.net.listen("", 1, EchoServer)).start()
        await asyncio.Event().wait()

    async def test(sim: Simulation) -> None:
        world = sim.world("a")
        sim.start("b", serve)
        await asyncio.sleep(1)
        client = EchoClient()
        transport = await world.net.connect("b", 1, lambda: client)
        transport.write(b"hello")
        await client.expect(5)
        crashed_at = sim.loop.time()
        sim.crash("b", power_loss=power_loss)
        assert isinstance(await client.wait_lost(), ConnectionResetError)
        assert sim.loop.time() - crashed_at < (11 if power_loss else 0.1)
        with pytest.raises(TimeoutError if power_loss else ConnectionRefusedError):
            await world.net.connect("b", 1, EchoClient)
        sim.start("b", serve)
        await asyncio.sleep(1)
        again = EchoClient()
        (await world.net.connect("b", 1, lambda: again)).write(b"again")
        await again.expect(5)

    with Simulation(3) as sim:
        sim.run(test(sim))


def test_a_process_can_die_between_two_disk_operations() -> None:
    survived: list[str] = []

    async def node(world: World) -> None:
        file = world.disk.open("/data/log", create=True)
        for number in range(10):
            try:
                file.append([b"%d" % number])
            except Exception:
                survived.append("caught")
        survived.append("went on")

    async def test(sim: Simulation) -> None:
        sim.crash_at("a", disk_operations=4, power_loss=False)
        outcome = sim.start("a", node)
        with pytest.raises(HostCrashed):
            await outcome
        assert not survived
        assert sim.world("a").disk.open("/data/log").read(0, 100) == b"012"

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_one_process_of_a_host_can_die_alone() -> None:
    async def tick(world: World) -> None:
        while True:
            await asyncio.sleep(1)
            world.disk.open("/data/ticks", create=True).append([b"x"])

    async def test(sim: Simulation) -> None:
        one = sim.start("a", tick, process="one")
        two = sim.start("a", tick, process="two")
        await asyncio.sleep(2.5)
        sim.crash("a", power_loss=False, process="one")
        await asyncio.sleep(2)
        assert (one.done(), two.done()) == (True, False)
        assert sim.world("a", process="three").disk.open("/data/ticks").size() == 6

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_a_second_life_needs_the_end_of_the_first() -> None:
    with Simulation(1) as sim:
        sim.world("a")
        with pytest.raises(ValueError, match="alive"):
            sim.world("a")


def test_outcomes_of_processes_reach_the_test() -> None:
    async def answer(world: World) -> int:
        await asyncio.sleep(1)
        return world.clock.now_ms()

    async def fail(world: World) -> None:
        raise ValueError("main failed")

    async def test(sim: Simulation) -> None:
        assert await sim.start("a", answer) == EPOCH_MS + 1000
        assert await sim.spawn("a", asyncio.sleep(1, "more")) == "more"
        with pytest.raises(ValueError, match="main failed"):
            await sim.start("b", fail)

    async def careless(sim: Simulation) -> None:
        sim.start("c", fail)
        await asyncio.sleep(1)

    with Simulation(1) as sim:
        sim.run(test(sim))
        with pytest.raises(SimUnhandled, match="main failed"):
            sim.run(careless(sim))


def test_failures_name_the_seed() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    with Simulation(4711) as sim, pytest.raises(SimDeadlock) as failure:
        sim.run(hang())
    assert "seed 4711" in "".join(failure.value.__notes__)


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_what_earlier_runs_have_left_in_cycles_is_gone_once_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levada.sim.world.simulation.MANY_OBJECTS", 100)

    async def leave(held: list[Cycle]) -> None:
        held += [Cycle() for _ in range(200)]

    with Simulation(1) as sim:
        held: list[Cycle] = []
        sim.run(leave(held))
        left = weakref.ref(held[0])
        # As with a node, nothing else holds it when the run is over.
        held.clear()
    with Simulation(2) as sim:
        sim.run(asyncio.sleep(0))
    assert left() is None


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_busy_cluster(7) == run_busy_cluster(7)


def test_different_seeds_give_different_runs() -> None:
    assert len({run_busy_cluster(seed) for seed in range(10)}) == 10


def test_a_fresh_process_with_another_hash_seed_gives_the_same_run() -> None:
    def run_elsewhere(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "tests.unit.sim.busy_cluster", "7"],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ).stdout.strip()

    assert run_elsewhere("1") == run_elsewhere("2") == run_busy_cluster(7)
