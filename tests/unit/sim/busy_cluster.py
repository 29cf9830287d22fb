"""A small cluster that uses every door under every fault; run as a program, it prints the digest of its trace."""

import asyncio
import sys

from levada.sim import Simulation
from levada.world.world import World
from tests.unit.echo import EchoClient, EchoServer

HOSTS = ("north", "south", "east")


async def serve(world: World) -> None:
    """Echo, and write a log with random content that is synced from time to time."""
    await (await world.net.listen("", 9092, EchoServer)).start()
    world.disk.make_directories("/data/topic-0")
    world.disk.sync_directory("/data")
    file = world.disk.open("/data/topic-0/log", create=True)
    while True:
        file.append([world.entropy.random_bytes(1 + world.entropy.below(100))])
        await asyncio.sleep(world.entropy.below(100) / 1000)
        if world.entropy.below(3) == 0:
            await world.async_disk.sync(file)
            await world.async_disk.sync_directory("/data/topic-0")


async def chat(world: World) -> None:
    for number in range(100):
        host = HOSTS[world.entropy.below(3)]
        client = EchoClient()
        try:
            transport = await world.net.connect(host, 9092, lambda made=client: made)  # type: ignore[misc]
            transport.write(b"%d" % number * 1000)
            async with asyncio.timeout(5):
                await client.expect(1000)
        except (OSError, TimeoutError):
            await asyncio.sleep(0.1)
            continue
        transport.close()


async def disturb(sim: Simulation) -> None:
    chance = sim.chance("nemesis")
    for _ in range(10):
        await asyncio.sleep(chance.random())
        host, other = chance.sample(HOSTS, 2)
        match chance.randrange(4):
            case 0:
                sim.crash(host, power_loss=chance.random() < 0.5)
                sim.start(host, serve)
            case 1:
                sim.network.partition(host, other)
            case 2:
                sim.network.heal_all()
            case _:
                sim.network.reset(host, "client")


async def live(sim: Simulation) -> None:
    for host in HOSTS:
        sim.start(host, serve)
    talk = sim.start("client", chat)
    await disturb(sim)
    sim.network.heal_all()
    await talk


def run_busy_cluster(seed: int) -> str:
    with Simulation(seed) as sim:
        sim.run(live(sim))
        assert sim.trace.count > 500
        return sim.trace.digest()


if __name__ == "__main__":
    print(run_busy_cluster(int(sys.argv[1])))
