"""The group commit over the wire: several transactions that become visible as one, or not at all."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, islice
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.net.channel import Channel
from levada.protocol.api import ApiKey
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.group_commit import GroupCommitMember, GroupCommitRequest, GroupCommitResponse
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import IMPLICIT_ADD_SINCE, PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from tests.brokers import BrokerProcess, sound
from tests.integration.isolation import COMMITTED, UNCOMMITTED, end_of, ends_at, read_committed
from tests.integration.test_groups import create_topic, wait_until
from tests.integration.test_wire import talk

COORDINATOR_PARTITIONS = 50
TRANSACTION = 1
"""The version of Produce that makes its partitions part of the transaction."""
SHORT_TIMEOUT_MS = 3_000
SETTINGS = ("transaction.abort.timed.out.transaction.cleanup.interval.ms=100",)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with sound(BrokerProcess(tmp_path_factory.mktemp("group-commit") / "data", *SETTINGS)) as process:
        yield process


def salted(name: str, size: int) -> list[str]:
    """Ids that one coordinator has, as our own client makes them."""
    home = coordinator_partition(name, COORDINATOR_PARTITIONS)
    ids = (f"{name}-{salt}" for salt in count())
    return list(islice((one for one in ids if coordinator_partition(one, COORDINATOR_PARTITIONS) == home), size))


async def initialize(channel: Channel, transactional_id: str, timeout_ms: int = 60_000) -> GroupCommitMember:
    await channel.call(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id]), 4)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    given = await channel.call(request, 5)
    assert given.error_code == ErrorCode.NONE, given
    return member_of(transactional_id, given.producer_id, given.producer_epoch)


def member_of(transactional_id: str, producer_id: int, epoch: int = 0) -> GroupCommitMember:
    return GroupCommitMember(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch)


async def take_over(channel: Channel, transactional_id: str) -> None:
    """Another instance comes: the open transaction is aborted first, and it is told to come again."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = await channel.call(request, 5)
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    while answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        answer = await channel.call(request, 5)
    assert answer.error_code == ErrorCode.NONE


async def write(channel: Channel, member: GroupCommitMember, topic: str, partition: int, value: bytes) -> ErrorCode:
    batch = build_batch(
        [(int(time.time() * 1_000), None, value, ())],
        producer_id=member.producer_id,
        producer_epoch=member.producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(transactional_id=member.transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data])
    answer = await channel.call(request, IMPLICIT_ADD_SINCE)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def begin(channel: Channel, topic: str, size: int = 3, timeout_ms: int = 60_000) -> list[GroupCommitMember]:
    """Members with a record each in both partitions of the topic."""
    members = [await initialize(channel, one, timeout_ms) for one in salted(topic, size)]
    for member in members:
        for partition in range(2):
            written = await write(channel, member, topic, partition, member.transactional_id.encode())
            assert written == ErrorCode.NONE
    return members


async def commit(channel: Channel, members: Sequence[GroupCommitMember]) -> GroupCommitResponse:
    answer: GroupCommitResponse = await channel.call(GroupCommitRequest(members=list(members)), 0)
    return answer


async def states(channel: Channel, members: Sequence[GroupCommitMember]) -> list[str]:
    ids = [member.transactional_id for member in members]
    answer = await channel.call(DescribeTransactionsRequest(transactional_ids=ids), 0)
    return [one.transaction_state for one in answer.transaction_states]


def codes_of(answer: GroupCommitResponse) -> list[ErrorCode]:
    return [ErrorCode(one.error_code) for one in answer.results]


def values_of(members: Sequence[GroupCommitMember]) -> list[bytes]:
    return [member.transactional_id.encode() for member in members]


def test_a_group_is_committed_as_one_and_its_members_go_on_with_new_epochs(broker: BrokerProcess) -> None:
    create_topic(broker, "together", 2)

    async def session(channel: Channel) -> list[GroupCommitMember]:
        members = await begin(channel, "together", 20)
        answer = await commit(channel, members)
        assert (answer.error_code, set(codes_of(answer))) == (ErrorCode.NONE, {ErrorCode.NONE})
        assert [one.producer_epoch for one in answer.results] == [one.producer_epoch + 1 for one in members]
        assert [one.producer_id for one in answer.results] == [one.producer_id for one in members]
        assert await write(channel, members[0], "together", 0, b"of the epoch before") != ErrorCode.NONE
        member = answer.results[0]
        following = member_of(member.transactional_id, member.producer_id, member.producer_epoch)
        assert await write(channel, following, "together", 0, b"next") == ErrorCode.NONE
        assert (await commit(channel, [following])).error_code == ErrorCode.NONE
        return members

    members = talk(broker, session)
    wait_until(lambda: read_committed(broker, "together") == [*values_of(members), b"next"])
    wait_until(lambda: read_committed(broker, "together", 1) == values_of(members))


def test_one_member_that_is_not_ready_keeps_the_whole_group_back(broker: BrokerProcess) -> None:
    create_topic(broker, "kept-back", 2)

    async def fence_one(channel: Channel) -> None:
        first, second, third = await begin(channel, "kept-back")
        await take_over(channel, second.transactional_id)
        refused = await commit(channel, [first, second, third])
        assert refused.error_code == ErrorCode.PRODUCER_FENCED
        waiting = ErrorCode.OPERATION_NOT_ATTEMPTED
        assert codes_of(refused) == [waiting, ErrorCode.PRODUCER_FENCED, waiting]
        assert await states(channel, [first, third]) == ["Ongoing", "Ongoing"]
        assert (await commit(channel, [first, third])).error_code == ErrorCode.NONE
        done = await commit(channel, [first, second])
        assert codes_of(done) == [ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED]

    talk(broker, fence_one)
    first, _, third = salted("kept-back", 3)
    for partition in range(2):
        wait_until(partial(ends_at, broker, "kept-back", partition, 6))
        assert read_committed(broker, "kept-back", partition) == [first.encode(), third.encode()]


