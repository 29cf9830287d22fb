"""Transactions and producers: listed, described, fenced, aborted."""

import pytest
from confluent_kafka import KafkaException

from levada.client.admin import (
    AbortTransaction,
    Admin,
    IsolationLevel,
    OffsetSpec,
    TransactionState,
)
from levada.client.errors import KafkaError, UnknownTopicOrPartition
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from tests.clients.admin_cases.case import WAIT_SECONDS, Cases, Target, create, until
from tests.clients.admin_cases.surroundings import open_transaction, produce

TRANSACTION_CASES = Cases()


async def stable_end(admin: Admin, partition: TopicPartition) -> int:
    level = IsolationLevel.READ_COMMITTED
    return (await admin.list_offsets({partition: OffsetSpec.LATEST}, isolation_level=level))[partition].offset


@TRANSACTION_CASES
async def an_open_transaction_is_listed_and_described(admin: Admin, target: Target) -> None:
    topic, copier = await create(admin, target, "copied"), target.fresh("copier")
    first = TopicPartition(topic, 0)
    with open_transaction(target, copier, topic) as producer:
        described = await admin.describe_transactions([copier, "copier-unknown"])
        found = described[copier]
        assert found.state == TransactionState.ONGOING
        assert found.coordinator == target.broker_id
        assert found.partitions == (first,)
        assert found.start_ms is not None
        assert found.start_ms > 1_700_000_000_000
        assert found.timeout_ms == 60_000
        assert [error.code for error in described.errors.values()] == [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]

        async def names(**filters: object) -> list[str]:
            listed = await admin.list_transactions(**filters)  # type: ignore[arg-type]
            return [one.transactional_id for one in listed if one.transactional_id == copier]

        assert await names() == [copier]
        assert await names(states=[TransactionState.ONGOING]) == [copier]
        assert await names(states=[TransactionState.COMPLETE_COMMIT]) == []
        assert await names(producer_ids=[found.producer_id]) == [copier]
        assert await names(producer_ids=[found.producer_id + 999]) == []
        assert await names(longer_than_ms=3_600_000) == []
        assert await names(transactional_id_pattern=f"{copier[:5]}.*") == [copier]
        assert await names(transactional_id_pattern="no such") == []
        producer.commit_transaction(WAIT_SECONDS)

    async def is_complete() -> bool:
        return (await admin.describe_transactions([copier]))[copier].state == TransactionState.COMPLETE_COMMIT

    await until("the transaction is complete", is_complete)
    assert (await admin.describe_transactions([copier]))[copier].partitions == ()


@TRANSACTION_CASES
async def states_that_brokers_do_not_know_are_refused(admin: Admin, target: Target) -> None:
    with pytest.raises(KafkaError, match="no such states: Dreaming"):
        await admin.list_transactions(states=["Dreaming"])


@TRANSACTION_CASES
async def producers_of_a_partition_are_described(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "written")
    first, nowhere = TopicPartition(topic, 0), TopicPartition("written-unknown", 0)
    with open_transaction(target, target.fresh("writer"), topic) as producer:
        unknown = await admin.describe_producers([nowhere])
        assert [type(error) for error in unknown.errors.values()] == [UnknownTopicOrPartition]
        for broker_id in (None, target.broker_id):
            (only,) = (await admin.describe_producers([first], broker_id=broker_id))[first]
            assert (only.last_sequence, only.transaction_start_offset) == (0, 0)
            assert only.producer_id >= 0
            assert only.producer_epoch >= 0
            assert only.last_timestamp_ms > 1_700_000_000_000
        producer.abort_transaction(WAIT_SECONDS)
    (only,) = (await admin.describe_producers([first]))[first]
    assert only.transaction_start_offset is None


@TRANSACTION_CASES
async def a_fenced_producer_cannot_commit(admin: Admin, target: Target) -> None:
    topic, copier = await create(admin, target, "fenced"), target.fresh("fenced")
    with open_transaction(target, copier, topic) as producer:
        before = (await admin.describe_transactions([copier]))[copier]
        fenced = (await admin.fence_producers([copier]))[copier]
        assert fenced.producer_id == before.producer_id
        assert fenced.producer_epoch > before.producer_epoch
        with pytest.raises(KafkaException):
            producer.commit_transaction(WAIT_SECONDS)
    first = TopicPartition(topic, 0)
    await until("the transaction is aborted", lambda: ends_at(admin, first, 2))


@TRANSACTION_CASES
async def a_transaction_is_aborted_in_a_partition(admin: Admin, target: Target) -> None:
    topic, copier = await create(admin, target, "hanging"), target.fresh("hanging")
    first = TopicPartition(topic, 0)
    with open_transaction(target, copier, topic) as producer:
        produce(target, topic, b"behind it")
        assert await stable_end(admin, first) == 0
        (only,) = [one for one in (await admin.describe_producers([first]))[first] if one.transaction_start_offset == 0]
        hanging = AbortTransaction(first, only.producer_id, only.producer_epoch, only.coordinator_epoch or 0)
        await admin.abort_transaction(hanging)
        assert await stable_end(admin, first) == 3
        producer.abort_transaction(WAIT_SECONDS)
    with pytest.raises(UnknownTopicOrPartition):
        await admin.abort_transaction(AbortTransaction(TopicPartition("hanging-unknown", 0), 1, 0, 0))


async def ends_at(admin: Admin, partition: TopicPartition, offset: int) -> bool:
    return await stable_end(admin, partition) == offset
