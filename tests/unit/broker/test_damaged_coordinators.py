"""A coordinator whose partition cannot be loaded fails alone, says so, and is tried again until it can be."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from levada.broker import coordinators, journal
from levada.broker.partition import Partition
from levada.coordination.decision import Record
from levada.groups import CommittedOffset, GroupCounts, GroupMachine, GroupSettings, commit_record
from levada.model.error_codes import ErrorCode
from levada.model.errors import NotCoordinator
from levada.model.hashes import coordinator_partition
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from levada.records import BatchView, iter_batches
from levada.world.real import RealEntropy
from tests.unit.broker.hosted_groups import ALONE, coordinator_of, lead, offsets_partition
from tests.unit.broker.test_group_coordinator import LoopClock, run

PARTITIONS = 2
COMMITS = 20
GROUPS = sorted(("f", "g"), key=lambda name: coordinator_partition(name, PARTITIONS))
"""One for each partition, in their order."""


class Groups:
    """A coordinator of two partitions, each with one group that has committed."""

    def __init__(self, directory: Path, new_machine: Callable[[], GroupMachine] | None = None) -> None:
        self.directory = directory
        self.partitions = [offsets_partition(directory / str(index), index) for index in range(PARTITIONS)]
        self.inner = coordinator_of(GroupSettings(), LoopClock(), new_machine=new_machine)

    def follow(self) -> None:
        self.inner.follow(PARTITIONS, dict(enumerate(self.partitions)))

    async def load(self) -> "Groups":
        self.follow()
        while self.inner.is_loading:
            await asyncio.sleep(0.001)
        return self

    async def commit(self, group: str, offset: int) -> ErrorCode:
        request = OffsetCommitRequest(group_id=group, member_id="", topics=[])
        records = [commit_record(group, "topic", 0, CommittedOffset(offset, 0, "", 0))]
        codes: list[ErrorCode] = await self.inner.submit(
            group, lambda machine, token, now_ms: machine.commit(token, request, 10, records, now_ms)
        )
        return codes[0]

    def committed(self) -> dict[str, int]:
        return {
            group: machine.offsets.of(group)["topic"][0].offset
            for machine in self.inner.machines()
            for group in GROUPS
            if machine.offsets.of(group)
        }


async def with_commits(directory: Path) -> None:
    groups = await Groups(directory).load()
    for offset in range(COMMITS):
        for group in GROUPS:
            assert await groups.commit(group, offset) == ErrorCode.NONE
    groups.inner.close()
    for partition in groups.partitions:
        partition.log.close()


def damage(partition: Partition, change: Callable[[bytearray, BatchView], None]) -> bytes:
    """Change a batch in the middle of the log; what the file was before."""
    path = Path(partition.log.directory) / f"{0:020d}.log"
    sound = path.read_bytes()
    data = bytearray(sound)
    change(data, list(iter_batches(sound))[COMMITS // 2])
    with path.open("r+b") as file:
        file.write(data)
    return sound


def mend(partition: Partition, sound: bytes) -> None:
    with (Path(partition.log.directory) / f"{0:020d}.log").open("r+b") as file:
        file.write(sound)


def in_a_value(data: bytearray, batch: BatchView) -> None:
    data[batch.start + batch.size - 2] ^= 1


def in_the_length(data: bytearray, batch: BatchView) -> None:
    data[batch.start + 8] ^= 0x40


def in_a_shorter_length(data: bytearray, batch: BatchView) -> None:
    data[batch.start + 11] ^= 1


def in_the_offset(data: bytearray, batch: BatchView) -> None:
    """Ahead of all that follows: its checksum does not cover it."""
    data[batch.start + 3] ^= 1


def in_the_offset_of_an_earlier_one(data: bytearray, batch: BatchView) -> None:
    data[batch.start + 7] ^= 2


def in_the_magic(data: bytearray, batch: BatchView) -> None:
    data[batch.start + 16] ^= 4


def test_a_shard_that_moves_while_its_last_records_are_read_does_not_come_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that compaction has emptied give no records at which that could be noticed."""

    async def main() -> None:
        await with_commits(tmp_path)
        groups = Groups(tmp_path)
        is_reading, may_end = asyncio.Event(), asyncio.Event()
        read = journal.read_journal

        async def with_empty_end(*given: Any) -> AsyncIterator[list[Record]]:
            async for records in read(*given):
                yield records
            is_reading.set()
            await may_end.wait()

        monkeypatch.setattr(coordinators, "read_journal", with_empty_end)
        groups.follow()
        await is_reading.wait()
        loading = groups.inner._shards[0]
        groups.partitions[0].is_leader = False
        groups.follow()
        may_end.set()
        while groups.inner.is_loading:
            await asyncio.sleep(0.001)
        assert not loading.is_loaded
        assert not groups.partitions[0]._watchers

    run(main())


