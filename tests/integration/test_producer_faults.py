"""Our producer over a bad connection: refusals, lost and late answers, nonsense; order and number are kept."""

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levada.client.errors import TimedOut
from levada.client.producer import Producer
from levada.protocol.api import ApiKey
from tests.brokers import BrokerProcess
from tests.clients.cases import topic_of, values_of
from tests.clients.faulty_proxy import Fault, FaultyProxy, no_trouble
from tests.clients.producer_cases import read_all

IN_FLIGHT = 5
RANDOM_RECORDS = 300
SEEDS = range(50 if os.environ.get("LEVADA_SOAK") == "1" else 1)
ALONE: dict[str, Any] = {"batch_size": 1, "linger_ms": 0, "retry_backoff_ms": 20, "reconnect_backoff_ms": 10}
"""Each record is a batch, and each batch a request."""


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, FaultyProxy]]:
    """A broker that tells everybody to come through the proxy."""
    with FaultyProxy() as proxy:
        path: Path = tmp_path_factory.mktemp("behind") / "data"
        broker = BrokerProcess(path, f"advertised.listeners=PLAINTEXT://localhost:{proxy.port}").start()
        proxy.target_port = broker.port
        try:
            yield broker, proxy
        finally:
            broker.stop()


@pytest.fixture
def broker(behind: tuple[BrokerProcess, FaultyProxy]) -> BrokerProcess:
    return behind[0]


@pytest.fixture
def proxy(behind: tuple[BrokerProcess, FaultyProxy]) -> Iterator[FaultyProxy]:
    """As it should be, before and after."""
    proxy = behind[1]
    yield proxy
    proxy.faults, proxy.answers_wait_for, proxy.trouble = {}, 0, no_trouble


def strike(proxy: FaultyProxy, faults: dict[int, Fault], in_flight: int = 0) -> None:
    """From now on, the n-th Produce request has this fault."""
    proxy.faults = {proxy.produces + number: fault for number, fault in faults.items()}
    proxy.answers_wait_for = proxy.produces + in_flight


async def send_numbers(producer: Producer, topic: str, numbers: range) -> list[int]:
    """Their offsets. Each is so large that no other has room in its batch."""
    handles = [await producer.send(topic, b"%-200d" % number) for number in numbers]
    return [(await handle).offset for handle in handles]


def numbers_in(broker: BrokerProcess, topic: str) -> list[int]:
    return [int(value) for value in values_of(asyncio.run(read_all(broker.bootstrap, topic)))]


async def send_five(broker: BrokerProcess, proxy: FaultyProxy, topic: str, **options: Any) -> None:
    async with Producer(broker.bootstrap, **ALONE, **options) as producer:
        await send_numbers(producer, topic, range(1))
        strike(proxy, {3: Fault.REFUSE}, IN_FLIGHT)
        await send_numbers(producer, topic, range(1, 1 + IN_FLIGHT))


def test_scenario_11_without_idempotence_a_retry_lands_behind_what_was_sent_after_it(
    broker: BrokerProcess, proxy: FaultyProxy
) -> None:
    topic = topic_of(broker.bootstrap, "unordered")
    asyncio.run(send_five(broker, proxy, topic, enable_idempotence=False))
    assert numbers_in(broker, topic) == [0, 1, 2, 4, 5, 3]


def test_scenario_11_with_idempotence_the_order_is_kept(broker: BrokerProcess, proxy: FaultyProxy) -> None:
    topic = topic_of(broker.bootstrap, "ordered")
    asyncio.run(send_five(broker, proxy, topic))
    assert numbers_in(broker, topic) == [0, 1, 2, 3, 4, 5]


