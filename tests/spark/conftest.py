"""A real broker and a real Spark for the tests of a file, and topics that no other test uses."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from levada import Admin
from levada.client.admin import NewTopic
from levada.spark import session
from tests.brokers import BrokerProcess, sound
from tests.integration.conftest import own_broker
from tests.spark.databases import PostgresServer, SqliteFile, TestDatabase, server_programs

__all__ = ["own_broker"]

HERE = Path(__file__).parent

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java that lives for minutes spends more on compiling well than it gains, and has no heap worth two threads."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's own Python leaves sockets and files behind, and calls what pandas has given up."""
    for item in items:
        if HERE in item.path.parents:
            for ignored in (
                "ignore:unclosed:ResourceWarning",
                "ignore::pytest.PytestUnraisableExceptionWarning",
                "ignore::DeprecationWarning:pyspark.*",
                "ignore::FutureWarning:pyspark.*",
                "ignore::UserWarning:pyspark.*",
            ):
                item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests of the folder; those that kill a driver start one of their own in a process."""
    started = session()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests of the folder that do not harm it; it must have had no error of its own."""
    with sound(
        BrokerProcess(tmp_path_factory.mktemp("broker") / "data", "group.initial.rebalance.delay.ms=0")
    ) as process:
        yield process


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of the folder; each takes away what it makes."""
    if server_programs() is None:
        pytest.skip("PostgreSQL's server is not installed")
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestDatabase]:
    """Without tables: a SQLite file, then PostgreSQL."""
    if request.param == "sqlite":
        file = SqliteFile(tmp_path / "a.db")
        yield file
        file.remove()
        return
    yield request.getfixturevalue("empty_postgres")


@pytest.fixture
def empty_postgres(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """PostgreSQL without tables."""
    yield postgres
    postgres.empty()


@pytest.fixture
def bootstrap(shared_broker: BrokerProcess) -> str:
    return shared_broker.bootstrap


@pytest.fixture
def new_topic(bootstrap: str) -> Callable[..., str]:
    """`new_topic(partitions=1, configs={})` gives the name of a topic that is there and empty."""

    def create(partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = f"t-{uuid.uuid4().hex[:8]}"
        with Admin(bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions, configs=configs or {})]).raise_any()
        return name

    return create
