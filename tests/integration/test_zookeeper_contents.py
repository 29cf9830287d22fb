"""What lies in ZooKeeper: snapshots in place of the log, what is not as it should be, and what people look up."""

import asyncio
import json
from typing import Any

import pytest

from levada.doors.frames import frame, frames
from levada.doors.zookeeper_entries import MAX_NODE_BYTES
from levada.doors.zookeeper_layout import (
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    HEAD,
    PARTS,
    SNAPSHOTS,
    decode_pointer,
    log_path,
)
from levada.doors.zookeeper_projections import ZooKeeperProjections
from levada.doors.zookeeper_restore import restore_zookeeper
from levada.doors.zookeeper_session import Create, Delete, Set
from levada.metadata.delta import Delta
from levada.metadata.door import DoorError, Token
from levada.metadata.image import Image
from levada.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.integration.zookeeper_nodes import Cluster, Run, ZooKeeperNode

# Snapshots


def test_snapshots_take_the_place_of_the_log_before_them(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer, behind = await cluster.node(1).lead(), cluster.node(2)
        await writer.write("0")
        assert await behind.read() == ["0"]
        session = writer.door.session
        for number in range(1, 150):
            await writer.write(f"{number}")
            if number in (120, 140, 145):
                await writer.snapshot()
        node = await session.get(SNAPSHOTS)
        assert node is not None
        pointer = decode_pointer(node.data)
        assert [one.offset for one in pointer.kept] == [140, 145]
        assert pointer.log_start == 141
        assert len(await session.children(SNAPSHOTS)) == 2
        assert not await session.exists(log_path(140))
        assert await session.exists(log_path(141))
        expected = [f"{number}" for number in range(150)]
        # It finds a hole where it would go on.
        assert await behind.read() == expected
        assert await cluster.reader() == expected
        changes = await cluster.node(3).door.read(-1)
        assert changes.snapshot is not None
        assert changes.snapshot.offset == 145
        assert [batch.base_offset for batch in changes.batches] == [146, 147, 148, 149]

    run(main)


def test_a_snapshot_that_is_damaged_gives_way_to_the_one_before(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer = await cluster.node(1).lead()
        for value in ("a", "b", "c"):
            await writer.write(value)
            await writer.snapshot()
        session = writer.door.session
        newest = f"{SNAPSHOTS}/{2:020d}/0000"
        for operation in (Set(newest, b"damaged"), Delete(newest)):
            await session.transact(operation)
            assert await cluster.reader() == ["a", "b", "c"]
        await session.transact(Set(f"{SNAPSHOTS}/{1:020d}/0000", b"damaged"))
        with pytest.raises(DoorError, match=r"no snapshot .* can be read, and its log begins with entry 2"):
            await cluster.reader()

    run(main)


def test_a_snapshot_that_was_cut_off_is_as_if_it_had_not_been_begun(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer = await cluster.node(1).lead()
        await writer.write("a")
        unfinished = f"{SNAPSHOTS}/{0:020d}"
        await writer.door.session.transact(Create(unfinished, b""), Create(f"{unfinished}/0000", b"half"))
        assert await cluster.reader() == ["a"]
        await writer.snapshot()
        changes = await cluster.node(2).door.read(-1)
        assert changes.snapshot is not None
        assert changes.batches == []

    run(main)


def test_a_deposed_controller_keeps_no_snapshot(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        first, second = await cluster.node(1).lead(), cluster.node(2)
        await first.write("a")
        await first.read()
        await second.read()
        await second.door.session.transact(Delete(CONTROLLER))
        await second.lead()
        await first.door.write_snapshot(first.image)
        assert await second.door.session.children(SNAPSHOTS) == []

    run(main)


def test_batches_and_images_larger_than_a_znode_are_kept(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        writer, reader = await cluster.node(1).lead(), cluster.node(2)
        values = [f"{number}".zfill(1_000) for number in range(2_000)]
        await writer.write("before")
        await writer.write(*values)
        await writer.write("behind")
        session = writer.door.session
        assert len(await session.children(PARTS)) == 2_000_000 // MAX_NODE_BYTES + 1
        assert await reader.read() == ["before", *values, "behind"]
        assert writer.door.wants_snapshot(0) is False
        await writer.snapshot()
        assert len(await session.children(f"{SNAPSHOTS}/{2_001:020d}")) == 4
        await writer.write("c")
        assert await cluster.reader() == ["before", *values, "behind", "c"]
        await writer.snapshot()
        await writer.write("d")
        await writer.snapshot()
        assert await session.children(PARTS) == []
        assert await cluster.reader() == ["before", *values, "behind", "c", "d"]

    run(main)


def test_a_snapshot_is_worth_its_while_after_some_bytes(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node().lead()
        assert not node.door.wants_snapshot(0)
        await node.write("a" * 500)
        await node.read()
        assert node.door.wants_snapshot(400)
        assert not node.door.wants_snapshot(700)
        await node.snapshot()
        assert not node.door.wants_snapshot(400)

    run(main)


# What is not as it should be


def test_what_a_newer_release_wrote_is_neither_read_nor_passed_over(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node(1).lead()
        await node.write("a")
        session = node.door.session
        entry = await session.get(log_path(0))
        assert entry is not None
        (placed,) = frames(entry.data)
        newer = frame(placed.payload[:1] + b"\x01" + placed.payload[2:] + b"more than this release knows")
        await session.transact(Set(log_path(0), newer))
        with pytest.raises(DoorError, match="frames of version 1; this release reads 0"):
            await cluster.reader()
        await session.transact(Set(SNAPSHOTS, b'{"version":2}'))
        with pytest.raises(DoorError, match="/snapshots in ZooKeeper is of version 2; this release reads 1"):
            await cluster.reader()

    run(main)


def test_an_entry_that_is_gone_or_damaged_is_not_passed_over(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node(1).lead()
        await node.write("a")
        await node.write("b")
        session = node.door.session
        await session.transact(Set(log_path(0), b"damaged"))
        with pytest.raises(DoorError, match=r"/log/0+ in ZooKeeper is damaged"):
            await cluster.reader()
        await session.transact(Delete(log_path(0)))
        with pytest.raises(DoorError, match=r"/log/0+ is missing in ZooKeeper at .*: restore it"):
            await cluster.reader()

    run(main)


def test_a_zookeeper_that_has_forgotten_is_refused(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node(1).lead()
        await node.write("a")
        reader = cluster.node(2)
        assert await reader.read() == ["a"]
        await node.door.session.transact(Delete(HEAD), Create(HEAD, b"0"))
        with pytest.raises(DoorError, match="ends at offset 0, but this broker has read up to 1: it was lost"):
            await reader.read()

    run(main)


def test_a_lost_cluster_is_restored_into_an_empty_path(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node(1).lead()
        await node.write("a", "b" * 1_000, "c")
        await node.read()
        hosts, path = cluster.ensemble.hosts, f"{cluster.chroot}-restored/below"
        await restore_zookeeper(hosts, path, "id", node.image, 7)
        restored = await cluster.node(1, chroot=path).lead()
        assert restored.token == Token(8)
        assert await restored.door.cluster_id("another") == "id"
        assert restored.seen == node.seen
        await restored.write("d")
        assert await cluster.node(2, chroot=path).read() == [*node.seen, "d"]
        await restored.snapshot()
        await restored.write("e")
        await restored.snapshot()
        assert await cluster.node(3, chroot=path).read() == [*node.seen, "d", "e"]
        with pytest.raises(DoorError, match="is not empty: choose another path, or remove what is there"):
            await restore_zookeeper(hosts, path, "id", node.image, 9)

    run(main)


def test_what_is_not_restored_to_its_end_is_not_read(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = cluster.node(1)
        await node.read()
        await node.door.session.transact(Delete(HEAD), Create(HEAD, b"-1"))
        with pytest.raises(DoorError, match="ends at offset -1"):
            await cluster.reader()

    run(main)


def test_two_clusters_on_one_zookeeper_are_apart(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        first, second = cluster.node(1), cluster.node(1, chroot=f"{cluster.chroot}-other/below")
        assert await first.door.cluster_id("one") == "one"
        assert await second.door.cluster_id("two") == "two"
        assert await cluster.node(2).door.cluster_id("three") == "one"
        for node, value in ((first, "a"), (second, "b")):
            await (await (await node.join()).lead()).write(value)
        assert await first.read() == ["a"]
        assert await second.read() == ["b"]

    run(main)


def test_data_of_apache_kafka_is_left_alone(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        other = cluster.node(1, chroot=f"{cluster.chroot}/other")
        await other.read()
        await other.door.session.transact(Delete(HEAD))
        with pytest.raises(DoorError, match="holds the data of an Apache Kafka cluster; give this one a path"):
            await cluster.node(2, chroot=f"{cluster.chroot}/other").door.cluster_id("proposal")

    run(main)


def test_people_see_kafkas_json(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node(7).join()
        await node.door.announce("h1", 9092)
        await node.lead()
        session = node.door.session

        async def shown(path: str) -> Any:
            found = await session.get(path)
            assert found is not None
            return json.loads(found.data)

        broker = await shown(f"{BROKER_IDS}/7")
        assert broker["endpoints"] == ["PLAINTEXT://h1:9092"]
        assert (broker["host"], broker["port"], broker["version"]) == ("h1", 9092, 5)
        assert (await shown(CONTROLLER))["brokerid"] == 7
        assert await shown(CONTROLLER_EPOCH) == 1

    run(main)


TOPIC_ID = b"f" * 16
CREATED: list[MetadataRecord] = [
    TopicRecord(name="first", topic_id=TOPIC_ID),
    PartitionRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=0, partition_epoch=0
    ),
    ConfigRecord(resource_type=2, resource_name="first", name="retention.ms", value="1000"),
    ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="2000"),
]


class Shown:
    """A controller's projections, and what is to be seen of them."""

    def __init__(self, node: ZooKeeperNode) -> None:
        self.projections = ZooKeeperProjections(node.door)
        self._session = node.door.session
        self._image = Image()

    def change(self, *records: MetadataRecord) -> None:
        delta = Delta(self._image).replay(records)
        self._image = delta.image(self._image.offset + len(records))
        self.projections.follow(delta, self._image)

    async def at(self, path: str) -> Any:
        node = await self._session.get(path)
        return None if node is None else json.loads(node.data)

    async def until(self, path: str, expected: object) -> None:
        while (seen := await self.at(path)) != expected:
            await asyncio.sleep(0.02)
            assert seen is None or seen != expected


def test_topics_and_configurations_are_shown_as_kafka_showed_them(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        shown = Shown(await cluster.node(1).lead())
        shown.change(*CREATED)
        state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]}
        await shown.until("/config/brokers/<default>", {"version": 1, "config": {"log.retention.ms": "2000"}})
        assert await shown.at("/brokers/topics/first") == {
            "version": 3,
            "topic_id": "ZmZmZmZmZmZmZmZmZmZmZg",
            "partitions": {"0": [1, 2]},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        assert await shown.at("/brokers/topics/first/partitions/0/state") == {**state, "leader_recovery_state": 0}
        assert await shown.at("/config/topics/first") == {"version": 1, "config": {"retention.ms": "1000"}}
        shown.change(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[2], leader=2))
        state |= {"leader": 2, "leader_epoch": 1, "isr": [2], "leader_recovery_state": 0}
        await shown.until("/brokers/topics/first/partitions/0/state", state)
        shown.change(RemoveTopicRecord(topic_id=TOPIC_ID))
        await shown.until("/brokers/topics/first", None)
        await shown.until("/config/topics/first", None)
        await shown.projections.close()

    run(main)


def test_a_new_controller_puts_right_what_the_one_before_it_left(run: Run) -> None:
    async def main(cluster: Cluster) -> None:
        node = await cluster.node(1).lead()
        first = Shown(node)
        first.change(*CREATED)
        await first.until("/config/brokers/<default>", {"version": 1, "config": {"log.retention.ms": "2000"}})
        await first.projections.close()
        await node.door.resign()
        other = await cluster.node(2).lead()
        second = Shown(other)
        other_id = b"o" * 16
        second.change(
            TopicRecord(name="other", topic_id=other_id),
            PartitionRecord(partition_id=0, topic_id=other_id, replicas=[1], isr=[1], leader=1),
        )
        await second.until("/brokers/topics/first", None)
        await second.until("/config/brokers/<default>", None)
        assert (await second.at("/brokers/topics/other/partitions/0/state"))["controller_epoch"] == 2
        assert await second.at("/config/topics/other") == {"version": 1, "config": {}}
        await second.projections.close()

    run(main)