def test_one_request_in_flight_keeps_the_order_without_idempotence(broker: BrokerProcess, proxy: FaultyProxy) -> None:
    topic = topic_of(broker.bootstrap, "single")

    async def main() -> None:
        options = {**ALONE, "max_in_flight_requests_per_connection": 1}
        async with Producer(broker.bootstrap, enable_idempotence=False, **options) as producer:
            await send_numbers(producer, topic, range(1))
            strike(proxy, {2: Fault.REFUSE, 4: Fault.REFUSE})
            await send_numbers(producer, topic, range(1, 6))

    asyncio.run(main())
    assert numbers_in(broker, topic) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.GARBLE_ANSWER])
@pytest.mark.parametrize("number", [1, 3, 5])
def test_what_is_lost_on_the_way_is_there_once_and_in_order(
    broker: BrokerProcess, proxy: FaultyProxy, fault: Fault, number: int
) -> None:
    topic = topic_of(broker.bootstrap, "lost")

    async def main() -> list[int]:
        async with Producer(broker.bootstrap, **ALONE) as producer:
            await send_numbers(producer, topic, range(1))
            # A request that is lost is never answered, so the others must not wait for it.
            strike(proxy, {number: fault}, 0 if fault is Fault.LOSE_REQUEST else IN_FLIGHT)
            return await send_numbers(producer, topic, range(1, 11))

    assert asyncio.run(main()) == list(range(1, 11))
    assert numbers_in(broker, topic) == list(range(11))


def test_a_lost_answer_doubles_a_record_without_idempotence(broker: BrokerProcess, proxy: FaultyProxy) -> None:
    """So that we know the proxy does what the tests above are about."""
    topic = topic_of(broker.bootstrap, "doubled")

    async def main() -> None:
        async with Producer(broker.bootstrap, enable_idempotence=False, **ALONE) as producer:
            await send_numbers(producer, topic, range(1))
            strike(proxy, {1: Fault.LOSE_ANSWER})
            await send_numbers(producer, topic, range(1, 2))

    asyncio.run(main())
    assert numbers_in(broker, topic) == [0, 1, 1]


def test_an_answer_that_is_too_late_is_asked_for_again(broker: BrokerProcess, proxy: FaultyProxy) -> None:
    topic = topic_of(broker.bootstrap, "late")

    async def main() -> list[int]:
        async with Producer(broker.bootstrap, request_timeout_ms=300, **ALONE) as producer:
            await send_numbers(producer, topic, range(1))
            strike(proxy, {2: Fault.HOLD_ANSWER}, IN_FLIGHT)
            return await send_numbers(producer, topic, range(1, 11))

    assert asyncio.run(main()) == list(range(1, 11))
    assert numbers_in(broker, topic) == list(range(11))


def test_after_a_record_was_given_up_the_next_ones_are_there_once(broker: BrokerProcess, proxy: FaultyProxy) -> None:
    """It is unknown whether the broker has what was given up, so the next ones are sent under a new epoch."""
    topic = topic_of(broker.bootstrap, "doubt")

    async def main() -> None:
        options = {**ALONE, "request_timeout_ms": 200, "delivery_timeout_ms": 500}
        async with Producer(broker.bootstrap, **options) as producer:
            await send_numbers(producer, topic, range(1))
            # Whatever it tries, for longer than it has time.
            strike(proxy, dict.fromkeys(range(1, 40), Fault.HOLD_ANSWER))
            with pytest.raises(TimedOut, match=r"delivery\.timeout\.ms"):
                await send_numbers(producer, topic, range(1, 2))
            strike(proxy, dict.fromkeys(range(1, 40), Fault.REFUSE))
            with pytest.raises(TimedOut, match=r"delivery\.timeout\.ms"):
                await send_numbers(producer, topic, range(2, 3))
            strike(proxy, {})
            await send_numbers(producer, topic, range(3, 6))

    asyncio.run(main())
    # The broker did what it was asked first, and its answers did not come back.
    assert numbers_in(broker, topic) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("delivery_timeout_ms", [120_000, 400])
