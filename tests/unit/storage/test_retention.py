"""Retention by time, by size and by the log's start (scenario 5)."""

import asyncio
from pathlib import Path

import pytest

from levada.broker.broker_config import retention_ms
from levada.broker.flushing import Flushing
from levada.broker.replicas import Replicas
from levada.model.broker_keys import BROKER_KEYS
from levada.model.config import Config
from levada.model.metrics import Timer
from levada.node.settings import node_settings
from levada.node.upkeep import Intervals, Upkeep
from levada.records import BatchView, build_batch
from levada.storage.loading import LogState, open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import LogDirectory
from levada.storage.producers import Origin
from levada.world.real_async_disk import RealAsyncDisk
from levada.world.real_disk import RealDisk
from levada.world.world import World
from tests.logs import apply_retention

T0 = 1_700_000_000_000
HOUR_MS = 3_600_000


def filled_log(directory: Path, count: int = 10, **settings: int) -> tuple[Log, int]:
    """A log with one batch in each segment, an hour between them; and the size of a batch."""
    batch_size = BatchView(build_batch([(T0, None, b"v" * 100, ())])).size
    config = LogConfig(segment_bytes=batch_size, index_interval_bytes=0, **settings)  # type: ignore[arg-type]
    log, _ = open_log(RealDisk(), str(directory), config, now_ms=T0)
    for number in range(count):
        batch = BatchView(build_batch([(T0 + number * HOUR_MS, None, b"v" * 100, ())]))
        log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
    log.set_high_watermark(log.end_offset)
    return log, batch_size


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * 60_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_scenario_5_milliseconds_win_over_minutes_and_minutes_over_hours(given: dict[str, str], expected: int) -> None:
    assert retention_ms(Config(BROKER_KEYS, given)) == expected


def test_scenario_5_the_defaults_are_168_hours_a_check_every_5_minutes_and_a_delay_of_1_minute() -> None:
    config = node_settings({"log.dirs": "/d", "node.id": "1", "listeners": "h:1"}).config
    assert retention_ms(config) == 168 * HOUR_MS
    assert config["log.retention.check.interval.ms"] == 300_000
    assert config["log.segment.delete.delay.ms"] == 60_000


def test_scenario_5_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log, _ = filled_log(tmp_path / "log", retention_ms=5 * HOUR_MS)
    assert apply_retention(log, T0 + 5 * HOUR_MS) == 0
    assert apply_retention(log, T0 + 5 * HOUR_MS + 1) == 1
    assert log.start_offset == 1
    assert apply_retention(log, T0 + 9 * HOUR_MS) == 3
    assert log.start_offset == 4
    assert [segment.base_offset for segment in log.segments] == [4, 5, 6, 7, 8, 9]
    log.close()


def test_scenario_5_when_all_segments_expire_a_new_active_one_is_there_first(tmp_path: Path) -> None:
    log, _ = filled_log(tmp_path / "log", retention_ms=HOUR_MS)
    assert apply_retention(log, T0 + 1_000 * HOUR_MS) == 10
    assert [segment.base_offset for segment in log.segments] == [10]
    assert (log.start_offset, log.end_offset) == (10, 10)
    assert apply_retention(log, T0 + 2_000 * HOUR_MS) == 0, "an empty last segment stays"
    batch = BatchView(build_batch([(T0, None, b"v", ())]))
    assert log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0).base_offset == 10
    log.close()


def test_scenario_5_size_removes_the_oldest_while_the_excess_is_at_least_that_segment(tmp_path: Path) -> None:
    _, size = filled_log(tmp_path / "probe")
    log, _ = filled_log(tmp_path / "log", retention_bytes=7 * size + 1, retention_ms=-1)
    assert apply_retention(log, T0) == 2, "an excess of almost three segments takes two"
    assert log.size == 8 * size
    exact, _ = filled_log(tmp_path / "exact", retention_bytes=7 * size, retention_ms=-1)
    assert apply_retention(exact, T0) == 3
    assert apply_retention(exact, T0) == 0
    log.close()
    exact.close()


def test_scenario_5_a_segment_goes_when_its_successor_begins_at_or_below_the_start(tmp_path: Path) -> None:
    log, _ = filled_log(tmp_path / "log", retention_ms=-1)
    log.raise_start(3)
    assert apply_retention(log, T0) == 3
    assert log.segments[0].base_offset == 3
    log.raise_start(10)
    assert apply_retention(log, T0) == 6, "the active segment has no successor"
    log.close()


def test_records_above_the_high_watermark_are_never_deleted(tmp_path: Path) -> None:
    log, _ = filled_log(tmp_path / "log", retention_ms=HOUR_MS)
    log.high_watermark = 4
    assert apply_retention(log, T0 + 1_000 * HOUR_MS) == 4
    assert log.start_offset == 4
    log.close()


