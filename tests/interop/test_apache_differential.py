"""The same requests to a real Apache Kafka broker and to ours: the answers agree but for what ACCEPTED explains."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.brokers import BrokerProcess
from tests.interop.apache_broker import JARS, SETTINGS, ApacheBroker
from tests.interop.differential.accepted import ACCEPTED
from tests.interop.differential.cases import Table
from tests.interop.differential.comparison import Comparison, report
from tests.interop.differential.restart_cases import AFTER, BEFORE
from tests.interop.differential.sides import LiveSide
from tests.interop.differential.tables import TABLES

NODE_SETTINGS = ("process.roles", "node.id", "controller.listener.names")
"""What only Apache's broker is told; ours has its id by default."""


@dataclass(frozen=True, slots=True)
class Pair:
    apache: ApacheBroker
    ours: BrokerProcess

    def start(self) -> None:
        self.apache.start()
        self.ours.start()

    def stop(self) -> None:
        self.apache.stop()
        assert self.ours.stop() == 0

    def kill(self) -> None:
        self.apache.kill()
        self.ours.kill()

    def sides(self) -> tuple[LiveSide, LiveSide]:
        return LiveSide("Apache", int(self.apache.bootstrap.rpartition(":")[2])), LiveSide("ours", self.ours.port)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, so Apache's broker was not compared with")
    if not JARS.exists():
        pytest.skip("Apache's broker is not here; test_apache_broker.py fetches it with Maven")
    directory = tmp_path_factory.mktemp("differential")
    settings = [f"{name}={value}" for name, value in SETTINGS.items() if name not in NODE_SETTINGS]
    pair = Pair(
        ApacheBroker(directory / "apache"), BrokerProcess(directory / "ours", *settings, has_test_settings=False)
    )
    try:
        pair.start()
        asyncio.run(make_alike(*pair.sides()))
        yield pair
    finally:
        pair.kill()
    _, failed, trace = pair.ours.log.partition("Traceback")
    assert not failed, trace[:3_000]


async def make_alike(apache: LiveSide, ours: LiveSide) -> None:
    try:
        await apache.turn_off_eligible_leaders()
        await apache.warm_up()
        await ours.warm_up()
    finally:
        apache.close()
        ours.close()


def compare(sides: tuple[LiveSide, LiveSide], table: Table) -> None:
    accepted = [one for one in ACCEPTED if one.table == table.name]
    comparison = Comparison(*sides, accepted)
    differences = asyncio.run(comparison.run(table))
    if differences:
        pytest.fail(report(differences), pytrace=False)
    outdated = [one for one in accepted if one not in comparison.met]
    assert not outdated, f"these are no differences any more: {outdated}"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_answers_agree(pair: Pair, table: Table) -> None:
    compare(pair.sides(), table)


def test_answers_agree_after_a_restart(pair: Pair) -> None:
    sides = pair.sides()
    compare(sides, BEFORE)
    pair.stop()
    pair.start()
    compare(sides, AFTER)
