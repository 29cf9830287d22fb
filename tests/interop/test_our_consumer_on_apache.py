"""Our consumer against a real Apache Kafka broker: the cases that it passes against ours."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.clients.cases import Case, name_of
from tests.clients.consumer_cases import CASES
from tests.interop.apache_broker import ApacheBroker

pytestmark = pytest.mark.usefixtures("apache_jars")


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    broker = ApacheBroker(tmp_path_factory.mktemp("apache") / "broker")
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_case(apache: ApacheBroker, case: Case) -> None:
    asyncio.run(case(apache.bootstrap))  # type: ignore[arg-type]
