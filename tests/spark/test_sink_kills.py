"""Drivers and brokers killed at every moment of a batch: the copy is whole, nothing is in it twice, nothing hangs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import Admin
from penstock.client.admin import NewTopic
from tests.brokers import BrokerProcess
from tests.spark.copying import Copying, WholeBatches, fill
from tests.spark.driver_faults import (
    AFTER_REQUEST,
    BEFORE_REQUEST,
    FAIL,
    HANDED_OVER,
    IN_TASK,
    KILL_BROKER,
    KILL_DRIVER,
    Fault,
)
from tests.spark.sink_checks import check_nothing_hangs, numbers, partitions_of

NewCopying = Callable[..., Copying]


@pytest.fixture
def new_copying(own_broker: BrokerProcess, tmp_path: Path) -> NewCopying:
    def make(rows: int, rows_per_batch: int, transaction_timeout: str = "10m") -> Copying:
        with Admin(own_broker.bootstrap) as admin:
            admin.create_topics([NewTopic("source", 2), NewTopic("target", 2)]).raise_any()
        fill(own_broker.bootstrap, "source", rows)
        directory = tmp_path / "copying"
        directory.mkdir()
        return Copying(own_broker, directory, "source", "target", rows_per_batch, transaction_timeout)

    return make


def check_whole(copying: Copying, rows: int, reader: WholeBatches) -> None:
    bootstrap = copying.broker.bootstrap
    assert numbers(bootstrap, copying.target) == list(range(rows))
    assert {key: counts for key, counts in reader.counts.items() if len(counts) > 1} == {}
    check_nothing_hangs(bootstrap, copying.target)


def reader_of(copying: Copying) -> WholeBatches:
    return WholeBatches(copying.broker.bootstrap, partitions_of(copying.broker.bootstrap, copying.target))


def test_a_copy_survives_kills_of_driver_and_broker_at_each_moment_of_a_batch(new_copying: NewCopying) -> None:
    rows = 4_000
    copying = new_copying(rows, rows_per_batch=400)
    faults = [
        Fault(IN_TASK, FAIL, 0),
        Fault(IN_TASK, KILL_BROKER, 1),
        Fault(HANDED_OVER, KILL_DRIVER, 2),
        Fault(BEFORE_REQUEST, KILL_BROKER, 3),
        Fault(AFTER_REQUEST, KILL_DRIVER, 4),
    ]
    copying.plan(faults)
    with reader_of(copying) as reader:
        copying.run_to_the_end(partitions=(0, 3, 1))
    assert len(copying.fired) == len(faults)
    assert len(copying.codes) == 3
    check_whole(copying, rows, reader)
