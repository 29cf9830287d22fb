"""A write of a group's markers that a power cut has torn: readers see none of the group until all of it is written."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from levada.model.hashes import coordinator_partition
from levada.records import BatchView, iter_batches
from levada.transactions import TransactionState
from levada.transactions.records import TransactionLogValue, decode
from tests.brokers import BrokerProcess
from tests.integration.isolation import COMMITTED, READERS, UNCOMMITTED, end_of, ends_at, read_committed
from tests.integration.test_group_commit import COORDINATOR_PARTITIONS, begin, commit, states, values_of
from tests.integration.test_groups import create_topic, wait_until
from tests.integration.test_wire import talk

MEMBERS = 3
NOTHING: list[bytes] = []


def cut_behind(path: Path, is_last: Callable[[BatchView], bool]) -> None:
    """Leave a log as if the power had gone after the first batch of which this is true."""
    data = path.read_bytes()
    batch = next(one for one in iter_batches(data) if is_last(one))
    with path.open("r+b") as file:
        file.truncate(batch.start + batch.size)


def is_prepared(batch: BatchView) -> bool:
    values = [one.value for one in (decode(each.key or b"", each.value) for each in batch.records()) if one is not None]
    states = [value.transaction_status for value in values if isinstance(value, TransactionLogValue)]
    return states == [TransactionState.PREPARE_COMMIT.number] * MEMBERS


@pytest.mark.parametrize("written", range(1, MEMBERS))
def test_readers_see_none_of_a_group_whose_markers_are_torn_until_its_coordinator_has_written_them_again(
    own_broker: BrokerProcess, written: int
) -> None:
    create_topic(own_broker, "torn", 2)
    members = talk(own_broker, lambda channel: begin(channel, "torn", MEMBERS))
    talk(own_broker, lambda channel: commit(channel, members))
    wait_until(lambda: set(talk(own_broker, lambda channel: states(channel, members))) == {"CompleteCommit"})
    own_broker.kill()
    data = own_broker.data_directory
    for partition in range(2):
        name = f"torn-{partition}/{0:020d}.log"
        cut_behind(data / name, lambda batch: batch.last_offset == MEMBERS + written - 1)
    home = data / f"__transaction_state-{coordinator_partition('torn', COORDINATOR_PARTITIONS)}"
    cut_behind(home / f"{0:020d}.log", is_prepared)

    # Without its log the coordinator knows of nothing, and writes nothing.
    shutil.move(home, own_broker.data_directory.with_name("kept"))
    own_broker.start()
    for partition in range(2):
        assert read_committed(own_broker, "torn", partition) == NOTHING
        assert end_of(own_broker, "torn", partition, COMMITTED) == 0
        assert end_of(own_broker, "torn", partition, UNCOMMITTED) == MEMBERS + written
    assert own_broker.stop() == 0

    shutil.rmtree(home)
    shutil.move(own_broker.data_directory.with_name("kept"), home)
    own_broker.start()
    for partition in range(2):
        wait_until(partial(ends_at, own_broker, "torn", partition, 2 * MEMBERS + written))
        for read in READERS.values():
            assert read(own_broker, "torn", partition, COMMITTED) == values_of(members)
    own_broker.kill()
    own_broker.start()
    assert end_of(own_broker, "torn", 0, COMMITTED) == 2 * MEMBERS + written
