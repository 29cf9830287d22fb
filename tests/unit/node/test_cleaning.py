"""What a node does with the settings of cleaning, and with logs that cannot be cleaned."""

import asyncio
import errno
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from levada.node.cleaning import LogCleaning
from levada.node.cleaning_task import ByteThrottle
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.records import BatchView, build_batch
from levada.storage.cleaning.cleaner import Order
from levada.storage.cleaning.task import decode_order
from levada.storage.log import Log
from levada.storage.log_directory import LogDirectory
from levada.storage.producers import Origin
from levada.world.real_disk import RealDisk
from levada.world.real_workers import RealWorkers
from levada.world.workers import Workers
from tests.logs import delete_old_segments
from tests.nodes import RunningNode, running_node

SETTINGS = {
    "log.cleanup.policy": "compact",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "10",
    "log.retention.check.interval.ms": "1000000",
}
TURNS = 20

T = TypeVar("T")


class WatchedWorkers:
    """Notes what the real ones are asked for."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.orders: list[Order] = []
        self.heads: list[bytes] = []

    async def run(self, task: str, argument: bytes) -> bytes:
        head, _, order = argument.partition(b"\n")
        self.heads.append(head)
        self.orders.append(decode_order(order))
        return await self._workers.run(task, argument)

    async def compute(self, call: Callable[[], T]) -> T:
        return await self._workers.compute(call)

    async def close(self) -> None:
        await self._workers.close()


@dataclass
class Cleaning:
    node: RunningNode
    workers: WatchedWorkers

    @property
    def driver(self) -> LogCleaning:
        return self.node.node.parts.cleaning

    def log(self, topic: str) -> Log:
        hosted = self.node.broker.replicas.by_name(topic)
        assert hosted is not None
        return hosted.partitions[0].log

    def fill(self, topic: str) -> Log:
        """One key again and again, in a segment that is closed."""
        log = self.log(topic)
        for turn in range(TURNS):
            batch = BatchView(build_batch([(1_700_000_000_000, b"key", b"%d" % turn, ())]))
            log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=1_700_000_000_000)
        log.set_high_watermark(log.end_offset)
        log.roll(log.end_offset, 1_700_000_000_000)
        return log

    def has_begun(self) -> bool:
        """Whether a worker is at it."""
        workers = self.node.world.workers
        assert isinstance(workers, RealWorkers)
        return bool(workers._busy)

    def reconfigure(self, **settings: str) -> None:
        own = {name.replace("_", "."): text for name, text in settings.items()}
        self.driver.reconfigure(self.node.broker.config.with_dynamic({}, own))


@asynccontextmanager
async def cleaning_node(directory: Path, **settings: str) -> AsyncIterator[Cleaning]:
    given = {**SETTINGS, **{name.replace("_", "."): text for name, text in settings.items()}}
    async with running_node(directory, given) as node:
        workers = WatchedWorkers(node.world.workers)
        node.node.parts.cleaning._world = replace(node.world, workers=workers)
        yield Cleaning(node, workers)


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.005)


def is_clean(log: Log) -> bool:
    return sum(one.header.record_count for one in log.segments[0].headers()) == 1


def cleaned_files(cleaning: Cleaning, log: Log) -> list[str]:
    return [name for name in cleaning.node.world.disk.names(log.directory) if name.endswith(".cleaned")]


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def test_each_worker_has_its_share_of_what_is_for_all(tmp_path: Path) -> None:
    shared = {
        "log_cleaner_threads": "4",
        "log_cleaner_dedupe_buffer_size": "8000000",
        "log_cleaner_io_buffer_size": "40000",
        "log_cleaner_io_buffer_load_factor": "0.5",
        "log_cleaner_io_max_bytes_per_second": "1e9",
    }

    async def main() -> None:
        async with cleaning_node(tmp_path, **shared) as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            await until(lambda: is_clean(log))
            order = cleaning.workers.orders[0]
            assert (order.memory_bytes, order.read_bytes, order.load_factor) == (2_000_000, 10_000, 0.5)
            assert cleaning.workers.heads[0] == b'{"bytes_per_second": 250000000.0}'

    asyncio.run(main())


def test_a_pass_that_is_under_way_is_begun_again_with_settings_that_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "levada.node.cleaning")

    async def main() -> None:
        async with cleaning_node(tmp_path, log_cleaner_io_max_bytes_per_second="1") as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            await until(cleaning.has_begun)
            cleaning.reconfigure(log_cleaner_io_max_bytes_per_second="1", log_cleaner_backoff_ms="20")
            [work] = cleaning.driver._reading.values()
            assert not work.cancelling(), "what the pass goes by has not changed"
            cleaning.reconfigure(log_cleaner_io_max_bytes_per_second="1e9")
            await until(lambda: cleaning.driver._figures.passes == 1)
            assert is_clean(log)
            assert cleaned_files(cleaning, log) == []

    asyncio.run(main())
    assert caplog.text.count("begun again") == 1


def test_a_stop_in_the_middle_of_a_pass_is_no_change_of_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "levada.node.cleaning")

    async def main() -> None:
        async with cleaning_node(tmp_path, log_cleaner_io_max_bytes_per_second="1") as cleaning:
            await cleaning.node.create("t")
            cleaning.fill("t")
            await until(cleaning.has_begun)

    asyncio.run(main())
    assert "begun again" not in caplog.text


def test_at_a_rate_of_nothing_nothing_is_begun(tmp_path: Path) -> None:
    async def main() -> None:
        async with cleaning_node(tmp_path, log_cleaner_io_max_bytes_per_second="0") as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            cleaning.driver.begin_due()
            assert not cleaning.driver._under_way
            cleaning.reconfigure(log_cleaner_io_max_bytes_per_second="1e9")
            await until(lambda: is_clean(log))
            assert len(cleaning.workers.orders) == 1

    asyncio.run(main())


def test_a_topic_made_anew_is_not_uncleanable_because_the_one_before_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with cleaning_node(tmp_path, log_cleaner_io_max_bytes_per_second="0") as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            damage(Path(log.segments[0].path(".log")))
            cleaning.reconfigure(log_cleaner_io_max_bytes_per_second="1e9")
            await until(lambda: ("t", 0) in cleaning.driver._figures.uncleanable)
            topics = [DeleteTopicState(name="t", topic_id=NO_UUID)]
            await cleaning.node.call(DeleteTopicsRequest(topics=topics, timeout_ms=5_000))
            await cleaning.node.create("t")
            anew = cleaning.fill("t")
            await until(lambda: is_clean(anew))
            assert cleaning.driver._figures.uncleanable == {}

    asyncio.run(main())


def test_a_log_is_cleaned_again_once_the_segment_with_the_damage_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with cleaning_node(tmp_path, log_cleaner_io_max_bytes_per_second="0") as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            damage(Path(log.segments[0].path(".log")))
            cleaning.fill("t")
            cleaning.reconfigure(log_cleaner_io_max_bytes_per_second="1e9")
            await until(lambda: ("t", 0) in cleaning.driver._figures.uncleanable)
            log.raise_start(TURNS)
            assert delete_old_segments(log) == 1
            await until(lambda: is_clean(log))
            assert log.start_offset == TURNS
            assert cleaning.driver._figures.uncleanable == {}

    asyncio.run(main())


def test_a_pass_that_meets_damage_leaves_no_files(tmp_path: Path) -> None:
    async def main() -> None:
        async with cleaning_node(tmp_path) as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            await until(lambda: cleaning.driver._figures.passes == 1)
            # In the part that is clean: it is met when the first new segment is half written.
            damage(Path(log.segments[0].path(".log")))
            cleaning.fill("t")
            await until(lambda: ("t", 0) in cleaning.driver._figures.uncleanable)
            assert cleaned_files(cleaning, log) == []

    asyncio.run(main())


def test_what_a_pass_has_left_goes_before_the_next_begins(tmp_path: Path) -> None:
    async def main() -> None:
        async with cleaning_node(tmp_path, log_cleaner_io_max_bytes_per_second="0") as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            left = log.segments[0].path(".log") + ".0123456789abcdef.cleaned"
            cleaning.node.world.disk.open(left, create=True).close()
            cleaning.reconfigure(log_cleaner_io_max_bytes_per_second="1")
            await until(cleaning.has_begun)
            assert not cleaning.node.world.disk.exists(left)

    asyncio.run(main())


def test_a_pass_waits_in_the_middle_of_a_swap_until_files_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [OSError(errno.EMFILE, os.strerror(errno.EMFILE)) for _ in range(3)]
    sync_directory = RealDisk.sync_directory

    def refuse(self: RealDisk, path: str) -> None:
        if path.endswith("t-0") and list(Path(path).glob("*.swap")) and refusals:
            raise refusals.pop()
        sync_directory(self, path)

    monkeypatch.setattr(RealDisk, "sync_directory", refuse)

    async def main() -> None:
        async with cleaning_node(tmp_path) as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            await until(lambda: cleaning.driver._figures.passes == 1)
            assert not refusals
            assert is_clean(log)
            assert not log.is_offline

    asyncio.run(main())


def test_a_checkpoint_that_cannot_be_written_takes_no_log_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) for _ in range(3)]
    write_checkpoints = LogDirectory.write_checkpoints

    def refuse(self: LogDirectory) -> None:
        if refusals:
            raise refusals.pop()
        write_checkpoints(self)

    monkeypatch.setattr(LogDirectory, "write_checkpoints", refuse)

    async def main() -> None:
        async with cleaning_node(tmp_path) as cleaning:
            await cleaning.node.create("t")
            log = cleaning.fill("t")
            await until(lambda: is_clean(log))
            assert not refusals
            assert not log.is_offline

    asyncio.run(main())


def test_bytes_pass_no_faster_than_they_may_however_many_come_at_once() -> None:
    throttle = ByteThrottle(1_000_000.0)
    start = time.monotonic()
    throttle.pause(1_200_000)
    assert time.monotonic() - start >= 1.2
    ByteThrottle(1e308).pause(1 << 30)
    assert time.monotonic() - start < 10
