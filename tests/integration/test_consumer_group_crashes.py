"""Groups of our consumers whose broker is killed and comes back: nothing is lost, and no consumer needs a restart."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import BrokerProcess
from tests.clients.group_cases import BROKER_SETTINGS, CLASSIC, NEXT, Protocol
from tests.clients.groups import Ledger, OurMember, create_topic, produce, until

CRASHES = 2
OPTIONS = {"reconnect_backoff_max_ms": 200, "retry_backoff_max_ms": 200}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = [f"{name}={value}" for name, value in BROKER_SETTINGS.items()]
    process = BrokerProcess(tmp_path / "data", *settings).start()
    try:
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("protocol", "strategy"),
    [(CLASSIC, "range"), (CLASSIC, "cooperative-sticky"), (NEXT, "")],
    ids=["eager", "cooperative", "consumer"],
)
def test_members_go_on_after_crashes_of_their_broker(broker: BrokerProcess, protocol: Protocol, strategy: str) -> None:
    asyncio.run(crash_and_go_on(broker, protocol, strategy))


def read_by(members: list[OurMember]) -> set[bytes]:
    return {value for member in members for value in member.values}


async def crash_and_go_on(broker: BrokerProcess, protocol: Protocol, strategy: str) -> None:
    topic, ledger = "crashing", Ledger()
    sent = create_topic(broker.bootstrap, topic, 4, 50)
    members = [OurMember(broker.bootstrap, topic, topic, ledger, strategy, **OPTIONS, **protocol) for _ in range(2)]
    tasks = []
    try:
        for member in members:
            await member.start()
            tasks.append(member.task)
        await until(lambda: sum(len(member.values) for member in members) >= len(sent), *tasks)
        for crash in range(CRASHES):
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            sent = sent + await asyncio.to_thread(produce, broker.bootstrap, topic, 4, 50, f"{crash}-")
            wanted = set(sent)
            await until(lambda wanted=wanted: read_by(members) == wanted, *tasks)  # type: ignore[misc]
        await until(lambda: all(member.owned == 2 for member in members), *tasks)
        assert sum(len(member.values) for member in members) < 2 * len(sent), "what was committed comes once"
    finally:
        for member in members:
            await member.stop()
