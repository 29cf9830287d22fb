"""The admin client in the simulator: connections are cut, lost and late, the broker dies and comes back."""

import asyncio
from typing import Any

import pytest

from levada.client.admin import Admin, NewTopic, OffsetSpec, Outcomes
from levada.client.errors import TimedOut, TopicAlreadyExists
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.world.world import ClientWorld
from tests.clients.simulated import BROKER, PORT, Town, simulate

HOST = "host"


def admin_in(town: Town, **options: Any) -> Admin:
    world = town.simulation.world(HOST)
    doors = ClientWorld(world.clock, world.entropy, world.net)
    # A connection that is asked for while the network is cut never comes about here; TCP would ask again.
    patience = {
        "request_timeout_ms": 2_000,
        "socket_connection_setup_timeout_ms": 1_000,
        "socket_connection_setup_timeout_max_ms": 2_000,
    }
    return Admin(f"{BROKER}:{PORT}", world=doors, **(patience | options))


async def administrate(admin: Admin) -> None:
    """A day's work, in which a repeated request may find its work done."""
    for number in range(10):
        name = f"topic-{number}"
        created: Outcomes[str, Any] = await admin.create_topics([NewTopic(name, 2, 1)])
        for error in created.errors.values():
            assert isinstance(error, TopicAlreadyExists)
        first, second = TopicPartition(name, 0), TopicPartition(name, 1)
        (await admin.alter_group_offsets("readers", {first: number, second: 2 * number})).raise_any()
        offsets = (await admin.list_group_offsets(["readers"]))["readers"]
        assert (offsets[first], offsets[second]) == (OffsetAndMetadata(number), OffsetAndMetadata(2 * number))
        assert (await admin.list_offsets({first: OffsetSpec.LATEST}))[first].offset == 0
        assert len((await admin.describe_topics([name]))[name].partitions) == 2
    assert len(await admin.list_topics()) == 10
    assert [group.group_id for group in await admin.list_groups()] == ["readers"]


@pytest.mark.parametrize("seed", range(5))
def test_work_gets_done_in_spite_of_cut_connections_and_crashes(seed: int) -> None:
    async def main(town: Town) -> None:
        chance = town.simulation.chance("trouble")
        admin = admin_in(town)
        working = town.simulation.spawn(HOST, administrate(admin))
        troubles = 0
        while not working.done():
            # Long enough for a few calls.
            await asyncio.sleep(chance.random() * 0.3)
            troubles += 1
            trouble = chance.choice(("reset", "partition", "crash"))
            if trouble == "reset":
                town.network.reset(BROKER, HOST)
            elif trouble == "partition":
                town.network.partition(BROKER, HOST)
                await asyncio.sleep(chance.random() * 3)
                town.network.heal_all()
            else:
                town.crash_broker()
                await asyncio.sleep(chance.random())
                town.start_broker()
                await asyncio.sleep(chance.random() * 3)
        await working
        assert troubles > 0
        await town.simulation.spawn(HOST, admin.close())

    assert simulate(main, seed) == simulate(main, seed)


def test_a_call_across_a_cut_network_ends_when_its_time_is_over() -> None:
    async def main(town: Town) -> None:
        admin = admin_in(town, default_api_timeout_ms=9_000)

        async def ask() -> float:
            await admin.list_topics()
            town.network.partition(BROKER, HOST)
            began = asyncio.get_running_loop().time()
            with pytest.raises(TimedOut, match="9000 ms"):
                await admin.list_topics()
            return asyncio.get_running_loop().time() - began

        waited = await town.simulation.spawn(HOST, ask())
        assert 8 < waited < 9.5
        await town.simulation.spawn(HOST, admin.close())

    simulate(main)
