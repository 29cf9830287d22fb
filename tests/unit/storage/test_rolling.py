"""When a log begins a new segment: size, age by record time, full indexes, offsets too far from the base."""

from pathlib import Path

import pytest

from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.segment import MAX_RELATIVE_OFFSET
from tests.logs import SMALL, T0, append, batch, check_indexes, clean, killed, opened, values_of


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_batch_that_would_exceed_segment_bytes_begins_a_new_segment(tmp_path: Path) -> None:
    size = batch(b"x" * 40).size
    for extra, expected in ((0, [0]), (-1, [0, 9])):
        log = opened(tmp_path / f"t-{-extra}", LogConfig(segment_bytes=10 * size + extra))
        for _ in range(10):
            append(log, b"x" * 40)
        assert bases(log) == expected


def test_record_time_rolls_and_an_idle_log_does_not(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(segment_ms=1_000))
    append(log, b"a", at_ms=T0)
    append(log, b"b", at_ms=T0 + 1_000, now_ms=T0 + 10**9)
    assert bases(log) == [0]
    append(log, b"c", at_ms=T0 + 1_001, now_ms=T0)
    assert bases(log) == [0, 2]
    # Measured from the first batch of this segment, not of the log.
    append(log, b"d", at_ms=T0 + 2_001)
    assert bases(log) == [0, 2]


def test_without_timestamps_the_segments_own_age_counts(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(segment_ms=1_000))
    append(log, b"a", at_ms=-1, now_ms=T0)
    append(log, b"b", at_ms=-1, now_ms=T0 + 1_000)
    assert bases(log) == [0]
    append(log, b"c", at_ms=-1, now_ms=T0 + 1_001)
    assert bases(log) == [0, 2]


def test_an_empty_segment_is_not_rolled_for_its_age(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(segment_ms=1_000))
    append(log, b"a", at_ms=T0 + 10**9, now_ms=T0 + 10**9)
    assert bases(log) == [0]


def test_jitter_is_drawn_per_segment_and_comes_off_the_age(tmp_path: Path) -> None:
    drawn: list[int] = []

    def jitter(bound: int) -> int:
        drawn.append(bound)
        return 300 * len(drawn)

    log = opened(tmp_path / "t-0", LogConfig(segment_ms=1_000, segment_jitter_ms=5_000), jitter=jitter)
    append(log, b"a", at_ms=T0)
    append(log, b"b", at_ms=T0 + 700)
    append(log, b"c", at_ms=T0 + 701)
    append(log, b"d", at_ms=T0 + 701 + 400)
    append(log, b"e", at_ms=T0 + 701 + 401)
    assert bases(log) == [0, 2, 4]
    # At most the age itself: a segment never waits a negative time.
    assert drawn == [1_000, 1_000, 1_000]


def test_the_age_is_known_again_after_a_restart(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1_000)
    for stop in (clean, killed):
        log = opened(tmp_path / stop.__name__, config)
        append(log, b"a", at_ms=T0)
        log.close()
        again = opened(tmp_path / stop.__name__, config, state=stop(log))
        append(again, b"b", at_ms=T0 + 1_000)
        append(again, b"c", at_ms=T0 + 1_001)
        assert bases(again) == [0, 2]


@pytest.mark.parametrize(("max_index_bytes", "entries"), [(8 * 3, 1), (12 * 4, 3), (8 * 12, 7)])
def test_a_full_index_rolls(tmp_path: Path, max_index_bytes: int, entries: int) -> None:
    """Three offset entries take 24 bytes, which is two time entries, one of them kept for closing."""
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=1, max_index_bytes=max_index_bytes))
    for number in range(30):
        append(log, b"v", at_ms=T0 + number)
    assert bases(log)[:2] == [0, entries + 1]
    closed = log.segments[0]
    assert len(closed.offset_index) == entries
    # The batch without an offset entry is the first; the last has its closing time entry already.
    assert len(closed.time_index) == entries
    assert values_of(log) == [b"v"] * 30
    log.close()
    check_indexes(tmp_path / "t-0")


def test_an_offset_too_far_from_the_base_rolls(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    append(log, b"first")
    log.end_offset = MAX_RELATIVE_OFFSET - 1
    append(log, b"a", b"b")
    assert bases(log) == [0]
    assert log.end_offset == MAX_RELATIVE_OFFSET + 1
    append(log, b"c")
    assert bases(log) == [0, MAX_RELATIVE_OFFSET + 1]
    # A batch that begins within reach and ends outside rolls too.
    log.end_offset = 2 * MAX_RELATIVE_OFFSET + 1
    append(log, b"d", b"e")
    assert bases(log)[-1] == 2 * MAX_RELATIVE_OFFSET + 1


def test_a_roll_closes_the_indexes_and_snapshots_the_producers(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=1 << 20))
    append(log, b"a", at_ms=T0 + 5, producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, b"b", at_ms=T0)
    log.roll(log.end_offset, T0)
    files = {path.name: path.stat().st_size for path in (tmp_path / "t-0").iterdir()}
    assert files[f"{0:020d}.index"] == 0
    assert files[f"{0:020d}.timeindex"] == 12
    assert files[f"{2:020d}.index"] == 10 << 20
    assert files[f"{2:020d}.snapshot"] == 10 + 46
    log.close()
    check_indexes(tmp_path / "t-0")


def test_rolling_again_and_again_keeps_every_record_and_index(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", SMALL)
    expected = []
    for number in range(300):
        value = b"%d" % number * (number % 30)
        append(log, value, at_ms=T0 + number * 7 % 100)
        expected.append(value)
    assert len(log.segments) > 20
    assert values_of(log) == expected
    log.close()
    assert check_indexes(tmp_path / "t-0") > 100
