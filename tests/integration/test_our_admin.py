"""Our admin client against our broker, and against none that answers."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from levada.broker.handlers import HANDLERS
from levada.client.admin import Admin, ConfigResource, NewTopic, OffsetSpec
from levada.client.errors import ConfigurationError, Disconnected, IllegalState, KafkaError, NoBrokerReached, TimedOut
from levada.client.types import TopicPartition
from levada.protocol.api import ApiKey
from tests.brokers import BrokerProcess
from tests.clients.admin_cases import CASES, Case, Target
from tests.clients.admin_cases.examples import all_examples, run_examples

UNSERVED = set(ApiKey) - {handler.API for handler in HANDLERS}


@pytest.fixture(scope="module")
def target(broker: BrokerProcess) -> Target:
    return Target(broker.bootstrap, unserved=UNSERVED, has_authorizer=False)


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections, and never says a word."""
    with socket.create_server(("localhost", 0)) as server:
        yield f"localhost:{server.getsockname()[1]}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_admin(case: Case, target: Target) -> None:
    case.run(target)


def test_the_examples_of_the_docstrings_are_true(own_broker: BrokerProcess) -> None:
    tests = all_examples()
    assert len(tests) > 20
    assert run_examples(tests, Target(own_broker.bootstrap, has_authorizer=False)) == []


def test_a_client_that_is_never_closed_ends_in_silence(target: Target) -> None:
    script = f"""
import asyncio
from levada.client.admin import Admin
async def main():
    # A busy machine is not what this is about.
    asyncio.get_running_loop().slow_callback_duration = 60
    admin = Admin({target.bootstrap!r})
    await admin.list_topics()
    await admin.list_groups()
    print("done")
asyncio.run(main())
"""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_a_call_to_a_broker_that_never_answers_ends_in_time(silent: str) -> None:
    async def ask() -> None:
        async with Admin(silent) as admin:
            calls = [
                admin.list_topics(timeout_ms=300),
                admin.create_topics([NewTopic("a"), NewTopic("b")], timeout_ms=300),
                admin.list_offsets({TopicPartition("a", 0): OffsetSpec.LATEST}, timeout_ms=300),
                admin.describe_topics(["a"], timeout_ms=300),
                admin.describe_consumer_groups(["a"], timeout_ms=300),
                admin.list_groups(timeout_ms=300),
                admin.describe_configs([ConfigResource.broker(1)], timeout_ms=300),
            ]
            for call in calls:
                with pytest.raises(
                    NoBrokerReached, match=r"no Kafka broker has answered in 0\.[0-4] s \(default\.api\.timeout\.ms\): "
                ) as refused:
                    await call
                assert f"{silent} took the connection, but has not answered" in str(refused.value)

    began = time.monotonic()
    asyncio.run(ask())
    assert time.monotonic() - began < 5


def test_a_call_that_reaches_no_broker_says_why_it_ended() -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]

    async def ask() -> None:
        async with Admin(f"localhost:{port}", retry_backoff_ms=10) as admin:
            with pytest.raises(TimedOut, match=r"refused the connection") as refused:
                await admin.describe_cluster(timeout_ms=300)
            assert isinstance(refused.value.__cause__, Disconnected)

    asyncio.run(ask())


def test_a_call_outlives_a_broker_that_is_restarted(own_broker: BrokerProcess) -> None:
    async def ask() -> None:
        async with Admin(own_broker.bootstrap) as admin:
            (await admin.create_topics([NewTopic("kept", 2)])).raise_any()
            own_broker.kill()
            asked = asyncio.create_task(admin.describe_topics(["kept"]))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(own_broker.start)
            assert len((await asked)["kept"].partitions) == 2

    asyncio.run(ask())


def test_a_closed_client_says_so(target: Target) -> None:
    async def ask() -> None:
        admin = Admin(target.bootstrap)
        await admin.list_topics()
        await admin.close()
        await admin.close()
        for call in (admin.list_topics(), admin.list_groups(), admin.create_topics([NewTopic("late")])):
            with pytest.raises(IllegalState, match="closed"):
                await call

    asyncio.run(ask())


def test_a_call_ends_when_its_client_is_closed(silent: str) -> None:
    async def ask() -> None:
        admin = Admin(silent)
        asked = asyncio.create_task(admin.list_topics())
        await asyncio.sleep(0.1)
        await admin.close()
        with pytest.raises(KafkaError):
            await asyncio.wait_for(asked, 5)

    asyncio.run(ask())


def test_a_cancelled_call_leaves_the_client_in_order(target: Target) -> None:
    async def ask() -> None:
        async with Admin(target.bootstrap) as admin:
            for _ in range(5):
                asked = asyncio.create_task(admin.describe_cluster())
                await asyncio.sleep(0)
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
            assert (await admin.describe_cluster()).brokers

    asyncio.run(ask())


def test_a_value_that_cannot_be_sent_is_the_callers_fault_not_the_brokers(target: Target) -> None:
    async def ask() -> None:
        async with Admin(target.bootstrap) as admin:
            created = await admin.create_topics([NewTopic("odd", partitions=2**40)])
            assert "cannot be sent" in str(created.errors["odd"])
            assert (await admin.describe_cluster()).brokers

    asyncio.run(ask())


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="request_timeout_ms"):
        Admin("localhost:9092", request_timeout=5)
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        Admin()
