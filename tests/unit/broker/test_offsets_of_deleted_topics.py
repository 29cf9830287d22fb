"""What clients commit and fetch by name belongs to the topic that has the name then, in every version."""

import asyncio
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from levada.broker.handlers import offset_commit, offset_fetch, txn_offset_commit
from levada.broker.route import Request
from levada.coordination.decision import EndOfTransaction, Record
from levada.groups import CommittedOffset, commit_record
from levada.metadata.delta import apply
from levada.metadata.image import Image
from levada.metadata.records import PartitionRecord, TopicRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.hosted_groups import loaded
from tests.unit.broker.test_group_handlers import Client, commit_request, fetch_request, found
from tests.unit.broker.test_large_commits import HANDLERS, PLACES, client_of, request_for

PRODUCER = 7
NEW_ID = b"n" * 16
NOTHING = (-1, "", ErrorCode.NONE)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def make_anew(client: Client) -> None:
    """The topic is deleted and made anew, and the coordinator ends none of its offsets."""
    partitions = [PartitionRecord(partition_id=index, topic_id=NEW_ID, replicas=[1], isr=[1]) for index in range(2)]
    records = [TopicRecord(name="orders", topic_id=NEW_ID), *partitions]
    cast(Any, client.broker).image = apply(Image(), records, 9)
    client.topic_id = NEW_ID


def delete_it(client: Client) -> None:
    cast(Any, client.broker).image = Image(offset=8)


async def fetched(client: Client, version: int, *, is_all: bool = False) -> list[tuple[int, int, str, int]]:
    """Of the topic that is there."""
    reply = await client.send(offset_fetch, fetch_request(client, version, is_all=is_all), version)
    topics = reply.topics if version < 8 else reply.groups[0].topics
    return found(topics if is_all else topics[:1])


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_an_offset_is_kept_with_the_id_of_its_topic_in_every_version(client: Client, version: int) -> None:
    async def main() -> None:
        await client.send(offset_commit, commit_request(client, version), version)
        assert client.committed().topic_id == client.topic_id
        client.coordinator.close()
        await loaded(client.coordinator, client.partition)
        assert client.committed().topic_id == client.topic_id

    asyncio.run(main())


@pytest.mark.parametrize("version", offset_fetch.VERSIONS)
def test_a_topic_made_anew_has_no_offsets_of_the_one_before_in_every_version(client: Client, version: int) -> None:
    async def main() -> None:
        await client.send(offset_commit, commit_request(client, 9), 9)
        make_anew(client)
        assert await fetched(client, version) == [(0, *NOTHING), (1, *NOTHING)]
        await client.send(offset_commit, commit_request(client, 9, partition=1), 9)
        expected = (1, 42, "note", ErrorCode.NONE)
        assert await fetched(client, version) == [(0, *NOTHING), expected]
        if version >= 2:
            assert await fetched(client, version, is_all=True) == [expected]

    asyncio.run(main())


def test_a_topic_deleted_while_the_coordinator_loads_leaves_no_offset_to_the_next(client: Client) -> None:
    async def main() -> None:
        await client.send(offset_commit, commit_request(client, 9), 9)
        client.coordinator.close()
        client.coordinator.follow(1, {0: client.partition})
        assert client.coordinator.is_loading
        make_anew(client)
        client.coordinator.forget_topics(["orders"])
        await loaded(client.coordinator, client.partition)
        assert (await fetched(client, 9))[0] == (0, *NOTHING)

    asyncio.run(main())


@pytest.mark.parametrize("version", [version for version in offset_fetch.VERSIONS if version >= 2])
def test_a_topic_of_which_no_offset_is_left_is_not_listed(client: Client, version: int) -> None:
    async def main() -> None:
        await client.send(offset_commit, commit_request(client, 9), 9)
        for delete in (delete_it, make_anew):
            delete(client)
            reply = await client.send(offset_fetch, fetch_request(client, version, is_all=True), version)
            assert (reply.topics if version < 8 else reply.groups[0].topics) == []

    asyncio.run(main())


