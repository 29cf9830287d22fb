"""The indexes of a segment: the worked examples of offset and time lookups, entries, and damage."""

from pathlib import Path

import pytest

from levada.storage.formats import OFFSET_ENTRY, TIME_ENTRY
from levada.storage.indexes import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.segment import Segment
from tests.logs import (
    SMALL,
    T0,
    CountingDisk,
    append,
    batch,
    check_indexes,
    clean,
    opened,
    read_all,
    run_search,
    values_of,
)

BIG = 1 << 20


def offset_index(base_offset: int, *entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(base_offset, BIG)
    for offset, position in entries:
        index.append(offset, position)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(0, BIG)
    for timestamp_ms, offset in entries:
        index.append_if_larger(timestamp_ms, offset)
    return index


def test_scenario_1_a_lookup_gives_the_greatest_entry_that_is_not_above() -> None:
    index = offset_index(0, (44576, 100), (57976, 200), (64352, 300))
    assert index.lookup(58892) == OffsetPosition(57976, 200)
    index = offset_index(0, (1000, 8000), (1025, 12050), (1050, 16100))
    assert index.lookup(1030) == OffsetPosition(1025, 12050)
    assert [index.lookup(offset).position for offset in (999, 1000, 1049, 1050, 9999)] == [0, 8000, 12050, 16100, 16100]


def test_scenario_1_an_offset_is_found_in_its_segment_relative_to_its_base(tmp_path: Path) -> None:
    index = offset_index(170410, (170418, 1325))
    assert OFFSET_ENTRY.unpack(index.data) == (8, 1325)
    assert index.lookup(170418) == OffsetPosition(170418, 1325)
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=1_000))
    for base in (170410, 239430):
        log.end_offset = base
        log.roll(base, T0)
        padding = 1325 - batch(*[b""] * 7, bytes(1000)).size
        append(log, *[b""] * 7, bytes(1000 + padding))
        append(log, b"x")
    assert [segment.base_offset for segment in log.segments] == [0, 170410, 239430]
    second = log.segments[1]
    assert OFFSET_ENTRY.unpack(second.offset_index.data) == (8, 1325)
    found = log.read(170418, 1, at_least_one_batch=True, upper_offset=log.end_offset)
    assert found is not None
    assert (found.file.path, found.position) == (second.path(".log"), 1325)


def test_scenario_1_a_read_scans_on_from_the_entry_before_its_offset(tmp_path: Path) -> None:
    disk = CountingDisk()
    config = LogConfig(index_interval_bytes=4096)
    log = opened(tmp_path / "t-0", config, disk=disk)
    for number in range(2_000):
        append(log, b"%04d" % number * 10)
    size = batch(b"0000" * 10).size
    entry = log.active.offset_index.lookup(1_030)
    assert 0 < entry.offset <= 1_030
    assert entry.position == entry.offset * size
    place = log.active.first_batch_to_contain(1_030)
    assert place is not None
    assert place.position == 1_030 * size
    disk.bytes_read.clear()
    log.active.first_batch_to_contain(1_999)
    assert disk.bytes_read[f"{0:020d}.log"] <= 4096 + 2 * size