REFUSED: dict[str, tuple[ErrorCode, Any]] = {
    "no members": (ErrorCode.INVALID_REQUEST, lambda members: []),
    "one twice": (ErrorCode.INVALID_REQUEST, lambda members: [*members, members[0]]),
    "an unknown id": (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        lambda members: [*members, member_of(salted("whole", 9)[-1], 1)],
    ),
    "an id of another coordinator": (
        ErrorCode.INVALID_REQUEST,
        lambda members: [*members, member_of("elsewhere", 1)],
    ),
    "another producer id": (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        lambda members: [members[0], member_of(members[1].transactional_id, 987_654)],
    ),
    "a later epoch": (
        ErrorCode.PRODUCER_FENCED,
        lambda members: [
            members[0],
            member_of(members[1].transactional_id, members[1].producer_id, members[1].producer_epoch + 1),
        ],
    ),
}


def test_a_group_that_makes_no_sense_is_refused_and_changes_nothing(broker: BrokerProcess) -> None:
    create_topic(broker, "whole", 2)
    assert coordinator_partition("elsewhere", 50) != coordinator_partition("whole", 50)

    async def session(channel: Channel) -> None:
        members = await begin(channel, "whole")
        for what, (code, wanted) in REFUSED.items():
            answer = await commit(channel, wanted(members))
            assert (what, answer.error_code) == (what, code)
            assert await states(channel, members) == ["Ongoing"] * 3, what
        assert (await commit(channel, members)).error_code == ErrorCode.NONE

    talk(broker, session)
    wait_until(lambda: read_committed(broker, "whole") == [one.encode() for one in salted("whole", 3)])


def test_a_group_of_very_long_ids_is_refused(broker: BrokerProcess) -> None:
    """To find out who coordinates them would hold the broker."""

    async def session(channel: Channel) -> None:
        answer = await commit(channel, [member_of(f"{number}".rjust(30_000, "x"), 1, 0) for number in range(9)])
        assert (answer.error_code, answer.results) == (ErrorCode.INVALID_REQUEST, [])

    talk(broker, session)


def test_who_lost_the_reply_gets_the_same_again_even_from_the_next_broker(own_broker: BrokerProcess) -> None:
    create_topic(own_broker, "again", 2)

    async def ask(channel: Channel) -> tuple[list[GroupCommitMember], GroupCommitResponse]:
        members = await begin(channel, "again")
        first = await commit(channel, members)
        repeated = await commit(channel, list(reversed(members)))
        assert list(reversed(repeated.results)) == first.results
        return members, first

    members, first = talk(own_broker, ask)
    assert first.error_code == ErrorCode.NONE
    own_broker.kill()
    own_broker.start()

    async def ask_again(channel: Channel) -> GroupCommitResponse:
        answer = await commit(channel, members)
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = await commit(channel, members)
        return answer

    assert talk(own_broker, ask_again) == first
    for partition in range(2):
        assert read_committed(own_broker, "again", partition) == values_of(members)
        assert end_of(own_broker, "again", partition, UNCOMMITTED) == 2 * len(members)


def test_readers_go_on_after_the_timeout_when_no_producer_commits_the_group(broker: BrokerProcess) -> None:
    create_topic(broker, "orphaned", 2)
    began = time.monotonic()
    members = talk(broker, lambda channel: begin(channel, "orphaned", timeout_ms=SHORT_TIMEOUT_MS))
    seen = end_of(broker, "orphaned", 0, COMMITTED)
    # A busy machine may be slower than the timeout.
    assert seen == 0 or time.monotonic() - began > SHORT_TIMEOUT_MS / 1_000
    wait_until(lambda: end_of(broker, "orphaned", 0, COMMITTED) == end_of(broker, "orphaned", 0, UNCOMMITTED) == 6)
    assert read_committed(broker, "orphaned") == []
    late = talk(broker, lambda channel: commit(channel, members))
    assert late.error_code == ErrorCode.INVALID_TXN_STATE


def test_a_member_that_ended_on_its_own_keeps_the_group_back(broker: BrokerProcess) -> None:
    create_topic(broker, "impatient", 2)

    async def session(channel: Channel) -> None:
        members = await begin(channel, "impatient", 2)
        own = EndTxnRequest(
            transactional_id=members[0].transactional_id,
            producer_id=members[0].producer_id,
            producer_epoch=members[0].producer_epoch,
            committed=False,
        )
        assert (await channel.call(own, 5)).error_code == ErrorCode.NONE
        answer = await commit(channel, members)
        assert codes_of(answer) == [ErrorCode.INVALID_TXN_STATE, ErrorCode.OPERATION_NOT_ATTEMPTED]
        assert await states(channel, members[1:]) == ["Ongoing"]

    talk(broker, session)
    assert read_committed(broker, "impatient") == []


@pytest.mark.parametrize(
    ("software", "is_told"), [("levada", True), ("apache-kafka-java", False), ("librdkafka", False)]
)
def test_only_our_own_clients_are_told_of_the_group_commit(broker: BrokerProcess, software: str, is_told: bool) -> None:
    async def session(channel: Channel) -> bool:
        request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
        answer = await channel.call(request, 4)
        return ApiKey.GROUP_COMMIT in {one.api_key for one in answer.api_keys}

    assert talk(broker, session) is is_told