def test_without_the_delete_policy_only_the_start_counts(tmp_path: Path) -> None:
    log, _ = filled_log(tmp_path / "log", retention_ms=HOUR_MS, deletes_old_segments=False)
    assert apply_retention(log, T0 + 1_000 * HOUR_MS) == 0
    log.raise_start(2)
    assert apply_retention(log, T0 + 1_000 * HOUR_MS) == 2
    log.close()


def test_the_start_survives_a_restart(tmp_path: Path) -> None:
    log, size = filled_log(tmp_path / "log", retention_ms=5 * HOUR_MS)
    apply_retention(log, T0 + 9 * HOUR_MS)
    log.close()
    config = LogConfig(segment_bytes=size, index_interval_bytes=0)
    again, cuts = open_log(RealDisk(), str(tmp_path / "log"), config, now_ms=T0, state=LogState(was_clean=True))
    assert cuts == []
    assert (again.start_offset, again.end_offset) == (4, 10)
    assert list((tmp_path / "log").glob("*.deleted")) == [], "a start removes what was retired"
    again.close()


class _Clock:
    def __init__(self) -> None:
        self.ms = T0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def perf_ns(self) -> int:
        return self.ms * 1_000_000


def _upkeep(clock: _Clock, logs: LogDirectory, intervals: Intervals) -> Upkeep:
    world = World(clock=clock, entropy=None, disk=RealDisk(), async_disk=RealAsyncDisk(), net=None, workers=None)  # type: ignore[arg-type]
    directories = LogDirectories([logs])
    flushing = Flushing(world.async_disk, clock, Timer(clock.ms))
    replicas = Replicas(
        world.disk,
        directories,
        clock,
        world.entropy,
        node_id=1,
        config_of=lambda _: LogConfig(),
        begin_flush=flushing.begin,
    )
    return Upkeep(world, directories, replicas, flushing, intervals, lambda _: None)


def test_scenario_5_retired_files_are_removed_after_their_delay(tmp_path: Path) -> None:
    clock, disk = _Clock(), RealDisk()
    logs = LogDirectory(disk, str(tmp_path), LogConfig(segment_bytes=100, retention_ms=HOUR_MS), lambda _: 0)
    log, _ = logs.open("t", 0, T0, LogState())
    for number in range(3):
        batch = BatchView(build_batch([(T0 + number, None, b"v", ())]))
        log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
    log.set_high_watermark(3)
    upkeep = _upkeep(clock, logs, Intervals(checkpoint_ms=10**12, retention_check_ms=300_000))

    def retired_files() -> int:
        return len(list((tmp_path / "t-0").glob("*.deleted")))

    async def main() -> None:
        clock.ms += 2 * HOUR_MS
        upkeep.tick()
        assert log.start_offset == 3
        assert retired_files() == 9
        clock.ms += 59_999
        upkeep.tick()
        await asyncio.sleep(0.02)
        assert retired_files() == 9
        clock.ms += 1
        upkeep.tick()
        while retired_files():
            await asyncio.sleep(0.001)
        await upkeep.stop()

    asyncio.run(asyncio.wait_for(main(), 20))
    logs.close(0)


def test_silent_producers_are_forgotten_when_their_time_is_up(tmp_path: Path) -> None:
    clock, disk = _Clock(), RealDisk()
    logs = LogDirectory(disk, str(tmp_path), LogConfig(producer_id_expiration_ms=HOUR_MS), lambda _: 0)
    log, _ = logs.open("t", 0, T0, LogState())
    batch = BatchView(build_batch([(T0, None, b"v", ())], producer_id=7, producer_epoch=0, base_sequence=0))
    log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
    intervals = Intervals(checkpoint_ms=10**12, retention_check_ms=10**12, producer_check_ms=1_000)
    upkeep = _upkeep(clock, logs, intervals)
    clock.ms += HOUR_MS - 1
    upkeep.tick()
    assert log.producers.get(7) is not None
    clock.ms += 1_001
    upkeep.tick()
    assert log.producers.get(7) is None
    logs.close(0)


def test_a_broker_that_has_just_started_does_not_wait_for_the_whole_interval(tmp_path: Path) -> None:
    clock, disk = _Clock(), RealDisk()
    logs = LogDirectory(disk, str(tmp_path), LogConfig(segment_bytes=100, retention_ms=HOUR_MS), lambda _: 0)
    log, _ = logs.open("t", 0, T0, LogState())
    batch = BatchView(build_batch([(T0, None, b"v", ())]))
    log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
    log.set_high_watermark(1)
    clock.ms += 2 * HOUR_MS
    upkeep = _upkeep(clock, logs, Intervals(checkpoint_ms=10**12, retention_check_ms=300_000))

    async def main() -> None:
        clock.ms += 29_999
        upkeep.tick()
        assert log.start_offset == 0
        clock.ms += 1
        upkeep.tick()
        assert log.start_offset == 1
        await upkeep.stop()

    asyncio.run(main())
    logs.close(0)
