"""Reads of what is already in memory give what reads of the file give, or nothing."""

import random
from pathlib import Path

import pytest

from levada.model.buffers import Buffer
from levada.model.errors import OffsetOutOfRange
from levada.records import extents
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.open_files import READ_WINDOWS, OpenFiles
from levada.storage.read_window import cut_from
from levada.storage.segment import LONG_READ_BYTES
from levada.world.real_disk import RealDisk, RealFile
from tests.logs import T0, CountingDisk, append, opened

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=300, max_index_bytes=100_000)


def filled(directory: Path, chance: random.Random) -> Log:
    log = opened(directory / "t-0", CONFIG)
    for _ in range(300):
        append(log, *[bytes(chance.randrange(120)) for _ in range(chance.randint(1, 3))])
    return log


def read_both_ways(log: Log, offset: int, max_bytes: int, upper_offset: int) -> bool:
    """Whether the bytes were in memory; they are what the file has."""
    warm = log.read_warm(offset, max_bytes, upper_offset=upper_offset)
    try:
        found = log.read(offset, max_bytes, at_least_one_batch=True, upper_offset=upper_offset)
    except OffsetOutOfRange:
        found = None
    if warm is None:
        return False
    assert found is not None
    assert bytes(warm) == found.file.read(found.position, found.size)
    return True


@pytest.mark.parametrize("seed", range(5))
def test_what_is_in_memory_is_what_the_file_has(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log = filled(tmp_path, chance)
    served = offset = 0
    for _ in range(2_000):
        action = chance.randrange(40)
        if action == 0:
            append(log, bytes(chance.randrange(200)))
        elif action == 1:
            log.truncate(log.end_offset - chance.randrange(3), T0)
        elif action < 8 or offset >= log.end_offset:
            offset = chance.randrange(-2, log.end_offset + 2)
        else:
            offset += 1
        upper_offset = log.end_offset - (chance.random() < 0.1)
        served += read_both_ways(log, offset, chance.choice([0, 60, 200, 300, 1_000, 1 << 20]), upper_offset)
    assert served > 500
    log.close()


@pytest.mark.parametrize("seed", range(3))
def test_what_was_read_stays_what_it_was_for_who_keeps_it(seed: int, tmp_path: Path) -> None:
    """The memory of a window is used again, but not under the eyes of a reader."""
    chance = random.Random(seed)
    log = filled(tmp_path, chance)
    kept: list[tuple[Buffer, bytes]] = []
    offset = 0
    for _ in range(3_000):
        offset = offset + 1 if offset < log.end_offset - 1 else 0
        data = log.read_warm(offset, chance.choice([300, 1_000]), upper_offset=log.end_offset)
        if data is not None:
            kept.append((data, bytes(data)))
        if len(kept) > 8:
            kept.pop(chance.randrange(len(kept)))
        assert all(view == copy for view, copy in kept)
    assert kept
    log.close()


def test_reads_that_follow_one_another_take_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path, random.Random(1))
    assert log.read(0, 1, at_least_one_batch=True, upper_offset=1) is not None
    calls, read_warm = 0, RealFile.read_warm

    def counted(self: RealFile, position: int, size: int, into: bytearray) -> object:
        nonlocal calls
        calls += 1
        return read_warm(self, position, size, into)

    monkeypatch.setattr(RealFile, "read_warm", counted)
    offset, end = 0, log.segments[0].next_offset
    while offset < end - 10:
        data = log.read_warm(offset, 600, upper_offset=log.end_offset)
        assert data is not None
        offset = extents(data)[2][-1] + 1
    assert calls <= 5
    log.close()


