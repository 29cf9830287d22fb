"""How long a client looks for its first broker, in the simulator's time: no machine is too busy for that."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from levada.client.admin import Admin
from levada.client.consumer import Consumer
from levada.client.errors import NoBrokerReached
from levada.client.producer import Producer
from levada.sim import Simulation
from levada.world.world import ClientWorld

LIMIT_SECONDS = 5.0
"""Within which a user with default settings wants to know."""
SERVER, CLIENT = "server", "client"


class Silent(asyncio.BufferedProtocol):
    """Takes what it is sent, and says nothing."""

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(max(sizehint, 1_024))


async def produce(address: str, world: ClientWorld) -> None:
    async with Producer(address, world=world) as producer:
        await producer.send("orders", b"first")


async def consume(address: str, world: ClientWorld) -> None:
    async with Consumer(address, world=world, group_id="readers") as consumer:
        await consumer.list_topics()


async def administer(address: str, world: ClientWorld) -> None:
    async with Admin(address, world=world) as admin:
        await admin.list_topics()


@pytest.mark.parametrize("call", [produce, consume, administer])
@pytest.mark.parametrize("kind", ["refusing", "silent", "dark"])
@pytest.mark.parametrize("count", [1, 2, 3, 7], ids="{}-addresses".format)
def test_a_call_with_default_settings_ends_within_five_seconds(
    call: Callable[[str, ClientWorld], Coroutine[Any, Any, None]], kind: str, count: int
) -> None:
    async def main() -> float:
        doors = simulation.world(CLIENT)
        servers = simulation.world(SERVER)
        ports = range(9092, 9092 + count)
        for port in ports if kind == "silent" else ():
            listener = await servers.net.listen("", port, Silent)
            await listener.start()
        if kind == "dark":
            simulation.network.partition(CLIENT, SERVER)
        world = ClientWorld(doors.clock, doors.entropy, doors.net, is_real=True)
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(NoBrokerReached, match=r"no Kafka broker has answered in \d\.\d s: server:9092 "):
            await simulation.spawn(CLIENT, call(",".join(f"{SERVER}:{port}" for port in ports), world))
        return asyncio.get_running_loop().time() - began_s

    with Simulation(1) as simulation:
        assert 1 < simulation.run(main()) <= LIMIT_SECONDS
