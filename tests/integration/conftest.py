"""Fixtures for tests with real clients and real processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests of a file; it must end well and have had no error of its own."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", "group.initial.rebalance.delay.ms=0").start()
    try:
        yield process
    finally:
        code = process.stop()
    assert code == 0
    assert "Traceback" not in process.log, process.log


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that a test may stop, kill and start again."""
    process = BrokerProcess(tmp_path / "data", "group.initial.rebalance.delay.ms=0").start()
    try:
        yield process
    finally:
        process.kill()
