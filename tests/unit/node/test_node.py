"""A node on its data directory: what it serves after stops, and what it makes of directories it did not expect."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from levada.broker.gauges import RUNNING, register_broker_gauges
from levada.metadata.image import TOPIC
from levada.model.config import ConfigError
from levada.model.error_codes import ErrorCode
from levada.model.metrics import Registry
from levada.net.open_connections import OpenConnections
from levada.net.request_memory import RequestMemory
from levada.node.broker_view import NodeView
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.records import build_batch
from tests.logs import read_all
from tests.nodes import RunningNode, running_node


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def append(node: RunningNode, topic: str, index: int, value: bytes) -> int:
    partition = node.broker.partition(topic, bytes(16), index)
    return partition.append(build_batch([(0, None, value, ())]), allows_zstd=True, now_ms=0).base_offset


def values(node: RunningNode, topic: str, index: int) -> list[bytes | None]:
    return [value for _, value in read_all(node.broker.partition(topic, bytes(16), index).log)]


def topic_directories(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir() and each.name != "coordinator")


async def topics_of(node: RunningNode) -> dict[str, int]:
    response = await node.call(MetadataRequest(topics=None))
    return {topic.name: len(topic.partitions) for topic in response.topics}


def test_topics_and_their_records_are_there_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            topic_id = await node.create("orders-eu", 3)
            await node.create("c.d")
            assert [append(node, "orders-eu", 2, value) for value in (b"one", b"two")] == [0, 1]
            epoch = node.broker.partition("orders-eu", topic_id, 2).leader_epoch
        async with running_node(tmp_path) as node:
            assert await topics_of(node) == {"orders-eu": 3, "c.d": 1}
            partition = node.broker.partition("", topic_id, 2)
            assert partition.high_watermark == 2
            assert values(node, "orders-eu", 2) == [b"one", b"two"]
            # Another life of the broker is another term of its leaders.
            assert partition.leader_epoch > epoch
            assert append(node, "orders-eu", 2, b"three") == 2
            assert [entry.start_offset for entry in partition.log.epochs.entries] == [0, 2]

    run(main())


def test_a_deleted_topic_is_gone_at_once_and_its_files_a_little_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path, {"log.segment.delete.delay.ms": "0"}) as node:
            topic_id = await node.create("t", 2)
            append(node, "t", 0, b"v")
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=1_000)
            assert (await node.call(request)).responses[0].error_code == 0
            assert await topics_of(node) == {}
            assert all(name.endswith("-delete") for name in topic_directories(tmp_path))
            while topic_directories(tmp_path):
                await asyncio.sleep(0.05)
            assert await node.create("t") != topic_id
            assert values(node, "t", 0) == []

    run(main())


def test_what_a_deletion_left_behind_is_removed_after_the_next_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            topic = DeleteTopicState(name="t", topic_id=bytes(16))
            await node.call(DeleteTopicsRequest(topics=[topic], timeout_ms=1_000))
            assert len(topic_directories(tmp_path)) == 1
        async with running_node(tmp_path):
            while topic_directories(tmp_path):
                await asyncio.sleep(0.05)

    run(main())


def test_logs_without_metadata_are_adopted_with_their_ids(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            topic_id = await node.create("old", 2)
            append(node, "old", 1, b"v")
        for file in (tmp_path / "coordinator").iterdir():
            file.unlink()
        async with running_node(tmp_path) as node:
            assert await topics_of(node) == {"old": 2}
            assert node.broker.image.topics["old"].topic_id == topic_id
            assert values(node, "old", 1) == [b"v"]

    run(main())


def test_ids_of_producers_that_wrote_adopted_logs_are_not_given_again(tmp_path: Path) -> None:
    async def main() -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        async with running_node(tmp_path) as node:
            await node.create("old")
            partition = node.broker.partition("old", bytes(16), 0)
            now_ms = node.world.clock.now_ms()
            batch = build_batch([(now_ms, None, b"v", ())], producer_id=5_432, producer_epoch=0, base_sequence=0)
            partition.append(batch, allows_zstd=True, now_ms=now_ms)
        for file in (tmp_path / "coordinator").iterdir():
            file.unlink()
        async with running_node(tmp_path) as node:
            assert (await node.call(request, 4)).producer_id == 5_433

    run(main())


def test_a_directory_of_no_known_topic_is_not_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("good")
            await node.create("stray")
            append(node, "stray", 0, b"v")
        (tmp_path / "stray-0").rename(tmp_path / "other-0")
        (tmp_path / "nameless-0").mkdir()
        (tmp_path / "nameless-0" / f"{0:020d}.log").write_bytes(b"something")
        (tmp_path / "lost+found").mkdir()
        (tmp_path / "file-0").write_text("not a directory")
        async with running_node(tmp_path) as node:
            assert await topics_of(node) == {"good": 1, "stray": 1}
            # It had nothing but its files, which are gone.
            assert values(node, "stray", 0) == []
            names = topic_directories(tmp_path)
            assert {"good-0", "stray-0", "nameless-0", "lost+found"} <= set(names)
            assert [name for name in names if name.startswith("other-0")] == [
                name for name in names if name.endswith("-delete")
            ]
        assert f"not served directory={tmp_path}/nameless-0" in caplog.text

    run(main())


def test_a_damaged_topic_id_is_written_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            append(node, "t", 0, b"v")
        (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: !!!")
        async with running_node(tmp_path) as node:
            assert values(node, "t", 0) == [b"v"]

    run(main())


def test_a_coordinator_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path / "one"):
            pass
        async with running_node(tmp_path / "two"):
            pass
        (tmp_path / "two" / "meta.properties").rename(tmp_path / "one" / "meta.properties")
        with pytest.raises(ConfigError, match="belongs to cluster"):
            async with running_node(tmp_path / "one"):
                pass

    run(main())


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            for _ in range(3):
                append(node, "t", 0, b"v")
            partition = DeleteRecordsPartition(partition_index=0, offset=2)
            topic = DeleteRecordsTopic(name="t", partitions=[partition])
            response = await node.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000))
            assert response.topics[0].partitions[0].low_watermark == 2
            checkpoint = tmp_path / "log-start-offset-checkpoint"
            while not checkpoint.exists() or "t 0 2" not in checkpoint.read_text():
                await asyncio.sleep(0.05)

    run(main())


def test_a_topic_with_fewer_replicas_than_it_wants_in_sync_is_at_its_minimum_and_not_under_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path, {"min.insync.replicas": "2"}) as node:
            await node.create("t", 3)
            view = NodeView(node.broker, OpenConnections(), RequestMemory(), lambda: RUNNING, lambda: True)
            registry = Registry()
            register_broker_gauges(registry, view)
            counts = {one.name.rpartition("=")[2]: one.attributes.get("Value") for one in registry.collect()}
            assert (counts["UnderMinIsrPartitionCount"], counts["AtMinIsrPartitionCount"]) == (0, 3)

    run(main())


def test_a_list_that_is_appended_to_until_no_record_can_hold_it_does_no_harm(tmp_path: Path) -> None:
    """It was written down, and the metadata log could not be read any more, at this start or the next."""

    async def append(node: RunningNode, part: int) -> int:
        value = ",".join(f"{number}:{part}" for number in range(10_000, 12_500))
        key = "follower.replication.throttled.replicas"
        config = AlterableConfig(name=key, config_operation=2, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
        reply = await node.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        code: int = reply.responses[0].error_code
        return code

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            refused = ErrorCode.INVALID_CONFIG
            assert [await append(node, part) for part in range(3)] == [0, refused, refused]
        async with running_node(tmp_path) as node:
            assert await topics_of(node) == {"t": 1}

    run(main())