@pytest.mark.parametrize("seed", SEEDS)
def test_faults_at_random_double_nothing_and_keep_the_order(
    broker: BrokerProcess, proxy: FaultyProxy, seed: int, delivery_timeout_ms: int
) -> None:
    """With little time for each record some are given up, and those after them still come in order."""
    topic = topic_of(broker.bootstrap, "random", 3)
    chance = random.Random(seed)

    async def main() -> list[tuple[int, int, int]]:
        """Number, partition and offset of what was acknowledged."""
        options = {**ALONE, "batch_size": 1_000, "request_timeout_ms": 200, "delivery_timeout_ms": delivery_timeout_ms}
        async with Producer(broker.bootstrap, **options) as producer:
            await producer.send(topic, b"%-200d" % 0, partition=0)
            strike(proxy, {n: chance.choice(list(Fault)) for n in range(1, 3_000) if chance.random() < 0.15})
            handles = []
            for number in range(1, RANDOM_RECORDS):
                place = chance.randrange(3)
                handles.append((number, await producer.send(topic, b"%-200d" % number, partition=place)))
                if chance.random() < 0.05:
                    await asyncio.sleep(0.01)
            await producer.flush()
            metadata = [(number, handle.result()) for number, handle in handles if handle.exception() is None]
            return [(number, each.partition, each.offset) for number, each in metadata]

    acknowledged = asyncio.run(main())
    if delivery_timeout_ms > 1_000:
        assert len(acknowledged) == RANDOM_RECORDS - 1
    logs: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for record in asyncio.run(read_all(broker.bootstrap, topic)):
        logs[record.partition].append(int(record.value or b""))
    for log in logs.values():
        assert log == sorted(set(log)), "doubled, or out of order"
    for number, partition, offset in acknowledged:
        assert number in logs[partition]
        assert offset < 0 or logs[partition][offset] == number


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_are_whole_whatever_is_lost(broker: BrokerProcess, proxy: FaultyProxy, seed: int) -> None:
    """Each request of the producer may be lost, or its answer."""
    topic = topic_of(broker.bootstrap, "whole", 2)
    chance = random.Random(seed)
    struck: list[int] = []

    def trouble(api_key: int) -> Fault | None:
        if api_key == ApiKey.API_VERSIONS or chance.random() > (0.1 if api_key == ApiKey.PRODUCE else 0.4):
            return None
        struck.append(api_key)
        return chance.choice([Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.GARBLE_ANSWER, Fault.HOLD_ANSWER])

    async def main() -> list[int]:
        committed = []
        options = {**ALONE, "request_timeout_ms": 300, "retry_backoff_max_ms": 50}
        async with Producer(broker.bootstrap, transactional_id=topic, **options) as producer:
            proxy.trouble = trouble
            await producer.init_transactions()
            for start in range(0, 120, 10):
                numbers = list(range(start, start + chance.randrange(1, 10)))
                await producer.begin_transaction()
                for number in numbers:
                    await producer.send(topic, b"%-200d" % number, partition=number % 2)
                if chance.random() < 0.3:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    committed += numbers
            proxy.trouble = no_trouble
        return committed

    committed = asyncio.run(main())
    assert len(set(struck)) > 1, "more than one API"
    records = asyncio.run(read_all(broker.bootstrap, topic, isolation_level="read_committed"))
    for partition in (0, 1):
        found = [int(record.value or b"") for record in records if record.partition == partition]
        assert found == [number for number in committed if number % 2 == partition]


def test_a_transaction_over_a_bad_connection_is_whole(broker: BrokerProcess, proxy: FaultyProxy) -> None:
    topic = topic_of(broker.bootstrap, "transaction")

    async def main() -> None:
        async with Producer(broker.bootstrap, transactional_id=topic, **ALONE) as producer:
            await producer.init_transactions()
            for start in (0, 10):
                strike(proxy, {2: Fault.REFUSE, 4: Fault.LOSE_ANSWER, 7: Fault.GARBLE_ANSWER})
                async with producer.transaction():
                    await send_numbers(producer, topic, range(start, start + 10))

    asyncio.run(main())
    assert numbers_in(broker, topic) == list(range(20))
