"""Retention where its rules have edges: timestamps that are missing or ahead, policies, limits, disks that fail."""

import logging
import os
from pathlib import Path

import pytest

from levada.broker.broker_config import BrokerConfig, log_config
from levada.model.broker_keys import NODE_KEYS
from levada.model.config import Config
from levada.model.errors import KafkaStorageError
from levada.storage.loading import LogState
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.log_directory import LogDirectory
from levada.storage.retention import expire, retire
from levada.world.real_disk import RealDisk
from tests.logs import T0, append, apply_retention, batch, clean, killed, opened, values_of

HOUR_MS = 3_600_000
NO_TIMESTAMP = -1
BATCH_BYTES = batch(b"v" * 100).size


def settings(**given: int | bool) -> LogConfig:
    """One batch fills a segment."""
    return LogConfig(segment_bytes=BATCH_BYTES, index_interval_bytes=0, **{"retention_ms": -1, **given})  # type: ignore[arg-type]


def fill(log: Log, *timestamps: int) -> None:
    for at_ms in timestamps:
        append(log, b"v" * 100, at_ms=at_ms)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_segment_without_timestamps_is_as_old_as_its_file(tmp_path: Path) -> None:
    log = opened(tmp_path / "log", settings(retention_ms=HOUR_MS))
    fill(log, NO_TIMESTAMP, NO_TIMESTAMP, NO_TIMESTAMP)
    for segment, modified_ms in zip(log.segments, (T0, T0 + HOUR_MS, T0 + 2 * HOUR_MS)):
        os.utime(segment.path(".log"), ns=(0, modified_ms * 1_000_000))
    assert apply_retention(log, T0 + HOUR_MS) == 0
    assert apply_retention(log, T0 + HOUR_MS + 1) == 1
    assert apply_retention(log, T0 + 2 * HOUR_MS + 1) == 1
    assert bases(log) == [2]
    log.close()


def test_one_timestamp_in_a_segment_counts_however_old_its_file_is(tmp_path: Path) -> None:
    log = opened(tmp_path / "log", LogConfig(segment_bytes=2 * BATCH_BYTES, retention_ms=HOUR_MS))
    fill(log, T0, NO_TIMESTAMP, T0 + HOUR_MS)
    os.utime(log.segments[0].path(".log"), ns=(0, 0))
    assert apply_retention(log, T0 + HOUR_MS) == 0
    os.utime(log.segments[0].path(".log"), ns=(0, (T0 + 9 * HOUR_MS) * 1_000_000))
    assert apply_retention(log, T0 + HOUR_MS + 1) == 1
    log.close()


def test_a_timestamp_ahead_of_the_clock_keeps_its_segment_and_all_behind_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(tmp_path / "log", settings(retention_ms=HOUR_MS))
    ahead = T0 + 1_000 * HOUR_MS
    fill(log, T0, ahead, T0, T0)
    assert apply_retention(log, T0 + 2 * HOUR_MS) == 1
    assert bases(log) == [1, 2, 3]
    [warning] = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert f"{1:020d}.log largest_timestamp_ms={ahead}" in warning
    assert apply_retention(log, ahead + HOUR_MS + 1) == 3, "when its time has come all of them go"
    log.close()


@pytest.mark.parametrize("limit", [-1, -2, -(2**62)])
def test_a_size_below_zero_is_no_limit(tmp_path: Path, limit: int) -> None:
    log = opened(tmp_path / "log", settings(retention_bytes=limit))
    fill(log, T0, T0, T0)
    assert apply_retention(log, T0 + 1_000 * HOUR_MS) == 0
    log.close()


def test_a_size_of_zero_leaves_an_empty_segment_that_goes_on_where_the_log_was(tmp_path: Path) -> None:
    log = opened(tmp_path / "log", settings(retention_bytes=0))
    fill(log, T0, T0, T0)
    assert apply_retention(log, T0) == 3
    assert (log.start_offset, log.end_offset, bases(log), log.size) == (3, 3, [3], 0)
    assert append(log, b"next").base_offset == 3
    log.close()


@pytest.mark.parametrize("given", [{"retention_bytes": 0}, {"retention_ms": HOUR_MS}])
def test_no_rule_takes_what_readers_may_not_have_seen(tmp_path: Path, given: dict[str, int]) -> None:
    log = opened(tmp_path / "log", settings(**given))
    fill(log, T0, T0, T0, T0)
    log.high_watermark = 2
    assert apply_retention(log, T0 + 1_000 * HOUR_MS) == 2
    assert (log.start_offset, bases(log)) == (2, [2, 3])
    log.close()


POLICIES = {"": False, "delete": True, "compact": False, "compact,delete": True}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("limit", [{"retention.ms": "3600000"}, {"retention.bytes": "0"}])
def test_age_and_size_count_with_the_delete_policy_and_the_start_counts_always(
    tmp_path: Path, policy: str, limit: dict[str, str]
) -> None:
    own = {"internal.segment.bytes": str(BATCH_BYTES), "cleanup.policy": policy, "retention.ms": "-1", **limit}
    log = opened(tmp_path / "log", log_config(BrokerConfig(Config(NODE_KEYS, {})), own))
    fill(log, T0, T0, T0, T0)
    log.raise_start(2)
    assert apply_retention(log, T0) >= 2, "DeleteRecords frees space whatever the policy is"
    apply_retention(log, T0 + 2 * HOUR_MS)
    assert bases(log) == ([4] if POLICIES[policy] else [2, 3])
    log.close()


