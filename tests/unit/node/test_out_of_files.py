"""A node whose process can open no more files: what needs one is refused or late, and nothing is given up for good."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.storage.marker_writes import NO_GROUP
from levada.storage.producers import TransactionEnd
from tests.descriptors import no_descriptors_to_spare
from tests.nodes import RunningNode, running_node

NONE, STORAGE_ERROR = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
    "log.cleaner.backoff.ms": "50",
    "broker.heartbeat.interval.ms": "100",
}
PRODUCER = 7


async def create(node: RunningNode, name: str, **configs: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    topic.configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    response = await node.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
    return int(response.topics[0].error_code)


async def produce(node: RunningNode, name: str, size: int = 10) -> int:
    batch = build_batch([(node.world.clock.now_ms(), b"key", bytes(size), ())])
    topic = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])
    response = await node.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), 9)
    return int(response.responses[0].partition_responses[0].error_code)


async def delete_records(node: RunningNode, name: str) -> int:
    topic = DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    response = await node.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5_000))
    return int(response.topics[0].partitions[0].error_code)


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_true():
            await asyncio.sleep(0.01)


async def until_works(act: Callable[[], Awaitable[int]], *allowed: int) -> None:
    async with asyncio.timeout(30):
        while await act() not in (NONE, *allowed):
            await asyncio.sleep(0.05)


def run(directory: Path, session: Callable[[RunningNode], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        fatal: list[str] = []
        async with running_node(directory, {**SETTINGS, **settings}) as node:
            node.node.on_fatal = fatal.append
            await session(node)
            assert fatal == []
            assert node.broker.logs.offline == []
            assert not any(log.is_offline for log in node.broker.logs.logs)

    asyncio.run(asyncio.wait_for(main(), 90))


@pytest.mark.parametrize("count", [1, 2])
def test_a_node_without_descriptors_goes_on_when_it_has_some_again(
    tmp_path: Path, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    directories = ",".join(str(tmp_path / f"data{number}") for number in range(count))

    async def session(node: RunningNode) -> None:
        assert await create(node, "plain") == NONE
        assert await create(node, "flushed", flush_messages="1") == NONE
        assert await create(node, "rolled", segment_bytes="1048576") == NONE
        assert await create(node, "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01") == NONE
        for name in ("plain", "flushed", "rolled", "compacted"):
            assert await produce(node, name) == NONE
        compacted = node.broker.partition("compacted", bytes(16), 0).log
        compacted.roll(compacted.end_offset, node.world.clock.now_ms())
        with no_descriptors_to_spare():
            # A file that is open can be written to.
            assert await produce(node, "plain") == NONE
            assert await produce(node, "flushed") in (NONE, STORAGE_ERROR)
            assert await produce(node, "rolled", 1_000_000) in (NONE, STORAGE_ERROR)
            assert await produce(node, "rolled", 1_000_000) == STORAGE_ERROR
            assert await create(node, "late") != NONE or node.broker.replicas.by_name("late") is not None
            await delete_records(node, "plain")
            for done in ("checkpoint failed", "flush failed", "cleaning failed", "cannot send the heartbeat"):
                await until(lambda words=done: words in caplog.text)  # type: ignore[misc]
        assert await produce(node, "plain") == NONE
        await until_works(lambda: produce(node, "flushed"))
        await until_works(lambda: produce(node, "rolled", 1_000_000))
        log = node.broker.partition("flushed", bytes(16), 0).log
        await until(lambda: log.high_watermark == log.end_offset == log.recovery_point)
        # Whether the first attempt was written down before the controller had to give up, it could not say.
        await until_works(lambda: create(node, "late"), ErrorCode.TOPIC_ALREADY_EXISTS)
        await until_works(lambda: produce(node, "late"))
        await until(lambda: compacted.start_offset == 0 and not list(Path(compacted.directory).glob("*.cleaned")))

    run(tmp_path, session, **{"log.dirs": directories})


def test_a_topic_whose_log_could_not_be_made_is_made_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def session(node: RunningNode) -> None:
        directory = node.broker.logs.first
        make = directory.open
        refusals = [OSError(24, "Too many open files"), OSError(28, "No space left on device")]

        def refuse(*arguments: Any, **settings: Any) -> Any:
            if refusals:
                raise refusals.pop()
            return make(*arguments, **settings)

        monkeypatch.setattr(directory, "open", refuse)
        await create(node, "late")
        await until_works(lambda: produce(node, "late"))
        assert not refusals

    run(tmp_path, session)


def test_the_abort_of_a_transaction_is_known_though_its_index_cannot_be_opened(tmp_path: Path) -> None:
    async def session(node: RunningNode) -> None:
        assert await create(node, "t") == NONE
        assert await produce(node, "t") == NONE
        partition = node.broker.partition("t", bytes(16), 0)
        batch = build_batch(
            [(0, None, b"v", ())], producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        partition.append(batch, allows_zstd=True, now_ms=0, is_verified=True)
        with no_descriptors_to_spare():
            end = TransactionEnd(PRODUCER, 0, is_commit=False, coordinator_epoch=0, transaction_version=0)
            partition.append_markers([end], NO_GROUP, 0)
        assert [one.producer_id for one in partition.log.aborted_transactions(0, 10)] == [PRODUCER]
        partition.log.flush()
        assert node.world.disk.exists(partition.log.active.path(".txnindex"))

    run(tmp_path, session)
