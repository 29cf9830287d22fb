"""Consumer groups (KIP-848) of a real Apache broker and ours: the same heartbeats have the same answers."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from levada.net.channel import Channel
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.world.real_net import RealNet
from tests.interop import apache_broker
from tests.interop.apache_broker import JARS, ApacheBroker
from tests.interop.consumer_group_scenarios import SCENARIOS, Scenario
from tests.interop.consumer_group_sides import (
    MAX_SIZE,
    ApacheSide,
    OurSide,
)

SETTINGS = {
    "group.consumer.max.size": MAX_SIZE,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, so Apache's broker was not compared with")
    if not JARS.exists():
        pytest.skip("Apache's broker is not here; test_apache_broker.py fetches it with Maven")
    broker = started(tmp_path_factory.mktemp("groups") / "apache")
    try:
        yield broker
    finally:
        broker.kill()


def started(directory: Path) -> ApacheBroker:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apache_broker, "SETTINGS", apache_broker.SETTINGS | SETTINGS)
        broker = ApacheBroker(directory)
    try:
        broker.start()
    except BaseException:
        broker.kill()
        raise
    return broker


@pytest.mark.parametrize("told", SCENARIOS, ids=lambda told: told.__name__)
def test_answers_agree(apache: ApacheBroker, told: Scenario) -> None:
    asyncio.run(compare(apache.bootstrap, told))


async def compare(bootstrap: str, told: Scenario) -> None:
    group_id = told.__name__.replace("_", "-")
    host, _, port = bootstrap.rpartition(":")
    channel = await Channel.connect(RealNet(), host, int(port))
    try:
        await channel.call(FindCoordinatorRequest(coordinator_keys=[group_id], key_type=0), 4)
        theirs = await told(ApacheSide(channel, group_id))
    finally:
        channel.close()
    ours = await told(OurSide(group_id))
    assert len(theirs) == len(ours)
    for number, (their, our) in enumerate(zip(theirs, ours)):
        assert our == their, f"answer {number} of {told.__name__}"
