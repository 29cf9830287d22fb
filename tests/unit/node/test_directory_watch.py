"""What a directory that fails costs while a node runs, and what the controller learns of it."""

import asyncio
import errno
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from levada.metadata.records import NO_LEADER
from levada.model.error_codes import ErrorCode
from levada.model.errors import KafkaStorageError
from levada.node.directory_watch import DirectoryWatch
from levada.node.disk_usage import DiskUsage
from levada.node.membership import ClusterMembership
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.metadata import MetadataRequest
from levada.records import build_batch
from levada.storage.log_directory import LogDirectory
from tests.nodes import RunningNode, running_node

PATIENCE_S = 20


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE_S))


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {"log.dirs": ",".join(str(tmp_path / name) for name in "abc")}


def directory(node: RunningNode, name: str) -> LogDirectory:
    return next(one for one in node.broker.logs if one.directory.endswith(f"/{name}"))


def places(node: RunningNode, topic: str) -> dict[int, str]:
    """Where the metadata has the partitions, by the names of directories."""
    names = {one.directory_id: Path(one.directory).name for one in node.broker.logs}
    found = {one.index: one.directory_of(1) for one in node.broker.image.topics[topic].partitions}
    return {index: "" if place is None else names[place] for index, place in found.items()}


async def leaders(node: RunningNode, topic: str) -> list[int]:
    answer = await node.call(MetadataRequest(topics=None))
    (found,) = [one for one in answer.topics if one.name == topic]
    return [one.leader_id for one in sorted(found.partitions, key=lambda one: one.partition_index)]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.02)


async def settled(node: RunningNode, topic: str) -> None:
    async def is_known() -> bool:
        return all(places(node, topic).values())

    await until(is_known)


async def led_by(node: RunningNode, topic: str, *expected: int) -> None:
    async def is_so() -> bool:
        return await leaders(node, topic) == list(expected)

    await until(is_so)


def append(node: RunningNode, topic: str, index: int) -> int:
    partition = node.broker.partition(topic, bytes(16), index)
    return partition.append(build_batch([(0, None, b"v", ())]), allows_zstd=True, now_ms=0).base_offset


def test_partitions_go_where_the_fewest_are_and_the_metadata_knows_where(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async def main() -> None:
        async with running_node(tmp_path, settings) as node:
            await node.create("t", 5)
            await settled(node, "t")
            assert places(node, "t") == {0: "a", 1: "b", 2: "c", 3: "a", 4: "b"}
            await node.create("u")
            await settled(node, "u")
            assert places(node, "u") == {0: "c"}

    run(main())


def test_a_directory_that_vanishes_takes_its_replicas_offline_and_no_others(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async def main() -> None:
        async with running_node(tmp_path, settings) as node:
            await node.create("t", 4)
            await settled(node, "t")
            shutil.move(tmp_path / "b", tmp_path / "away")
            # What is left of a mount without its disk.
            (tmp_path / "b").mkdir()
            await led_by(node, "t", 1, NO_LEADER, 1, 1)
            assert [append(node, "t", index) for index in (0, 2, 3)] == [0, 0, 0]
            with pytest.raises(KafkaStorageError):
                append(node, "t", 1)
            answer = await node.call(MetadataRequest(topics=None))
            (lost,) = [one for one in answer.topics[0].partitions if one.leader_id == NO_LEADER]
            assert (lost.error_code, lost.offline_replicas) == (ErrorCode.LEADER_NOT_AVAILABLE, [1])
            await node.create("u", 2)
            await settled(node, "u")
            assert places(node, "u") == {0: "c", 1: "a"}

    run(main())


def test_a_replica_is_lost_with_its_directory_before_the_controller_knew_where_it_was(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async def main() -> None:
        async with running_node(tmp_path, settings) as node:
            told = node.broker.replicas.on_placed

            def fail_at_once() -> None:
                directory(node, "a").fail(OSError(errno.EIO, "the device does not answer"))
                told()

            node.broker.replicas.on_placed = fail_at_once
            await node.create("t", 2)
            await led_by(node, "t", NO_LEADER, 1)
            assert places(node, "t") == {0: "a", 1: "b"}

    # It is the first directory, and nothing here stops the node for it.
    run(main())


def test_a_topic_can_be_deleted_and_made_again_while_a_directory_with_some_of_it_is_away(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async def main() -> None:
        async with running_node(tmp_path, settings) as node:
            await node.create("t", 3)
            await settled(node, "t")
            directory(node, "c").fail(OSError(errno.EROFS, "read-only"))
            await led_by(node, "t", 1, 1, NO_LEADER)
            topic = DeleteTopicState(name="t", topic_id=bytes(16))
            answer = await node.call(DeleteTopicsRequest(topics=[topic], timeout_ms=1_000))
            assert answer.responses[0].error_code == ErrorCode.NONE
            await node.create("t", 3)
            await led_by(node, "t", 1, 1, 1)
            await settled(node, "t")
            assert places(node, "t") == {0: "a", 1: "b", 2: "a"}
            assert [append(node, "t", index) for index in range(3)] == [0, 0, 0]

    run(main())


def test_a_directory_that_is_back_is_served_after_a_restart(tmp_path: Path, settings: dict[str, str]) -> None:
    async def main() -> None:
        async with running_node(tmp_path, settings) as node:
            await node.create("t", 3)
            await settled(node, "t")
            assert append(node, "t", 1) == 0
            directory(node, "b").fail(OSError(errno.EIO, "the device does not answer"))
            await led_by(node, "t", 1, NO_LEADER, 1)
        async with running_node(tmp_path, settings) as node:
            await led_by(node, "t", 1, 1, 1)
            assert append(node, "t", 1) == 1

    run(main())


def test_a_watch_that_has_something_to_do_can_be_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            usage = DiskUsage(node.broker.logs, node.world.clock, 100)
            # Nothing has happened of which the controller would have to know.
            watch = DirectoryWatch(node.broker, cast("ClusterMembership", None), usage, lambda _: None)
            watch.start()
            for turns in range(4):
                await asyncio.sleep(0.01)
                node.broker.replicas.on_placed()
                for _ in range(turns):
                    await asyncio.sleep(0)
                await watch.stop()
                watch.start()
            await watch.stop()

    run(main())


def test_a_node_says_when_it_cannot_go_on(tmp_path: Path, settings: dict[str, str]) -> None:
    async def main() -> None:
        async with running_node(tmp_path, settings) as node:
            reasons: asyncio.Queue[str] = asyncio.Queue()
            node.node.on_fatal = reasons.put_nowait
            directory(node, "b").fail(OSError(errno.EIO, "no answer"))
            directory(node, "a").fail(OSError(errno.EIO, "no answer"))
            assert await reasons.get() == f"{tmp_path}/a has failed, which has the cluster's metadata too"
            directory(node, "c").fail(OSError(errno.EIO, "no answer"))
            assert await reasons.get() == "every log directory has failed"

    run(main())