def test_scenario_2_time_is_looked_up_by_segment_time_index_offset_index_and_scan(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = opened(tmp_path / "t-0", disk=disk)
    for number in range(100):
        append(log, b"%d" % number, at_ms=T0 + number * 10)
    assert len(log.segments) > 3
    segment = log.segments[2]
    target = T0 + (segment.base_offset + 5) * 10 - 1
    # By its largest timestamp, the segment before is out and this one is in.
    assert log.segments[1].largest_timestamp < target <= segment.largest_timestamp
    entry = segment.time_index.lookup(target)
    assert T0 < entry.timestamp_ms <= target
    assert segment.offset_index.lookup(entry.offset).position > 0
    disk.bytes_read.clear()
    found = run_search(log.search_since(target))
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (segment.base_offset + 5, target + 1)
    assert f"{0:020d}.log" not in disk.bytes_read


def test_scenario_2_the_largest_timestamp_is_the_last_entrys_or_the_files(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, b"a", at_ms=-1)
    assert log.active.largest_timestamp == log.active.file.modified_ms() > 0
    append(log, b"b", at_ms=T0 + 7)
    append(log, b"c", at_ms=T0)
    log.roll(log.end_offset, T0)
    closed = log.segments[0]
    assert closed.time_index.last == TimestampOffset(T0 + 7, 1)
    assert closed.largest_timestamp == T0 + 7
    log.close()
    assert opened(tmp_path / "t-0", state=clean(log)).segments[0].largest_timestamp == T0 + 7


def test_scenario_3_sizes_and_names_are_kafkas(tmp_path: Path) -> None:
    assert (LogConfig().index_interval_bytes, LogConfig().segment_bytes) == (4096, 1 << 30)
    assert (OFFSET_ENTRY.size, TIME_ENTRY.size) == (8, 12)
    log = opened(tmp_path / "topic-3", LogConfig())
    names = sorted(path.name for path in (tmp_path / "topic-3").iterdir())
    assert names == [f"{0:020d}.index", f"{0:020d}.log", f"{0:020d}.timeindex"]
    # The active segment's indexes have their full size, rounded to whole entries.
    assert (tmp_path / "topic-3" / names[0]).stat().st_size == 10 << 20
    assert (tmp_path / "topic-3" / names[2]).stat().st_size == (10 << 20) // 12 * 12
    log.close()
    assert (tmp_path / "topic-3" / names[0]).stat().st_size == 0


def test_scenario_3_an_entry_is_added_after_more_than_the_interval(tmp_path: Path) -> None:
    size = batch(bytes(964)).size
    assert size * 4 > 4096 > size * 3
    log = opened(tmp_path / "t-0", LogConfig())
    for number in range(10):
        append(log, bytes(964), at_ms=T0 + number)
    # The first batch never has one; four batches are more than 4096 bytes, so the fifth has, and the ninth.
    assert OffsetIndex(0, BIG, log.active.offset_index.data).data == (
        OFFSET_ENTRY.pack(4, 4 * size) + OFFSET_ENTRY.pack(8, 8 * size)
    )
    assert log.active.time_index.data == TIME_ENTRY.pack(T0 + 4, 4) + TIME_ENTRY.pack(T0 + 8, 8)


def test_scenario_4_a_time_entry_is_appended_only_with_a_larger_timestamp() -> None:
    index = time_index((100, 1), (100, 2), (99, 3), (101, 4))
    assert index.data == TIME_ENTRY.pack(100, 1) + TIME_ENTRY.pack(101, 4)
    assert index.lookup(100) == TimestampOffset(100, 1)
    assert index.lookup(99) == TimestampOffset(-1, 0)


def test_truncation_drops_entries_at_and_above_the_offset() -> None:
    index = offset_index(10, (12, 1), (14, 2), (16, 3))
    index.truncate(14)
    assert index.data == OFFSET_ENTRY.pack(2, 1)
    index.truncate(0)
    assert len(index) == 0
    times = time_index((5, 1), (6, 2), (7, 4))
    times.truncate(2)
    assert times.last == TimestampOffset(5, 1)


def test_an_index_is_full_at_its_size_and_the_time_index_one_entry_before() -> None:
    offsets, times = OffsetIndex(0, 24), TimeIndex(0, 36)
    for number in range(1, 4):
        assert not offsets.is_full
        assert times.is_full == (number > 2)
        offsets.append(number, number)
        times.append_if_larger(number, number)
    assert offsets.is_full


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param((3, 1 << 20), id="behind the end"),
        pytest.param((3, -9), id="before the beginning"),
        pytest.param((3, 30), id="within a batch"),
        pytest.param((1, 500), id="another batch"),
    ],
)
def test_an_entry_that_is_wrong_is_not_followed(tmp_path: Path, entry: tuple[int, int]) -> None:
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=1 << 20))
    for number in range(20):
        append(log, b"%02d" % number * 15)
    expected = list(read_all(log))
    log.active.offset_index.append(*entry)
    for offset in range(20):
        assert list(read_all(log, offset)) == expected[offset:]
        log.start_offset = offset
        found = run_search(log.search_since(T0))
        assert found is not None
        assert (found.timestamp_ms, found.offset) == (T0, offset)
        assert log.aborted_in_read(offset, 1) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["odd size", "negative offset", "last below first", "beyond the log"])
def test_an_index_that_cannot_be_true_is_rebuilt_also_after_a_clean_stop(
    tmp_path: Path, suffix: str, damage: str
) -> None:
    log = opened(tmp_path / "t-0", SMALL)
    for number in range(40):
        append(log, b"%d" % number * 20, at_ms=T0 + number)
    log.close()
    path = Path(log.segments[1].path(suffix))
    good = path.read_bytes()
    entry = OFFSET_ENTRY if suffix == ".index" else TIME_ENTRY
    wrong = {
        "odd size": good[:-1],
        "negative offset": good + (entry.pack(-1, 5) if suffix == ".index" else entry.pack(T0 * 2, -1)),
        "last below first": good + entry.pack(0, 0),
        "beyond the log": good + entry.pack(T0 % 1000 + 500, 1 << 30),
    }
    path.write_bytes(wrong[damage])
    if (suffix, damage) == (".timeindex", "beyond the log"):
        path.write_bytes(good + entry.pack(5, 1 << 30))
    again = opened(tmp_path / "t-0", SMALL, state=clean(log))
    assert path.read_bytes() == good
    assert values_of(again) == [b"%d" % number * 20 for number in range(40)]
    again.close()
    check_indexes(tmp_path / "t-0")


def test_the_last_segments_end_is_not_taken_from_a_wrong_entry(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=100))
    for number in range(20):
        append(log, b"%02d" % number * 15)
    log.close()
    path = Path(log.active.path(".index"))
    good = path.read_bytes()
    for wrong in (OFFSET_ENTRY.pack(19, 500), OFFSET_ENTRY.pack(18, 33)):
        path.write_bytes(good[:-8] + wrong)
        again = opened(tmp_path / "t-0", LogConfig(index_interval_bytes=100), state=clean(log))
        assert again.end_offset == 20
        again.close()
        assert path.read_bytes() == good


def test_a_segment_without_timestamps_has_no_time_entries(tmp_path: Path) -> None:
    disk = CountingDisk()
    segment = Segment(disk, OpenFiles(disk), str(tmp_path), 0, SMALL)
    disk.open(segment.path(".log"), create=True).close()
    segment.activate(T0, 0)
    for number in range(10):
        one = batch(bytes(50), at_ms=-1)
        segment.append([one.buffer], one.size, number, one.max_timestamp)
    segment.deactivate()
    assert len(segment.offset_index) == 9
    assert len(segment.time_index) == 0
