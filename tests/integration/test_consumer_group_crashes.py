"""Groups of our consumers whose broker is killed and comes back: nothing is lost, and nobody has to be restarted."""

import asyncio

import pytest

from tests.brokers import BrokerProcess
from tests.clients.group_cases import CLASSIC, NEXT, Protocol
from tests.clients.groups import Ledger, OurMember, create_topic, produce, until

CRASHES = 2
OPTIONS = {"reconnect_backoff_max_ms": 200, "retry_backoff_max_ms": 200}


@pytest.mark.parametrize(
    ("protocol", "strategy"),
    [(CLASSIC, "range"), (CLASSIC, "cooperative-sticky"), (NEXT, "")],
    ids=["eager", "cooperative", "consumer"],
)
def test_members_go_on_after_crashes_of_their_broker(
    own_broker: BrokerProcess, protocol: Protocol, strategy: str
) -> None:
    asyncio.run(crash_and_go_on(own_broker, protocol, strategy))


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
            sent += await asyncio.to_thread(produce, broker.bootstrap, topic, 4, 50, f"{crash}-")
            await until(lambda: {value for member in members for value in member.values} == set(sent), *tasks)
        await until(lambda: all(member.owned == 2 for member in members), *tasks)
        assert sum(len(member.values) for member in members) < 2 * len(sent), "what was committed comes once"
    finally:
        for member in members:
            await member.stop()
