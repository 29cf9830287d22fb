"""Drivers and brokers killed at every moment of a batch: the copy is whole, nothing is in it twice, nothing hangs."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from levada import Admin
from levada.client.admin import NewTopic
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
    KILL_WORKER,
    LINGER,
    PLANNING,
    POINTS,
    Fault,
)
from tests.spark.sink_checks import check_nothing_hangs, numbers, open_transactions, partitions_of

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


@pytest.mark.timeout(900)
def test_a_copy_survives_kills_of_driver_broker_and_workers_at_each_moment_of_a_batch(new_copying: NewCopying) -> None:
    rows = 4_000
    copying = new_copying(rows, rows_per_batch=400)
    faults = [
        Fault(IN_TASK, FAIL, 0),
        Fault(IN_TASK, KILL_BROKER, 1),
        Fault(HANDED_OVER, KILL_DRIVER, 2),
        Fault(BEFORE_REQUEST, KILL_BROKER, 3),
        Fault(AFTER_REQUEST, KILL_DRIVER, 4),
        Fault(IN_TASK, KILL_WORKER, 6),
        Fault(HANDED_OVER, KILL_WORKER, 7),
        Fault(AFTER_REQUEST, KILL_WORKER, 8),
    ]
    copying.plan(faults)
    with reader_of(copying) as reader:
        copying.run_to_the_end(partitions=(0, 3, 1))
    assert len(copying.fired) == len(faults)
    assert copying.codes == [-signal.SIGKILL, -signal.SIGKILL, 1, 0]
    check_whole(copying, rows, reader)


is_soak = pytest.mark.skipif(os.environ.get("LEVADA_SOAK") != "1", reason="takes minutes: LEVADA_SOAK=1")


@is_soak
@pytest.mark.timeout(3_600)
def test_a_million_rows_survive_thirty_kills(new_copying: NewCopying) -> None:
    """The driver at each point once, the broker at each five times, workers three times, and drivers at random."""
    rows = 1_000_000
    copying = new_copying(rows, rows_per_batch=12_500)
    faults = [
        Fault(POINTS[number % len(POINTS)], KILL_DRIVER if number % 6 == 5 else KILL_BROKER, 2 * number)
        for number in range(30)
    ]
    faults += [Fault(IN_TASK, FAIL, batch) for batch in range(5, 65, 10)]
    workers = (*POINTS, PLANNING)
    faults += [Fault(workers[number % len(workers)], KILL_WORKER, 3 * number + 1) for number in range(18)]
    copying.plan(faults)
    chance = random.Random(8)
    with reader_of(copying) as reader:
        for partitions in (0, 5):
            copying.run(partitions=partitions, kill_after=chance.uniform(0, 2))
        copying.run_to_the_end(partitions=(0, 3, 1, 7))
    assert len(copying.fired) == len(faults)
    kills = sum("kill" in name for name in copying.fired) + 2
    print(f"{kills} kills, {len(copying.codes)} runs, {reader.looks} looks of the reader")
    assert kills >= 30
    check_whole(copying, rows, reader)


@is_soak
@pytest.mark.timeout(600)
def test_speculation_writes_each_row_once(new_copying: NewCopying) -> None:
    """Only executors in processes of their own speculate. Tasks linger, so that others overtake them."""
    rows = 20_000
    copying = new_copying(rows, rows_per_batch=4_000)
    copying.settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.4",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    faults = [Fault(point, LINGER, batch) for batch in range(4) for point in (IN_TASK, HANDED_OVER)]
    faults.append(Fault(BEFORE_REQUEST, KILL_DRIVER, 2))
    copying.plan(faults)
    with reader_of(copying) as reader:
        while copying.run(master="local-cluster[2,2,1024]", partitions=4) != 0:
            assert copying.codes[-1] == -signal.SIGKILL, copying.log[-4_000:]
    assert len(copying.fired) == len(faults)
    check_whole(copying, rows, reader)


@is_soak
@pytest.mark.timeout(600)
def test_a_driver_that_never_returns_blocks_no_reader_for_ever(new_copying: NewCopying) -> None:
    copying = new_copying(1_000, rows_per_batch=400, transaction_timeout="5s")
    copying.plan([Fault(BEFORE_REQUEST, KILL_DRIVER, 1)])
    bootstrap = copying.broker.bootstrap
    with reader_of(copying) as reader:
        assert copying.run(partitions=3) == -signal.SIGKILL
        # The marker's transaction has a timeout of 30 s, and brokers look every 10 s.
        give_up_at = time.monotonic() + 60
        while open_transactions(bootstrap):
            assert time.monotonic() < give_up_at
            time.sleep(0.2)
    assert len(numbers(bootstrap, copying.target)) == copying.rows_until(0)
    assert {key: counts for key, counts in reader.counts.items() if len(counts) > 1} == {}
    check_nothing_hangs(bootstrap, copying.target)