def test_records_that_were_cut_off_are_not_read_from_memory(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for value in (b"one", b"two"):
        append(log, value)
    assert log.read_warm(1, 1_000, upper_offset=2) is not None
    log.truncate(1, T0)
    assert log.read_warm(1, 1_000, upper_offset=2) is None
    append(log, b"other")
    assert b"other" in bytes(log.read_warm(1, 1_000, upper_offset=2) or b"")
    log.close()


def test_an_entry_that_is_wrong_is_left_to_who_can_deal_with_it(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for number in range(10):
        append(log, b"%d" % number)
    log.active.offset_index.append(8, log.active.size // 10 * 3)
    assert log.read_warm(8, 100, upper_offset=10) is None
    assert log.read(8, 100, at_least_one_batch=True, upper_offset=10) is not None
    log.close()


def test_a_log_that_is_offline_has_nothing_in_memory(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(), disk=CountingDisk())
    append(log, b"value")
    assert log.read_warm(0, 100, upper_offset=1) is not None
    log.fail_flush(OSError("gone"))
    assert log.read_warm(0, 100, upper_offset=1) is None


def test_only_so_many_windows_are_kept_and_they_do_not_take_the_place_of_indexes(tmp_path: Path) -> None:
    files = OpenFiles(RealDisk())
    forgotten: list[int] = []
    files.indexes.note("index", lambda: forgotten.append(-1))
    for number in range(READ_WINDOWS + 2):
        files.windows.note(f"log-{number}", lambda number=number: forgotten.append(number))  # type: ignore[misc]
    assert forgotten == [0, 1]
    files.close("log-2")
    files.windows.note("another", lambda: None)
    assert forgotten == [0, 1]


LARGE = LogConfig(segment_bytes=50_000_000, index_interval_bytes=4_096, max_index_bytes=100_000)


def with_large_batches(directory: Path, chance: random.Random) -> Log:
    log = opened(directory / "t-0", LARGE)
    for _ in range(40):
        size = chance.choice([10, 3_000, 200_000, 500_000, 1_000_000])
        append(log, *[chance.randbytes(size) for _ in range(chance.randint(1, 2) if size < 500_000 else 1)])
    return log


@pytest.mark.parametrize("seed", range(4))
def test_long_reads_give_what_the_file_has(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log = with_large_batches(tmp_path, chance)
    sizes = (300_000, 700_000, 1 << 20, LONG_READ_BYTES, 50 << 20)
    served = [
        read_both_ways(log, offset, max_bytes, log.end_offset)
        for offset in range(log.end_offset)
        for max_bytes in sizes
    ]
    assert sum(served) > len(served) // 4
    assert not read_both_ways(log, log.end_offset, 1 << 20, log.end_offset)
    log.close()


def test_a_batch_that_is_longer_than_the_read_is_left_to_who_can_deal_with_it(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LARGE)
    for _ in range(3):
        append(log, bytes(900_000))
    assert log.read_warm(1, 800_000, upper_offset=3) is None
    assert len(log.read_warm(1, 1_000_000, upper_offset=3) or b"") == 1_000_000
    log.close()


def test_each_of_many_long_batches_is_read_at_once(tmp_path: Path) -> None:
    """Whether an offset is the first or the last of its batch, the index has it."""
    log = opened(tmp_path / "t-0", LARGE)
    for number in range(6):
        append(log, *[bytes((number,)) * 90_000] * 10)
    for offset in range(10, 60):
        data = log.read_warm(offset, 1 << 20, upper_offset=60)
        assert data is not None
        assert extents(data)[0] == offset // 10 * 10
    log.close()


def test_long_reads_use_memory_again_but_not_under_the_eyes_of_a_reader(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LARGE)
    for number in range(9):
        append(log, bytes((number,)) * 1_000_000)
    kept = [log.read_warm(offset, 1_000_100, upper_offset=9) for offset in range(1, 9)]
    assert [bytes(data or b"")[100_000] for data in kept] == list(range(1, 9))
    before = kept.pop()
    assert isinstance(before, memoryview)
    memory = before.obj
    del before
    again = log.read_warm(5, 1_000_100, upper_offset=9)
    assert isinstance(again, memoryview)
    assert again.obj is memory
    log.close()


def test_a_wrong_entry_is_no_beginning_of_a_long_read(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for number in range(10):
        append(log, b"%d" % number)
    log.active.offset_index.append(8, log.active.size // 10 * 3)
    assert log.read_warm(8, 1 << 20, upper_offset=10) is None
    log.active.offset_index.append(9, log.active.size // 10 * 9 + 5)
    assert log.read_warm(9, 1 << 20, upper_offset=10) is None
    log.close()


def test_damage_ends_a_long_read(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for number in range(3):
        append(log, b"%d" % number)
    data = bytearray(log.active.file.read(0, log.active.size))
    assert len(cut_from(memoryview(data), 2, 1 << 20, None) or b"") == len(data) // 3
    data[len(data) // 3 + 16] = 1
    assert cut_from(memoryview(data), 2, 1 << 20, None) is None
    assert cut_from(memoryview(data), 0, 1 << 20, None) is not None
    assert cut_from(memoryview(data)[: len(data) // 3 - 1], 0, 1 << 20, None) is None
    data[8:12] = (1 << 31).to_bytes(4, "big")
    assert cut_from(memoryview(data), 2, 1 << 20, None) is None
    log.close()
