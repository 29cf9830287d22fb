"""The examples of the clients' docstrings and of their page, run against a real broker."""

import doctest
from pathlib import Path

import pytest

import penstock.client.blocking.admin
import penstock.client.blocking.consumer
import penstock.client.blocking.producer
import penstock.client.producer.producer
from tests.brokers import BrokerProcess

MODULES = [
    penstock.client.blocking.producer,
    penstock.client.blocking.consumer,
    penstock.client.blocking.admin,
    penstock.client.producer.producer,
]
PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.removeprefix("penstock.client."))
def test_docstrings(broker: BrokerProcess, module: object) -> None:
    failed, tried = doctest.testmod(module, extraglobs={"bootstrap": broker.bootstrap})  # type: ignore[arg-type]
    assert tried > 0
    assert failed == 0


def test_the_page(own_broker: BrokerProcess) -> None:
    failed, tried = doctest.testfile(
        str(PAGE), module_relative=False, globs={"bootstrap": own_broker.bootstrap}, encoding="utf-8"
    )
    assert tried > 10
    assert failed == 0
