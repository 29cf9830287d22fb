"""The logs of a broker follow the metadata: a few in a turn of the loop, and what cannot be made is made later."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

from levada.broker.replicas import PARTITIONS_AT_ONCE, Replicas
from levada.metadata.delta import Delta
from levada.metadata.image import Image
from levada.metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from levada.storage.log_config import LogConfig
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import LogDirectory
from levada.world.real import RealClock, RealEntropy
from levada.world.real_disk import RealDisk
from tests.rounds import Rounds

NODE, OTHER = 1, 2
TOPIC_ID = bytes([7] * 16)
PARTITIONS = 20


class WatchedDirectory(LogDirectory):
    """Counts attempts to make a log in it, and may have no room for one."""

    is_full = False
    attempts = 0
    note: Callable[[], None] = staticmethod(lambda: None)

    def open(self, *arguments: Any, **settings: Any) -> Any:
        self.attempts += 1
        self.note()
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().open(*arguments, **settings)

    def retire(self, topic: str, partition: int, unique: str) -> str:
        self.note()
        return super().retire(topic, partition, unique)

    def probe(self) -> None:
        """It is there."""


class Hosting:
    """A broker's replicas, made by the records of the metadata log."""

    def __init__(self, *directories: Path) -> None:
        disk = RealDisk()
        self.directories: list[WatchedDirectory] = []
        for directory in directories:
            directory.mkdir(exist_ok=True)
            self.directories.append(WatchedDirectory(disk, str(directory), LogConfig(), lambda _: 0))
        self.replicas = Replicas(
            disk,
            LogDirectories(self.directories),
            RealClock(),
            RealEntropy(),
            node_id=NODE,
            config_of=lambda _: LogConfig(),
            begin_flush=lambda _: None,
        )
        self._image = Image()

    async def follow(self, *records: Any) -> None:
        delta = Delta(self._image).replay(records)
        self._image = delta.image(self._image.offset + len(records))
        await self.replicas.follow(delta, self._image)

    async def create(self, partitions: int = PARTITIONS) -> None:
        created = [
            PartitionRecord(partition_id=index, topic_id=TOPIC_ID, replicas=[NODE], isr=[NODE], leader=NODE)
            for index in range(partitions)
        ]
        await self.follow(TopicRecord(name="t", topic_id=TOPIC_ID), *created)

    def watch(self) -> Rounds:
        rounds = Rounds()
        for one in self.directories:
            one.note = rounds.note
        return rounds

    def made(self) -> list[list[int]]:
        """The partitions that are in each directory and can be used."""
        topic = self.replicas.by_name("t")
        hosted = [] if topic is None else sorted(topic.partitions)
        return [[index for index in hosted if ("t", index) in one] for one in self.directories]

    def attempts(self) -> list[int]:
        """How often each directory was to have a log since the last call."""
        counts = [one.attempts for one in self.directories]
        for one in self.directories:
            one.attempts = 0
        return counts


def test_the_partitions_of_a_deleted_topic_are_removed_a_few_in_a_turn(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path)
        await hosting.create()
        topic = hosting.replicas.by_name("t")
        assert topic is not None
        rounds = hosting.watch()
        deletion = asyncio.ensure_future(hosting.follow(RemoveTopicRecord(topic_id=TOPIC_ID)))
        while not rounds.events:
            await asyncio.sleep(0)
        assert hosting.replicas.by_name("t") is hosting.replicas.by_id(TOPIC_ID) is None
        await deletion
        assert rounds.stop() <= PARTITIONS_AT_ONCE
        assert rounds.events.total() == PARTITIONS == len(hosting.replicas.take_retired())
        assert all(partition.is_removed for partition in topic.partitions.values())

    asyncio.run(main())


def test_a_directory_that_fails_while_a_topic_is_deleted_keeps_none_of_its_logs(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path)
        (directory,) = hosting.directories
        await hosting.create()
        rounds = hosting.watch()
        deletion = asyncio.ensure_future(hosting.follow(RemoveTopicRecord(topic_id=TOPIC_ID)))
        while not rounds.events:
            await asyncio.sleep(0)
        directory.fail(OSError(errno.EIO, "Input/output error"))
        hosting.replicas.lose(directory)
        await deletion
        assert directory.count == 0
        assert rounds.stop() == rounds.events.total() == PARTITIONS_AT_ONCE

    asyncio.run(main())


