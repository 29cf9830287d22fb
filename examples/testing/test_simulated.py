"""The promise of an app, tried in many runs in which its process is killed and its network fails: a seed for each."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from levada.aio import Consumer, Producer
from levada.client.errors import KafkaError
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.testing import Cluster, Faults, Process, simulate, simulate_many

ORDERS = [f"order {number}" for number in range(12)]
FAULTS = Faults(kill=20, crash=2, reset=4, drop=2, delay=2)


async def ship_before_it_is_done(process: Process) -> None:
    """Wrong: the offset is committed first, and what was read is lost if the process dies before it has shipped."""
    async with new_consumer(process.bootstrap) as consumer, Producer(process.bootstrap) as producer:
        while True:
            for record in await consumer.poll():
                await commit(consumer)
                await asyncio.sleep(0.5)
                await (await producer.send("shipped", record.value))


async def ship_at_least_once(process: Process) -> None:
    """Right, where twice does no harm: the offset is committed when the work is done."""
    async with new_consumer(process.bootstrap) as consumer, Producer(process.bootstrap) as producer:
        while True:
            for record in await consumer.poll():
                await asyncio.sleep(0.5)
                await (await producer.send("shipped", record.value))
            await commit(consumer)


async def ship_exactly_once(process: Process) -> None:
    """Right everywhere: the work and the offset are one transaction."""
    while True:
        try:
            async with (
                new_consumer(process.bootstrap) as consumer,
                Producer(process.bootstrap, transactional_id=process.name) as producer,
            ):
                await producer.init_transactions()
                while True:
                    await ship_in_a_transaction(consumer, producer)
        except KafkaError:
            # Whatever it was, the transaction does not count: begin again where the last one ended.
            await asyncio.sleep(1)


async def ship_in_a_transaction(consumer: Consumer, producer: Producer) -> None:
    records = await consumer.poll()
    if not records:
        return
    async with producer.transaction():
        for record in records:
            await producer.send("shipped", record.value)
        read = {TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.offset + 1) for each in records}
        await producer.send_offsets_to_transaction(read, consumer.group_metadata())


def new_consumer(bootstrap: str) -> Consumer:
    consumer = Consumer(
        bootstrap,
        group_id="shipping",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=2_000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe(["orders"])
    return consumer


async def commit(consumer: Consumer) -> None:
    try:
        await consumer.commit()
    except KafkaError:
        # The group has changed, or the broker is away: what is read twice is shipped twice.
        pass


def shop(ship: Callable[[Process], Awaitable[None]]) -> Callable[[Cluster], Awaitable[list[str]]]:
    """An app that takes orders while two processes ship them; what was shipped when all is calm again."""

    async def app(cluster: Cluster) -> list[str]:
        await cluster.create_topic("orders", partitions=2)
        await cluster.create_topic("shipped")
        for name in ("shipper-1", "shipper-2"):
            cluster.start(ship, name)
        for order in ORDERS:
            await cluster.produce("orders", [(order, order)])
            await asyncio.sleep(cluster.random.random() * 3)
        await cluster.calm()
        # Long enough for the sessions of the dead to end, and for their work to be done.
        await asyncio.sleep(30)
        shipped = await cluster.records("shipped", isolation_level="read_committed")
        return [(record.value or b"").decode() for record in shipped]

    return app


async def nothing_is_forgotten(cluster: Cluster) -> None:
    shipped = await shop(ship_before_it_is_done)(cluster)
    assert set(shipped) == set(ORDERS)


def test_committing_too_early_is_caught_and_the_seed_shows_it_again() -> None:
    with pytest.raises(AssertionError) as caught:
        simulate_many(nothing_is_forgotten, range(20), faults=FAULTS)
    assert "the same run again: simulate(nothing_is_forgotten, seed=" in caught.value.__notes__[-1]


def test_at_least_once_forgets_nothing() -> None:
    for report in simulate_many(shop(ship_at_least_once), range(20), faults=FAULTS):
        assert set(report.result) == set(ORDERS), report


def test_exactly_once_forgets_nothing_and_repeats_nothing() -> None:
    for report in simulate_many(shop(ship_exactly_once), range(20), faults=FAULTS):
        assert sorted(report.result) == sorted(ORDERS), report


def test_a_run_can_be_had_again() -> None:
    first, again = (simulate(shop(ship_exactly_once), seed=7, faults=FAULTS) for _ in range(2))
    assert first.digest == again.digest
    assert first.faults["kill"] > 0
