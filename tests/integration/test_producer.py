"""Our own producer against a real broker process."""

import asyncio

import pytest

from tests.brokers import BrokerProcess
from tests.clients.cases import Case, name_of
from tests.clients.producer_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_case(broker: BrokerProcess, case: Case) -> None:
    asyncio.run(case(broker.bootstrap))  # type: ignore[arg-type]
