"""Processes that share a host: one is paused, cut from the others, or dies in its own writes."""

import asyncio

from levada.sim import Simulation
from levada.world.world import World
from tests.unit.echo import EchoClient, EchoServer


async def serve(world: World) -> None:
    listener = await world.net.listen("", 9092, EchoServer)
    await listener.start()
    await asyncio.get_running_loop().create_future()


async def connect(world: World, host: str) -> tuple[EchoClient, asyncio.Transport]:
    client = EchoClient()
    return client, await world.net.connect(host, 9092, lambda: client)


def test_a_paused_process_is_late_and_its_clock_is_not() -> None:
    ticks: list[int] = []

    async def tick(world: World) -> None:
        begun_ms = world.clock.monotonic_ms()
        loop = asyncio.get_running_loop()
        loop.call_later(4, ticks.append, -4)
        loop.call_later(3, ticks.append, -3)
        while True:
            await asyncio.sleep(1)
            ticks.append(world.clock.monotonic_ms() - begun_ms)

    async def test(sim: Simulation) -> None:
        sim.start("a", tick, process="one")
        await asyncio.sleep(1.5)
        sim.pause("a", process="one")
        assert sim.is_paused("a", process="one")
        await asyncio.sleep(9)
        assert ticks == [1_000]
        sim.resume("a", process="one")
        await asyncio.sleep(1.2)
        assert ticks == [1_000, -3, -4, 10_500, 11_500]
        sim.pause("a", process="one")
        sim.crash("a", power_loss=False, process="one")
        await asyncio.sleep(9)
        assert len(ticks) == 5
        assert not sim.is_paused("a", process="one")

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_connections_of_a_paused_process_stay_open_and_what_came_is_read_later() -> None:
    async def test(sim: Simulation) -> None:
        sim.start("a", serve, process="one")
        world = sim.world("b")
        client, transport = await connect(world, "a")
        sim.pause("a", process="one")
        transport.write(b"first")
        # Its machine accepts connections for it.
        other, second = await connect(world, "a")
        second.write(b"other")
        await asyncio.sleep(60)
        transport.write(b" second")
        await asyncio.sleep(1)
        assert not client.received
        assert not other.received
        assert not client.lost
        sim.resume("a", process="one")
        assert await client.expect(12) == b"first second"
        assert await other.expect(5) == b"other"

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_processes_of_one_host_can_be_cut_from_each_other() -> None:
    async def test(sim: Simulation) -> None:
        sim.start("a", serve, process="one")
        (two, near), (three, far) = await asyncio.gather(
            connect(sim.world("a", process="two"), "a"), connect(sim.world("a", process="three"), "a")
        )
        sim.network.partition("a/one", "a/two")
        near.write(b"held")
        far.write(b"free")
        assert await three.expect(4) == b"free"
        await asyncio.sleep(10)
        assert not two.received
        sim.network.heal("a/one", "a/two")
        assert await two.expect(4) == b"held"

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_a_process_that_is_cut_from_another_cannot_connect() -> None:
    async def test(sim: Simulation) -> None:
        sim.start("a", serve, process="one")
        await asyncio.sleep(0.1)
        sim.network.partition("a/one", "a/two")
        connecting = sim.spawn("a", connect(sim.world("a", process="two"), "a"), process="two")
        await asyncio.sleep(20)
        assert not connecting.done()
        sim.network.heal("a/one", "a/two")
        client, transport = await connecting
        transport.write(b"there")
        assert await client.expect(5) == b"there"

    with Simulation(1) as sim:
        sim.run(test(sim))


def test_a_process_dies_in_its_own_writes() -> None:
    async def write(world: World, name: str) -> None:
        for _ in range(5):
            await asyncio.sleep(1)
            world.disk.open(f"/data/{name}", create=True).append([b"x"])

    async def test(sim: Simulation) -> None:
        # Each write is two operations.
        sim.crash_at("a", disk_operations=5, power_loss=False, process="one")
        sim.start("a", lambda world: write(world, "one"), process="one")
        two = sim.start("a", lambda world: write(world, "two"), process="two")
        await two
        disk = sim.world("a", process="three").disk
        assert (disk.open("/data/one").size(), disk.open("/data/two").size()) == (2, 5)

    with Simulation(1) as sim:
        sim.run(test(sim))
