"""How old a cleaned segment is, and what it takes to read a log that is cleaned."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.logs import T0, apply_retention
from tests.unit.storage.test_cleaning import CONFIG, Compacted

HOUR_MS = 3_600_000
NO_TIMESTAMP = -1


def test_a_cleaned_segment_without_timestamps_is_as_old_as_the_last_that_it_was_made_from(tmp_path: Path) -> None:
    log = Compacted(tmp_path, replace(CONFIG, deletes_old_segments=True, retention_ms=HOUR_MS))
    for value in ("1", "2", "3"):
        log.append(("a", value), at_ms=NO_TIMESTAMP)
        log.roll()
    for segment, modified_ms in zip(log.log.segments, (T0, T0 + HOUR_MS, T0 + 2 * HOUR_MS)):
        os.utime(segment.path(".log"), ns=(0, modified_ms * 1_000_000))
    log.clean()
    assert len(log.log.segments) == 2
    assert log.log.segments[0].largest_timestamp == T0 + 2 * HOUR_MS
    assert apply_retention(log.log, T0 + 3 * HOUR_MS) == 0
    assert apply_retention(log.log, T0 + 3 * HOUR_MS + 1) == 1
    assert log.records() == []


def test_timestamps_count_in_a_cleaned_segment_as_in_any(tmp_path: Path) -> None:
    log = Compacted(tmp_path, replace(CONFIG, deletes_old_segments=True, retention_ms=HOUR_MS))
    log.append(("a", "1"), at_ms=T0 + 5 * HOUR_MS)
    log.roll()
    log.append(("a", "2"), at_ms=T0)
    log.roll()
    log.clean()
    assert log.records() == [(1, "a", "2")]
    assert log.log.segments[0].largest_timestamp == T0, "the younger record is gone"
    assert apply_retention(log.log, T0 + HOUR_MS + 1) == 1


@pytest.mark.parametrize("read_bytes", [0, 5_000, 1 << 20])
def test_however_little_is_read_at_a_time_the_same_stays(tmp_path: Path, read_bytes: int) -> None:
    log = Compacted(tmp_path, replace(CONFIG, segment_bytes=100_000, max_index_bytes=1 << 20))
    for number in range(60):
        log.append((f"key-{number % 7}", f"{number}"))
        if number == 30:
            log.append(("large", "v" * 20_000))
    log.roll()
    reads: list[int] = []
    log.clean(read_bytes=read_bytes, pause=reads.append)
    assert {key: value for _, key, value in log.records()} == {
        "large": "v" * 20_000,
        **{f"key-{number % 7}": f"{number}" for number in range(53, 60)},
    }
    assert min(max(reads), 40_000) >= 20_000, "a batch that is larger is read whole"
    if read_bytes < 1 << 20:
        assert reads[0] == max(read_bytes, 4_096)
