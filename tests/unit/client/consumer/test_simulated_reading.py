"""The consumer in the simulator: connections are cut, lost and late, the broker dies and comes back."""

import asyncio
from typing import Any

import pytest

from levada.client.consumer.consumer import Consumer
from levada.records import ConsumerRecord
from levada.world.world import ClientWorld
from tests.clients.simulated import BROKER, PORT, Town, simulate

HOST = "host"
TOPIC = "read"
PARTITIONS = 3
ROUNDS = 12


def consumer_in(town: Town, **options: Any) -> Consumer:
    world = town.simulation.world(HOST)
    doors = ClientWorld(world.clock, world.entropy, world.net)
    patience = {
        "auto_offset_reset": "earliest",
        "request_timeout_ms": 2_000,
        "metadata_max_age_ms": 5_000,
        "socket_connection_setup_timeout_ms": 1_000,
        "socket_connection_setup_timeout_max_ms": 2_000,
    }
    return Consumer(f"{BROKER}:{PORT}", world=doors, **(patience | options))


async def trouble(town: Town) -> None:
    chance = town.simulation.chance("trouble")
    await asyncio.sleep(chance.random())
    match chance.choice(("reset", "partition", "crash", "none")):
        case "reset":
            town.network.reset(BROKER, HOST)
        case "partition":
            town.network.partition(BROKER, HOST)
            await asyncio.sleep(chance.random() * 3)
            town.network.heal_all()
        case "crash":
            town.crash_broker()
            await asyncio.sleep(chance.random())
            town.start_broker()


@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_read_once_and_in_order_through_cuts_and_crashes(seed: int) -> None:
    async def main(town: Town) -> None:
        await town.topic(TOPIC, PARTITIONS)
        chance = town.simulation.chance("records")
        sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        records: list[ConsumerRecord] = []
        is_over: list[bool] = []
        consumer = consumer_in(town, max_poll_records=7, max_partition_fetch_bytes=chance.choice((100, 2_000, 100_000)))
        consumer.assign([(TOPIC, partition) for partition in range(PARTITIONS)])

        async def live() -> None:
            while not is_over:
                try:
                    records.extend(await asyncio.wait_for(consumer.poll(1.0), chance.random() * 2))
                except TimeoutError:
                    continue

        reading = town.simulation.spawn(HOST, live())
        for number in range(ROUNDS):
            partition = number % PARTITIONS
            values = [b"%d-%d-" % (number, index) + bytes(chance.choice((0, 300))) for index in range(20)]
            sent[partition] += values
            await town.produce(TOPIC, partition, values)
            await trouble(town)
        waited = 0
        while len(records) < 20 * ROUNDS and waited < 60:
            assert not reading.done()
            await asyncio.sleep(1)
            waited += 1
        for partition, values in enumerate(sent):
            assert [record.value for record in records if record.partition == partition] == values
        is_over.append(True)
        await reading
        await town.simulation.spawn(HOST, consumer.close())

    assert simulate(main, seed) == simulate(main, seed)


def test_a_close_across_a_cut_network_keeps_to_its_time() -> None:
    async def main(town: Town) -> None:
        await town.topic(TOPIC, 1)
        await town.produce(TOPIC, 0, [b"x"])
        consumer = consumer_in(town)
        consumer.assign([(TOPIC, 0)])

        async def live() -> float:
            assert len(await consumer.poll(5.0)) == 1
            town.network.partition(BROKER, HOST)
            began = asyncio.get_running_loop().time()
            await consumer.close(0.5)
            return asyncio.get_running_loop().time() - began

        assert await town.simulation.spawn(HOST, live()) < 0.6

    simulate(main)