DAMAGES = [
    in_a_value, in_the_length, in_a_shorter_length, in_the_offset, in_the_offset_of_an_earlier_one, in_the_magic
]  # fmt: skip


@pytest.mark.parametrize("change", DAMAGES)
def test_a_damaged_partition_fails_alone_and_comes_back_when_it_is_mended(
    tmp_path: Path, change: Callable[[bytearray, BatchView], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        await with_commits(tmp_path)
        groups = Groups(tmp_path)
        sound = damage(groups.partitions[0], change)
        await groups.load()
        assert groups.committed() == {GROUPS[1]: COMMITS - 1}
        assert await groups.commit(GROUPS[1], 100) == ErrorCode.NONE
        with pytest.raises(NotCoordinator):
            await groups.commit(GROUPS[0], 100)
        assert (groups.inner.failed_partitions, groups.inner.is_loading) == (1, False)
        mend(groups.partitions[0], sound)
        while groups.inner.failed_partitions:
            await asyncio.sleep(0.001)
        assert groups.committed() == {GROUPS[0]: COMMITS - 1, GROUPS[1]: 100}
        assert await groups.commit(GROUPS[0], 100) == ErrorCode.NONE
        groups.inner.close()

    run(main())
    [said] = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert said.startswith("cannot load coordinator partition=__consumer_offsets-0 reason=")


def test_a_failed_coordinator_says_its_reason_once_while_it_is_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinators, "MAX_RETRY_SECONDS", coordinators.FIRST_RETRY_SECONDS)
    attempts: list[GroupMachine] = []

    def new_machine() -> GroupMachine:
        attempts.append(GroupMachine(GroupSettings(), ALONE, RealEntropy().random_bytes, GroupCounts()))
        return attempts[-1]

    async def main() -> None:
        await with_commits(tmp_path)
        groups = Groups(tmp_path, new_machine)
        damage(groups.partitions[0], in_a_value)
        await groups.load()
        while len(attempts) < PARTITIONS + 5:
            await asyncio.sleep(0.001)
            with pytest.raises(NotCoordinator):
                await groups.commit(GROUPS[0], 100)
            assert (groups.inner.failed_partitions, groups.inner.is_loading) == (1, False)
        groups.inner.close()

    run(main())
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1


def test_a_failed_coordinator_is_given_up_with_its_partition_and_tried_at_once_by_the_next_leader_epoch(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        await with_commits(tmp_path)
        groups = Groups(tmp_path)
        sound = damage(groups.partitions[0], in_a_value)
        await groups.load()
        lead(groups.partitions[0], epoch=1, leader=2)
        groups.follow()
        assert groups.inner.failed_partitions == 0
        mend(groups.partitions[0], sound)
        lead(groups.partitions[0], epoch=2)
        await groups.load()
        assert groups.committed() == dict.fromkeys(GROUPS, COMMITS - 1)
        groups.inner.close()

    run(main())


class Faulty(GroupMachine):
    """Meets a record that its code cannot deal with."""

    is_mended = False

    def apply(self, record: Record) -> None:
        if not self.is_mended and getattr(record.key, "group", "") == GROUPS[0]:
            raise RuntimeError("a fault in replaying")
        super().apply(record)


def test_a_fault_in_replaying_is_seen_and_keeps_no_other_partition_from_loading(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        await with_commits(tmp_path)
        groups = Groups(tmp_path, lambda: Faulty(GroupSettings(), ALONE, RealEntropy().random_bytes, GroupCounts()))
        await groups.load()
        assert groups.committed() == {GROUPS[1]: COMMITS - 1}
        monkeypatch.setattr(Faulty, "is_mended", True)
        while groups.inner.failed_partitions:
            await asyncio.sleep(0.001)
        assert groups.committed() == dict.fromkeys(GROUPS, COMMITS - 1)
        groups.inner.close()

    run(main())
    [said] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert said.exc_info is not None, "without its traceback a developer cannot find the fault"
