"""What a broker answers to requests of transactions that it refuses; Apache's answers are in the differential tests."""

from pathlib import Path

import pytest

from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.group_commit import GroupCommitMember
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from levada.records import build_batch
from tests.brokers import BrokerProcess, sound
from tests.integration.test_group_commit import initialize, states, take_over, write
from tests.integration.test_groups import create_topic
from tests.integration.test_wire import talk

BY_BROKERS, BY_CLIENTS = 5, 3
OFFSETS_PARTITIONS = 50


@pytest.fixture(scope="module", autouse=True)
def topic(broker: BrokerProcess) -> None:
    create_topic(broker, "refused", 2)


async def add(
    channel: Channel, member: GroupCommitMember, version: int, *where: tuple[str, int], verify: bool = False
) -> list[ErrorCode]:
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in where]
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=member.transactional_id,
            v3_and_below_producer_id=member.producer_id,
            v3_and_below_producer_epoch=member.producer_epoch,
            v3_and_below_topics=topics,
        )
        results = (await channel.call(request, version)).results_by_topic_v3_and_below
    else:
        one = AddPartitionsToTxnTransaction(
            transactional_id=member.transactional_id,
            producer_id=member.producer_id,
            producer_epoch=member.producer_epoch,
            verify_only=verify,
            topics=topics,
        )
        answer = await channel.call(AddPartitionsToTxnRequest(transactions=[one]), version)
        results = answer.results_by_transaction[0].topic_results
    return [ErrorCode(result.results_by_partition[0].partition_error_code) for result in results]


@pytest.mark.parametrize("version", [BY_CLIENTS, BY_BROKERS])
def test_one_partition_that_is_not_there_keeps_the_others_out(broker: BrokerProcess, version: int) -> None:
    async def session(channel: Channel) -> None:
        member = await initialize(channel, f"keeps-out-{version}")
        codes = await add(channel, member, version, ("refused", 0), ("never", 0), ("refused", 9))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, unknown, unknown]
        assert await states(channel, [member]) == ["Empty"]

    talk(broker, session)


def test_a_question_about_partitions_is_answered_for_all_or_none(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        member = await initialize(channel, "asks")
        not_added = await add(channel, member, 4, ("refused", 0), verify=True)
        assert not_added == [ErrorCode.TRANSACTION_ABORTABLE]
        assert await add(channel, member, BY_CLIENTS, ("refused", 0)) == [ErrorCode.NONE]
        assert await add(channel, member, 4, ("refused", 0), verify=True) == [ErrorCode.NONE]
        codes = await add(channel, member, 4, ("refused", 0), ("never", 0), verify=True)
        assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    talk(broker, session)


def test_a_client_cannot_add_internal_topics(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        member = await initialize(channel, "inward")
        codes = await add(channel, member, BY_CLIENTS, ("__transaction_state", 0), ("refused", 0))
        assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED]
        assert await states(channel, [member]) == ["Empty"]

    talk(broker, session)


def test_who_is_fenced_learns_it_by_the_name_that_the_request_knows(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        old = await initialize(channel, "zombie")
        assert await write(channel, old, "refused", 0, b"before") == ErrorCode.NONE
        await take_over(channel, "zombie")
        # Producers know of fencing as an epoch that is not valid, and clients of the coordinator by its own name.
        assert await write(channel, old, "refused", 1, b"after") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await add(channel, old, BY_CLIENTS, ("refused", 1)) == [ErrorCode.PRODUCER_FENCED]
        for version, code in ((1, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
            request = EndTxnRequest(
                transactional_id="zombie",
                producer_id=old.producer_id,
                producer_epoch=old.producer_epoch,
                committed=True,
            )
            assert (await channel.call(request, version)).error_code == code

    talk(broker, session)


def test_offsets_of_a_producer_that_was_replaced_open_no_transaction(tmp_path: Path) -> None:
    """Where transactions are not verified, only the producer's epoch in the offsets' own partition tells."""

    async def commit_offset(channel: Channel, member: GroupCommitMember) -> ErrorCode:
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=member.transactional_id,
            group_id="late",
            producer_id=member.producer_id,
            producer_epoch=member.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name="refused", partitions=[place])],
        )
        answer = await channel.call(request, 3)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def session(channel: Channel) -> None:
        await channel.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["late"]), 4)
        old = await initialize(channel, "late")
        add = AddOffsetsToTxnRequest(
            transactional_id="late", producer_id=old.producer_id, producer_epoch=old.producer_epoch, group_id="late"
        )
        assert (await channel.call(add, 3)).error_code == ErrorCode.NONE
        assert await commit_offset(channel, old) == ErrorCode.NONE
        await take_over(channel, "late")
        assert await commit_offset(channel, old) == ErrorCode.INVALID_PRODUCER_EPOCH
        index = coordinator_partition("late", OFFSETS_PARTITIONS)
        wanted = TopicRequest(name="__consumer_offsets", partition_indexes=[index])
        answer = await channel.call(DescribeProducersRequest(topics=[wanted]), 0)
        [producer] = answer.topics[0].partitions[0].active_producers
        assert producer.current_txn_start_offset == -1

    with sound(BrokerProcess(tmp_path / "data", "transaction.partition.verification.enable=false")) as unverified:
        create_topic(unverified, "refused", 1)
        talk(unverified, session)


def test_producers_of_what_is_not_there_are_refused_with_a_reason(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        topics = [TopicRequest(name=name, partition_indexes=[9]) for name in ("refused", "never", "a/b")]
        answer = await channel.call(DescribeProducersRequest(topics=topics), 0)
        found = [topic.partitions[0] for topic in answer.topics]
        assert [one.error_code for one in found] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]
        assert [one.error_message is None for one in found] == [True, False, False]

    talk(broker, session)


@pytest.mark.parametrize(("version", "is_told"), [(3, False), (4, True)])
def test_features_with_a_minimum_of_0_are_for_those_who_understand_it(
    broker: BrokerProcess, version: int, is_told: bool
) -> None:
    async def session(channel: Channel) -> set[str]:
        request = ApiVersionsRequest(client_software_name="any", client_software_version="1")
        answer = await channel.call(request, version)
        return {feature.name for feature in answer.supported_features}

    assert ("transaction.version" in talk(broker, session)) is is_told


def test_records_without_acks_that_are_refused_close_the_connection_and_are_not_answered(broker: BrokerProcess) -> None:
    """An answer that no client waits for would be taken for that of its next request."""

    async def session(channel: Channel) -> None:
        data = [
            PartitionProduceData(
                index=index,
                records=build_batch(
                    [(0, None, b"", ())],
                    producer_id=index,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                ),
            )
            for index in range(2)
        ]
        topic = TopicProduceData(name="refused", partition_data=data)
        request = ProduceRequest(transactional_id="two-producers", acks=0, timeout_ms=1_000, topic_data=[topic])
        channel.send_without_answer(request, 9)
        with pytest.raises(ChannelClosed):
            await channel.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)

    talk(broker, session)