def test_the_log_says_what_went_and_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = opened(tmp_path / "log", settings(retention_bytes=3 * BATCH_BYTES, retention_ms=HOUR_MS))
    fill(log, T0, T0 + 1, T0 + HOUR_MS, T0 + HOUR_MS, T0 + 2 * HOUR_MS)
    modified_ms = [segment.file.modified_ms() for segment in log.segments]
    log.raise_start(1)
    apply_retention(log, T0 + 2 * HOUR_MS + 1)
    lines = [one.getMessage() for one in caplog.records if one.name == "levada.storage.retention"]
    why = (
        (T0, "log start offset 1 breached"),
        (T0 + 1, f"retention size {3 * BATCH_BYTES} bytes breached"),
        (T0 + HOUR_MS, f"retention time {HOUR_MS} ms breached"),
        (T0 + HOUR_MS, f"retention time {HOUR_MS} ms breached"),
    )
    assert lines == [
        f"retired segment log={log.directory} base_offset={base_offset} bytes={BATCH_BYTES} "
        f"largest_timestamp_ms={newest_ms} last_modified_ms={modified_ms[base_offset]} reason='{reason}'"
        for base_offset, (newest_ms, reason) in enumerate(why)
    ]
    assert bases(log) == [4]
    log.close()


class FailingDisk(RealDisk):
    """Refuses to rename, or to make files, whose path ends so."""

    def __init__(self) -> None:
        self.unrenamable = self.uncreatable = "nothing"

    def rename(self, old: str, new: str) -> None:
        if old.endswith(self.unrenamable):
            raise OSError(5, "Input/output error", old)
        super().rename(old, new)

    def open(self, path: str, *, create: bool = False, exclusive: bool = False):  # type: ignore[no-untyped-def]
        if create and path.endswith(self.uncreatable):
            raise OSError(28, "No space left on device", path)
        return super().open(path, create=create, exclusive=exclusive)


def test_a_segment_that_cannot_be_renamed_takes_its_log_offline_and_the_next_start_finds_no_hole(
    tmp_path: Path,
) -> None:
    disk = FailingDisk()
    log = opened(tmp_path / "log", settings(retention_ms=HOUR_MS), disk=disk)
    fill(log, T0, T0, T0, T0 + 9 * HOUR_MS)
    log.flush()
    state = killed(log)
    disk.unrenamable = f"{1:020d}.index"
    with pytest.raises(KafkaStorageError, match="cannot retire"):
        apply_retention(log, T0 + 5 * HOUR_MS)
    assert log.is_offline
    log.close()
    again = opened(tmp_path / "log", settings(retention_ms=HOUR_MS), state=state)
    assert bases(again) == [2, 3]
    assert values_of(again) == [b"v" * 100] * 2
    assert apply_retention(again, T0 + 5 * HOUR_MS) == 1
    again.close()


def test_when_there_is_no_space_for_a_new_segment_nothing_goes_and_the_next_check_tries_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = opened(tmp_path / "log", settings(retention_ms=HOUR_MS), disk=disk)
    fill(log, T0, T0)
    disk.uncreatable = f"{2:020d}.log"
    with pytest.raises(OSError, match="No space"):
        apply_retention(log, T0 + 5 * HOUR_MS)
    assert not log.is_offline
    assert values_of(log) == [b"v" * 100] * 2
    disk.uncreatable = "nothing"
    assert apply_retention(log, T0 + 5 * HOUR_MS) == 2
    log.close()


def test_a_start_between_retention_and_removal_forgets_the_files(tmp_path: Path) -> None:
    log = opened(tmp_path / "log", settings(retention_ms=HOUR_MS))
    fill(log, T0, T0, T0 + 9 * HOUR_MS)
    apply_retention(log, T0 + 5 * HOUR_MS)
    assert len(list((tmp_path / "log").glob("*.log.deleted"))) == 2
    log.close()
    again = opened(tmp_path / "log", settings(retention_ms=HOUR_MS), state=clean(log))
    assert (again.start_offset, values_of(again)) == (2, [b"v" * 100])
    assert list((tmp_path / "log").glob("*.deleted")) == []
    again.close()


def test_a_segment_that_a_power_cut_brings_back_without_the_next_one_goes_at_the_next_start(tmp_path: Path) -> None:
    config = settings(retention_ms=HOUR_MS)
    logs = LogDirectory(RealDisk(), str(tmp_path), config, lambda _: 0)
    log, _ = logs.open("t", 0, T0, LogState())
    fill(log, T0, T0, T0, T0 + 9 * HOUR_MS)
    log.set_high_watermark(log.end_offset)
    log.flush()
    due = expire(log, T0 + 5 * HOUR_MS)
    assert (log.start_offset, bases(log)) == (3, [0, 1, 2, 3])
    logs.write_checkpoints()
    assert retire(log, due) == 3
    # Also a checkpoint of later knows where the log begins, for nothing has been synced since the renames.
    logs.write_checkpoints()
    for path in (tmp_path / "t-0").glob(f"{0:020d}*.deleted"):
        path.rename(path.with_suffix(""))
    again = LogDirectory(RealDisk(), str(tmp_path), config, lambda _: 0)
    again.begin()
    found, _ = again.open("t", 0, T0)
    assert (found.start_offset, bases(found)) == (3, [3])
    assert values_of(found) == [b"v" * 100]
    # When it is on the device that they are gone, the log need not remember it.
    found.flush()
    again.write_checkpoints()
    assert (tmp_path / "log-start-offset-checkpoint").read_text().splitlines() == ["0", "0"]
    again.close(0)
