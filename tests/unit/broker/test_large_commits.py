"""Commits of very many offsets: others get their turns of the loop meanwhile, and the outcome is as of any commit."""

import asyncio
import inspect
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from levada.broker.handlers import offset_commit, txn_offset_commit
from levada.broker.route import Request
from levada.broker.turns import AT_ONCE
from levada.coordination.decision import EndOfTransaction, Record
from levada.metadata.delta import apply
from levada.metadata.image import Image
from levada.metadata.records import PartitionRecord, TopicRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.hosted_groups import loaded
from tests.unit.broker.test_group_handlers import Client

PRODUCER = 7
TURNS = 6
PLACES = TURNS * AT_ONCE + 1
HANDLERS = pytest.mark.parametrize("handler", [offset_commit, txn_offset_commit], ids=["plain", "in a transaction"])


async def client_of(directory: Path) -> Client:
    client = Client(directory)
    records = [
        TopicRecord(name="orders", topic_id=client.topic_id),
        *(
            PartitionRecord(partition_id=index, topic_id=client.topic_id, replicas=[1], isr=[1])
            for index in range(PLACES)
        ),
    ]
    parts = cast(Any, client.broker)
    parts.image = apply(Image(), records, 2)
    parts.config = {"transaction.partition.verification.enable": False}
    await loaded(client.coordinator, client.partition)
    return client


def request_for(handler: ModuleType) -> Any:
    if handler is offset_commit:
        places = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
            for index in range(PLACES + 1)
        ]
        topic = OffsetCommitRequestTopic(name="orders", partitions=places)
        return OffsetCommitRequest(group_id="g", member_id="", topics=[topic])
    transactional = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
        for index in range(PLACES + 1)
    ]
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=PRODUCER,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=transactional)],
    )


async def send(client: Client, handler: ModuleType) -> tuple[list[ErrorCode], int]:
    """The codes of all places, and how many turns others had meanwhile."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(other())
    handled = handler.handle(request_for(handler), Request(3, "client", "peer", client.broker, {}))
    response = await handled if inspect.isawaitable(handled) else handled
    beside.cancel()
    return [ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions], turns


@HANDLERS
def test_others_have_turns_while_many_offsets_are_committed(tmp_path: Path, handler: ModuleType) -> None:
    async def main() -> None:
        client = await client_of(tmp_path)
        codes, turns = await send(client, handler)
        assert codes == [ErrorCode.NONE] * PLACES + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert turns >= TURNS
        shard = client.coordinator.shard_at(0)
        assert shard is not None
        shard.follow(Record(EndOfTransaction(PRODUCER, True), None))
        committed = client.machine.offsets.of("g")["orders"]
        assert {index: one.offset for index, one in committed.items()} == {index: index for index in range(PLACES)}

    asyncio.run(main())


@HANDLERS
def test_more_offsets_than_fit_a_batch_are_refused_and_none_is_kept(tmp_path: Path, handler: ModuleType) -> None:
    async def main() -> None:
        client = await client_of(tmp_path)
        log = client.partition.log
        log.reconfigure(replace(log.config, max_message_bytes=10_000))
        codes, _ = await send(client, handler)
        assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR] * PLACES + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert (log.end_offset, len(client.machine.offsets)) == (0, 0)
        assert not client.machine.offsets.has_pending("g")

    asyncio.run(main())
