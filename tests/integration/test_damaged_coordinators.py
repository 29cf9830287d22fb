"""A damaged partition of a coordinator's topic troubles only the groups and ids that hash to it, until it is mended."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.net.channel import Channel
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.records import iter_batches
from tests.brokers import BrokerProcess
from tests.integration.test_groups import create_topic, wait_until
from tests.integration.test_wire import talk

GROUP, TRANSACTION = 0, 1
PARTITIONS = 2
ROUNDS = 100
NAMES = sorted(("f", "g"), key=lambda name: coordinator_partition(name, PARTITIONS))
"""Of groups and of transactional ids: one for each partition, in their order."""
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    counts = [f"{topic}.num.partitions={PARTITIONS}" for topic in ("offsets.topic", "transaction.state.log")]
    process = BrokerProcess(tmp_path / "data", *counts).start()
    try:
        yield process
    finally:
        process.kill()


async def find(channel: Channel, kind: int) -> None:
    await channel.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=NAMES), 4)


async def commit(channel: Channel, group: str, offset: int) -> ErrorCode:
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="orders", partitions=[place])
    answer = await channel.call(OffsetCommitRequest(group_id=group, member_id="", topics=[topic]), 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(channel: Channel, group: str) -> int | ErrorCode:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    [answer] = (await channel.call(request, 9)).groups
    if answer.error_code:
        return ErrorCode(answer.error_code)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


async def initialize(channel: Channel, transactional_id: str) -> int | ErrorCode:
    """The epoch that it got."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = await channel.call(request, 5)
    return ErrorCode(answer.error_code) if answer.error_code else int(answer.producer_epoch)


def damage(broker: BrokerProcess, topic: str) -> Callable[[], None]:
    """Flip a bit in the middle of the first partition's log; what is returned flips it back."""
    path = broker.data_directory / f"{topic}-0" / f"{0:020d}.log"
    batches = list(iter_batches(path.read_bytes()))
    assert len(batches) >= ROUNDS
    middle = batches[len(batches) // 2]
    at = middle.start + middle.size - 2

    def flip() -> None:
        with path.open("r+b") as file:
            file.seek(at)
            [byte] = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    flip()
    return flip


def answers(broker: BrokerProcess, ask: Callable[[Channel, str], Any]) -> list[Any]:
    """Those of both names, as soon as no partition is being loaded."""

    async def session(channel: Channel) -> list[Any]:
        while LOADING in (told := [await ask(channel, name) for name in NAMES]):
            await asyncio.sleep(0.01)
        return told

    told: list[Any] = talk(broker, session)
    return told


def test_groups_of_a_damaged_partition_are_sent_away_until_it_is_mended_and_others_are_served(
    broker: BrokerProcess,
) -> None:
    create_topic(broker, "orders", 1)

    async def begin(channel: Channel) -> None:
        await find(channel, GROUP)
        for offset in range(ROUNDS):
            assert [await commit(channel, group, offset) for group in NAMES] == [ErrorCode.NONE] * 2

    talk(broker, begin)
    assert broker.stop() == 0
    mend = damage(broker, "__consumer_offsets")
    broker.start()
    assert answers(broker, committed) == [ErrorCode.NOT_COORDINATOR, ROUNDS - 1]
    assert answers(broker, lambda channel, group: commit(channel, group, 500)) == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NONE,
    ]
    assert broker.log.count("cannot load coordinator partition=__consumer_offsets-0 reason=") == 1
    mend()
    wait_until(lambda: answers(broker, committed) == [ROUNDS - 1, 500])
    assert answers(broker, lambda channel, group: commit(channel, group, 600)) == [ErrorCode.NONE] * 2


def test_transactions_of_a_damaged_partition_are_sent_away_until_it_is_mended_and_others_are_served(
    broker: BrokerProcess,
) -> None:
    async def begin(channel: Channel) -> None:
        await find(channel, TRANSACTION)
        for epoch in range(ROUNDS):
            assert [await initialize(channel, one) for one in NAMES] == [epoch] * 2

    talk(broker, begin)
    assert broker.stop() == 0
    mend = damage(broker, "__transaction_state")
    broker.start()
    assert answers(broker, initialize) == [ErrorCode.NOT_COORDINATOR, ROUNDS]
    assert broker.log.count("cannot load coordinator partition=__transaction_state-0 reason=") == 1
    mend()
    wait_until(lambda: answers(broker, initialize)[0] == ROUNDS)
