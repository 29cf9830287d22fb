"""A broker that stops answering, and calls that are cancelled: memory is bounded, and all goes on afterwards."""

import asyncio
import os
import random
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from levada import Producer, aio
from levada.client.errors import IllegalState
from levada.client.producer import Handle
from levada.client.types import TopicPartition
from levada.world.real import run
from tests.brokers import BrokerProcess
from tests.clients.cases import produce, reader, topic_of, values_of
from tests.clients.producer_cases import read_all
from tests.clients.scripts import run_script

WAIT_SECONDS = 20.0
MIB = 1 << 20

MEMORY = """
def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def stop_broker():
    os.kill(int(sys.argv[3]), signal.SIGSTOP)

def resume_broker():
    os.kill(int(sys.argv[3]), signal.SIGCONT)
"""


@contextmanager
def stopped(broker: BrokerProcess) -> Iterator[None]:
    """The broker does not answer, and is not dead."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def run_on_stopped(broker: BrokerProcess, script: str, topic: str) -> list[str]:
    try:
        ending = run_script(MEMORY + script, broker.bootstrap, topic, str(broker.pid), flags="")
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    ending.check_quiet()
    return ending.said


# Memory


@pytest.mark.parametrize("acks", ["all", 0])
def test_a_stalled_broker_does_not_fill_a_producers_memory(broker: BrokerProcess, acks: object) -> None:
    topic = topic_of(broker.bootstrap, "stalled", 4)
    script = """
producer = Producer(bootstrap, buffer_memory=8 << 20, max_block_ms=200, acks={acks!r})
producer.send_many(topic, [bytes(1_000)] * 10_000)
producer.flush()
before = resident()
stop_broker()
taken = refused = 0
start = time.monotonic()
while refused < 5:
    assert taken < 50_000
    try:
        producer.send(topic, bytes(1_000), partition=taken % 4)
        taken += 1
    except BufferExhausted:
        refused += 1
        assert "max.block.ms (200)" in str(sys.exc_info()[1])
while refused < 8:
    try:
        producer.send_many(topic, [bytes(1_000)] * 20_000)
    except BufferExhausted:
        refused += 1
assert 8 * 0.2 <= time.monotonic() - start < 15
print(taken)
print(resident() - before)
resume_broker()
producer.flush(20)
assert producer.metrics()["buffer-available-bytes"] == 8 << 20
print(producer.send(topic, b"after").exception(10))
print(producer.metrics()["record-error-total"])
"""
    taken, grown, went_on, failed = run_on_stopped(broker, script.replace("{acks!r}", repr(acks)), topic)
    # Without acknowledgements some more is in the buffers of the sockets, whose size is the kernel's choice.
    assert 4_000 < int(taken) <= (8_500 if acks else 50_000)
    # The memory for records, the requests that are under way, and what the allocator makes of it.
    assert int(grown) < 32 * MIB
    assert (went_on, failed) == ("None", "0")


def test_a_slow_reader_does_not_fill_a_consumers_memory(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "slow", 4)
    with Producer(broker.bootstrap, batch_size=200_000) as producer:
        for partition in range(4):
            producer.send_many(topic, [bytes(10_000)] * 700, partition=partition).result(WAIT_SECONDS)
    script = """
consumer = Consumer(bootstrap, auto_offset_reset="earliest", fetch_max_bytes=1 << 20, max_partition_fetch_bytes=1 << 20)
places = [(topic, index) for index in range(4)]
consumer.assign(places)
count = len(consumer.poll(10, max_records=10))
before = most = resident()
for _ in range(25):
    count += len(consumer.poll(1.0, max_records=10))
    time.sleep(0.02)
    most = max(most, resident())
print(most - before)
stop_broker()
while records := consumer.poll(0.5, max_records=10):
    count += len(records)
assert count < 2_800
resume_broker()
deadline = time.monotonic() + 20
while count < 2_800 and time.monotonic() < deadline:
    count += len(consumer.poll(1.0))
    most = max(most, resident())