def test_logs_that_could_not_be_made_are_not_all_tried_again_while_there_is_no_room(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path)
        (directory,) = hosting.directories
        directory.is_full = True
        await hosting.create()
        assert hosting.attempts() == [PARTITIONS]
        for _ in range(3):
            await hosting.replicas.make_missing()
            assert hosting.attempts() == [1]

    asyncio.run(main())


def test_logs_that_could_not_be_made_are_made_a_few_in_a_turn(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path)
        (directory,) = hosting.directories
        directory.is_full = True
        await hosting.create()
        directory.is_full = False
        calls: list[int] = []
        hosting.replicas.on_made = lambda: calls.append(len(hosting.made()[0]))
        rounds = hosting.watch()
        await hosting.replicas.make_missing()
        assert rounds.stop() <= PARTITIONS_AT_ONCE
        assert hosting.made() == [list(range(PARTITIONS))]
        assert calls == [PARTITIONS]
        await hosting.replicas.make_missing()
        assert calls == [PARTITIONS]

    asyncio.run(main())


def test_what_is_deleted_while_logs_are_made_is_not_made_any_more(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path)
        (directory,) = hosting.directories
        directory.is_full = True
        await hosting.create()
        directory.is_full = False
        rounds = hosting.watch()
        making = asyncio.ensure_future(hosting.replicas.make_missing())
        while not rounds.events:
            await asyncio.sleep(0)
        await hosting.follow(RemoveTopicRecord(topic_id=TOPIC_ID))
        await making
        rounds.stop()
        assert directory.count == 0

    asyncio.run(main())
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith("-delete")] == []


def test_a_directory_without_room_does_not_keep_logs_from_another(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path / "a", tmp_path / "b")
        first, second = hosting.directories
        first.is_full = second.is_full = True
        for index in range(PARTITIONS):
            hosting.replicas.prefer("t", index, first if index < PARTITIONS // 2 else second)
        await hosting.create()
        assert hosting.attempts() == [PARTITIONS // 2, PARTITIONS // 2]
        second.is_full = False
        await hosting.replicas.make_missing()
        assert hosting.attempts() == [1, PARTITIONS // 2]
        assert hosting.made() == [[], list(range(PARTITIONS // 2, PARTITIONS))]

    asyncio.run(main())


def test_a_log_that_could_not_be_made_where_the_operator_wanted_it_is_made_there_later(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path / "a", tmp_path / "b")
        _, second = hosting.directories
        second.is_full = True
        hosting.replicas.prefer("t", 0, second)
        await hosting.create(1)
        await hosting.replicas.make_missing()
        second.is_full = False
        await hosting.replicas.make_missing()
        assert hosting.made() == [[], [0]]

    asyncio.run(main())


def test_a_log_is_made_where_it_was_begun(tmp_path: Path) -> None:
    """What the first attempt left would stand beside it in another directory, and the next start would refuse both."""

    async def main() -> None:
        hosting = Hosting(tmp_path / "a", tmp_path / "b")
        first, _ = hosting.directories
        first.is_full = True
        await hosting.create(1)
        # Now another directory has fewer.
        first.is_full = False
        first.open("other", 0, 0)
        await hosting.replicas.make_missing()
        assert hosting.made() == [[0], []]

    asyncio.run(main())


def test_a_log_is_not_made_any_more_when_its_partition_was_given_to_another_broker(tmp_path: Path) -> None:
    async def main() -> None:
        hosting = Hosting(tmp_path)
        (directory,) = hosting.directories
        directory.is_full = True
        await hosting.create(1)
        moved = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[OTHER], isr=[OTHER], leader=OTHER)
        await hosting.follow(moved)
        directory.is_full = False
        hosting.attempts()
        await hosting.replicas.make_missing()
        assert hosting.attempts() == [0]
        assert hosting.made() == [[]]

    asyncio.run(main())
