"""The examples of the clients' docstrings and of their page, run against a real broker."""

import doctest
from pathlib import Path

import pytest

import levada.client.blocking.admin
import levada.client.blocking.consumer
import levada.client.blocking.producer
import levada.client.producer.producer
from tests.brokers import BrokerProcess
from tests.pages import blocks_of

MODULES = [
    levada.client.blocking.producer,
    levada.client.blocking.consumer,
    levada.client.blocking.admin,
    levada.client.producer.producer,
]
PAGE = Path(__file__).parents[2] / "docs" / "clients.md"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.removeprefix("levada.client."))
def test_docstrings(broker: BrokerProcess, module: object) -> None:
    failed, tried = doctest.testmod(module, extraglobs={"bootstrap": broker.bootstrap})  # type: ignore[arg-type]
    assert tried > 0
    assert failed == 0


def test_the_page(own_broker: BrokerProcess) -> None:
    unseen = [str(block) for block in blocks_of(PAGE) if block.language != "python" or block.text[:4] != ">>> "]
    assert unseen == [], "doctest looks at nothing else"
    failed, tried = doctest.testfile(
        str(PAGE), module_relative=False, globs={"bootstrap": own_broker.bootstrap}, encoding="utf-8"
    )
    assert tried > 10
    assert failed == 0
