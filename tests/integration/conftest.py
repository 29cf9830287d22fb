"""Fixtures for tests with real clients and real processes."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.brokers import BrokerProcess, sound
from tests.zookeepers import ZooKeeperEnsemble

if TYPE_CHECKING:
    from tests.integration.zookeeper_nodes import Cluster, Run

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """kafka-python leaves sockets behind, which are found whenever, in whatever test of this folder comes next."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings(
                    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
                )
            )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for the tests of a file; it must end well and have had no error of its own."""
    with sound(
        BrokerProcess(tmp_path_factory.mktemp("broker") / "data", "group.initial.rebalance.delay.ms=0")
    ) as process:
        yield process


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that a test may stop, kill and start again."""
    process = BrokerProcess(tmp_path / "data", "group.initial.rebalance.delay.ms=0").start()
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """Three servers of ZooKeeper for the tests of a file."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture
def run(ensemble: ZooKeeperEnsemble) -> "Run":
    # Only tests of it load kazoo.
    from tests.integration.zookeeper_nodes import Cluster

    def run_in_loop(test: "Callable[[Cluster], Coroutine[Any, Any, None]]") -> None:
        async def main() -> None:
            async with AsyncExitStack() as endings, asyncio.timeout(30):
                await test(Cluster(ensemble, endings))

        asyncio.run(main())

    return run_in_loop