print(count)
print(most - before)
"""
    slow, count, fast = run_on_stopped(broker, script, topic)
    assert count == "2800"
    assert int(slow) < 24 * MIB
    assert int(fast) < 48 * MIB


# Cancellation


def test_a_cancelled_send_has_sent_nothing_and_a_cancelled_flush_loses_nothing(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "cancelled", 2)
    chance = random.Random(5)

    async def main() -> list[bytes]:
        sent: list[tuple[bytes, Handle]] = []
        cancelled = 0
        async with aio.Producer(broker.bootstrap, buffer_memory=60_000, batch_size=2_000) as producer:
            for number in range(3_000):
                value = b"%d-" % number + bytes(100)
                if not number % 500:
                    os.kill(broker.pid, signal.SIGSTOP if number % 1_000 else signal.SIGCONT)
                try:
                    async with asyncio.timeout(chance.choice((0, 0.001, None if number % 1_000 < 500 else 0.002))):
                        sent.append((value, await producer.send(topic, value)))
                except TimeoutError:
                    cancelled += 1
                if not number % 50:
                    try:
                        async with asyncio.timeout(0.001):
                            await producer.flush()
                    except TimeoutError:
                        cancelled += 1
            os.kill(broker.pid, signal.SIGCONT)
            assert cancelled > 100
            for _, handle in sent[::7]:
                try:
                    async with asyncio.timeout(0):
                        await handle
                except TimeoutError:
                    cancelled += 1
            await producer.flush(WAIT_SECONDS)
            for _, handle in sent:
                await handle
        return [value for value, _ in sent]

    try:
        wanted = run(main())
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert sorted(values_of(asyncio.run(read_all(broker.bootstrap, topic)))) == sorted(wanted)


def test_a_cancelled_transaction_can_be_ended(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "transaction")

    async def main() -> None:
        async with aio.Producer(broker.bootstrap, transactional_id=topic) as producer:
            await cancelled(producer.init_transactions())
            await producer.init_transactions()
            for number in range(3):
                await producer.begin_transaction()
                await producer.send(topic, b"committed %d" % number)
                with stopped(broker):
                    await cancelled(producer.commit_transaction(), 0.05)
                await producer.commit_transaction()
                await producer.begin_transaction()
                await (await producer.send(topic, b"aborted"))
                with stopped(broker):
                    await cancelled(producer.abort_transaction(), 0.05)
                await producer.abort_transaction()

    run(main())
    values = values_of(asyncio.run(read_all(broker.bootstrap, topic, isolation_level="read_committed")))
    assert values == [b"committed 0", b"committed 1", b"committed 2"]


async def cancelled(call: Coroutine[Any, Any, object], seconds: float = 0.0) -> None:
    task = asyncio.ensure_future(call)
    await asyncio.sleep(seconds)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass


def test_cancelled_polls_and_commits_lose_nothing(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "polled", 2)
    chance = random.Random(6)
    for partition in (0, 1):
        produce(broker.bootstrap, topic, [b"%d" % number for number in range(2_000)], partition)

    async def main() -> None:
        seen: dict[int, list[bytes | None]] = {0: [], 1: []}
        cancels = 0
        async with reader(broker.bootstrap, group_id=topic, max_poll_records=10, enable_auto_commit=False) as consumer:
            consumer.subscribe([topic])
            async with asyncio.timeout(WAIT_SECONDS):
                while sum(map(len, seen.values())) < 4_000:
                    try:
                        async with asyncio.timeout(chance.choice((0, 0.0001, 0.001, 1.0))):
                            for record in await consumer.poll(1.0):
                                seen[record.partition].append(record.value)
                    except TimeoutError:
                        cancels += 1
                    if chance.random() < 0.1:
                        await cancelled(consumer.commit())
            assert cancels, "joining alone takes longer than some of these polls have"
            assert all(values == [b"%d" % number for number in range(2_000)] for values in seen.values())
            await consumer.commit()
            places = [TopicPartition(topic, index) for index in (0, 1)]
            found = await consumer.committed(places)
            assert [found[place].offset for place in places if found[place]] == [2_000, 2_000]  # type: ignore[union-attr]

    run(main())


def test_a_close_that_is_cancelled_has_closed(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "closing")

    async def main() -> None:
        producer = aio.Producer(broker.bootstrap)
        await (await producer.send(topic, b"known"))
        consumer = reader(broker.bootstrap, group_id=topic)
        consumer.subscribe([topic])
        while not await consumer.poll(0.2):
            pass
        with stopped(broker):
            handle = await producer.send(topic, b"waits")
            async with asyncio.timeout(5):
                await cancelled(producer.close(), 0.1)
                with pytest.raises(IllegalState, match="closed before"):
                    await handle
                with pytest.raises(IllegalState, match="closed"):
                    await producer.send(topic, b"late")
                await cancelled(consumer.close(1.0), 0.1)
                await producer.close()
                await consumer.close(1.0)
            with pytest.raises(IllegalState, match="closed"):
                await consumer.poll(0)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_the_tasks_of_a_client_can_be_cancelled_under_it(broker: BrokerProcess) -> None:
    """By who cancels all tasks there are: the client is closed then, and says so."""
    topic = topic_of(broker.bootstrap, "all-tasks")

    async def main() -> None:
        producer = aio.Producer(broker.bootstrap)
        await (await producer.send(topic, b"known"))
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0.05)
        with pytest.raises(IllegalState, match="closed"):
            await producer.send(topic, b"late")
        await producer.close()

    run(main())