@pytest.mark.parametrize("version", offset_fetch.VERSIONS)
def test_an_offset_without_an_id_is_that_of_the_name(client: Client, version: int) -> None:
    async def main() -> None:
        old = commit_record("g", "orders", 0, CommittedOffset(7, 0, "", 0))
        await loaded(client.coordinator, client.partition)
        _: list[ErrorCode] = await client.coordinator.submit(
            "g", lambda machine, token, now_ms: machine.commit(token, commit_request(client, 9), 9, [old], now_ms)
        )
        make_anew(client)
        assert (await fetched(client, version))[0] == (0, 7, "", ErrorCode.NONE)

    asyncio.run(main())


def transactional_request() -> TxnOffsetCommitRequest:
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42, committed_metadata="note")
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=PRODUCER,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[place])],
    )


def end_transaction(client: Client) -> None:
    shard = client.coordinator.shard_at(0)
    assert shard is not None
    shard.follow(Record(EndOfTransaction(PRODUCER, True), None))


@pytest.mark.parametrize("version", txn_offset_commit.VERSIONS)
def test_an_offset_of_a_transaction_has_the_id_of_its_topic_in_every_version(client: Client, version: int) -> None:
    async def main() -> None:
        await commit_while(client, version, lambda: None)
        end_transaction(client)
        assert (client.committed().offset, client.committed().topic_id) == (42, client.topic_id)
        make_anew(client)
        assert (await fetched(client, 9))[0] == (0, *NOTHING)

    asyncio.run(main())


async def commit_while(client: Client, version: int, happens: Any) -> ErrorCode:
    """Commit in a transaction; while its coordinator is asked, something happens."""

    async def verified(_: str, __: Any) -> Any:
        await asyncio.sleep(0)
        happens()
        return ErrorCode.NONE if version >= 5 else {("__consumer_offsets", 0): ErrorCode.NONE}

    parts = cast(Any, client.broker)
    parts.config = {"transaction.partition.verification.enable": True}
    parts.transactions = SimpleNamespace(submit=verified)
    await loaded(client.coordinator, client.partition)
    reply = await client.send(txn_offset_commit, transactional_request(), version)
    return ErrorCode(reply.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", txn_offset_commit.VERSIONS)
def test_a_topic_deleted_while_its_transaction_is_verified_gets_no_offset(client: Client, version: int) -> None:
    async def main() -> None:
        code = await commit_while(client, version, lambda: make_anew(client))
        assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not client.machine.offsets.has_pending("g")
        end_transaction(client)
        assert (await fetched(client, 9))[0] == (0, *NOTHING)

    asyncio.run(main())


@HANDLERS
def test_a_topic_deleted_while_many_offsets_of_it_are_looked_up_gets_none_of_them(
    tmp_path: Path, handler: ModuleType
) -> None:
    async def main() -> None:
        client = await client_of(tmp_path)
        handled = handler.handle(request_for(handler), Request(3, "client", "peer", client.broker, {}))
        committing = asyncio.ensure_future(handled)
        await asyncio.sleep(0)
        assert not committing.done()
        make_anew(client)
        response = await committing
        codes = [ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (PLACES + 1)
        end_transaction(client)
        assert (client.partition.log.end_offset, len(client.machine.offsets)) == (0, 0)

    asyncio.run(main())


def test_a_commit_by_id_that_was_overtaken_is_refused_by_id(client: Client) -> None:
    async def main() -> None:
        await loaded(client.coordinator, client.partition)
        message = commit_request(client, 10)
        place = message.topics[0].partitions[0]
        message.topics[0].partitions = [place] * PLACES
        committing = asyncio.ensure_future(
            cast(Any, offset_commit.handle(message, Request(10, "client", "peer", client.broker, {})))
        )
        await asyncio.sleep(0)
        make_anew(client)
        response = await committing
        assert {one.error_code for one in response.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}

    asyncio.run(main())
