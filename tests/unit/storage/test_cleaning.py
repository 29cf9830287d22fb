"""Cleaning, beside what the golden logs show: transactions across segments, passes, damage, logs that change."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from levada.records import BatchView, CorruptBatch, build_batch
from levada.storage.cleaning.cleaner import READ_BYTES, Cleaned, Cleaner, Order, Pause, order_for
from levada.storage.cleaning.dirty import DirtyPart, dirty_part
from levada.storage.cleaning.swapping import Swap
from levada.storage.cleaning.task import Faulty, Hindered, clean, decode_cleaned, encode_order
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.producers import Origin
from levada.world.real_disk import RealDisk
from tests.cleaning import swap_in
from tests.logs import T0, CountingDisk, apply_retention, batches_from, end_transaction, opened

CONFIG = LogConfig(segment_bytes=10_000, index_interval_bytes=100, max_index_bytes=2_400, is_compacted=True)
ENDING = ".aa.cleaned"


class Compacted:
    """A log and what it takes to clean it."""

    def __init__(self, directory: Path, config: LogConfig = CONFIG) -> None:
        self.disk = RealDisk()
        self.files = OpenFiles(self.disk)
        self.log: Log = opened(directory / "t-0", config, disk=self.disk, files=self.files)
        self.clean_until: int | None = None

    def append(self, *pairs: tuple[str, str | None], producer_id: int = -1, sequence: int = 0, at_ms: int = T0) -> None:
        rows = [(at_ms, key.encode(), None if value is None else value.encode(), ()) for key, value in pairs]
        mine = {}
        if producer_id >= 0:
            mine = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        batch = BatchView(build_batch(rows, is_transactional=producer_id >= 0, **mine))  # type: ignore[arg-type]
        self.log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=at_ms)
        self.log.set_high_watermark(self.log.end_offset)

    def end(self, producer_id: int, *, commit: bool) -> None:
        end_transaction(self.log, producer_id, commit=commit)

    def roll(self) -> None:
        self.log.roll(self.log.end_offset, T0)

    def part(self, now_ms: int = T0) -> DirtyPart:
        return dirty_part(self.log, self.clean_until, now_ms)

    def order(self, now_ms: int = T0, memory_bytes: int = 24_000) -> Order:
        return order_for(
            self.log,
            self.part(now_ms),
            now_ms=now_ms,
            memory_bytes=memory_bytes,
            load_factor=0.9,
            hash_key=bytes(16),
            ending=ENDING,
        )

    def clean(
        self,
        now_ms: int = T0,
        memory_bytes: int = 24_000,
        read_bytes: int = READ_BYTES,
        pause: Pause = lambda _: None,
    ) -> Cleaned:
        order = replace(self.order(now_ms, memory_bytes), read_bytes=read_bytes)
        cleaned = Cleaner(self.disk, order, pause).clean()
        for swap in self.swaps(cleaned):
            assert swap_in(swap)
        self.clean_until = cleaned.end_offset
        return cleaned

    def swaps(self, cleaned: Cleaned) -> list[Swap]:
        return [Swap(self.disk, self.files, self.log, group, ENDING) for group in cleaned.groups]

    def records(self) -> list[tuple[int, str, str | None]]:
        found = []
        position = self.log.start_offset
        while position < self.log.end_offset and (batches := batches_from(self.log, position)):
            for batch in batches:
                if not batch.is_control:
                    found += [
                        (one.offset, (one.key or b"").decode(), None if one.value is None else one.value.decode())
                        for one in batch.records()
                        if one.offset >= position
                    ]
            position = batches[-1].next_offset
        return found

    def names(self) -> list[str]:
        return self.disk.names(self.log.directory)


def test_an_abort_whose_marker_is_in_the_active_segment_does_not_take_the_place_of_what_was_committed(
    tmp_path: Path,
) -> None:
    log = Compacted(tmp_path)
    log.append(("a", "committed"), ("b", "1"))
    log.append(("a", "aborted"), producer_id=7)
    log.append(("b", "2"))
    log.roll()
    log.end(7, commit=False)
    log.clean()
    assert log.records() == [(0, "a", "committed"), (3, "b", "2")]


def test_a_commit_whose_marker_is_in_the_active_segment_counts(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    log.append(("a", "1"), ("b", "1"))
    log.append(("a", "2"), producer_id=7)
    log.roll()
    log.end(7, commit=True)
    log.clean()
    assert log.records() == [(1, "b", "1"), (2, "a", "2")]


def test_nothing_of_an_open_transaction_is_touched(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    log.append(("a", "1"), ("a", "2"))
    log.roll()
    log.append(("a", "3"), producer_id=7)
    log.append(("a", "4"), ("a", "5"))
    log.roll()
    assert log.part().first_uncleanable == 2
    log.clean()
    assert [offset for offset, _, _ in log.records()] == [1, 2, 3, 4]
    log.end(7, commit=False)
    log.clean()
    assert log.records() == [(4, "a", "5")]


def test_a_log_with_more_keys_than_memory_takes_several_passes(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    for turn in range(3):
        for number in range(40):
            log.append((f"key-{number}", f"{turn}"))
    log.roll()
    passes = 0
    while log.part().first_dirty < log.part().first_uncleanable:
        assert log.clean(memory_bytes=24 * 12).keys <= 10
        passes += 1
    assert passes > 3
    assert log.records() == [(80 + number, f"key-{number}", "2") for number in range(40)]


def test_younger_records_wait_and_overdue_ones_do_not(tmp_path: Path) -> None:
    config = replace(CONFIG, min_compaction_lag_ms=1_000, max_compaction_lag_ms=5_000)
    log = Compacted(tmp_path, config)
    log.append(("a", "1"), at_ms=T0)
    log.roll()
    log.append(("a", "2"), at_ms=T0 + 2_000)
    log.roll()
    assert log.part(T0 + 500).dirty_bytes == 0
    assert log.part(T0 + 1_500).first_uncleanable == 1
    assert log.part(T0 + 4_000).first_uncleanable == 2
    assert log.part(T0 + 4_000).overdue_ms == 0
    assert log.part(T0 + 5_600).overdue_ms == 600


def test_a_checkpoint_that_cannot_be_is_passed_over(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    log.append(("a", "1"), ("a", "2"))
    log.roll()
    log.clean_until = 1_000
    assert log.part().first_dirty == 0


def test_a_segment_that_is_gone_meanwhile_is_not_brought_back(tmp_path: Path) -> None:
    log = Compacted(tmp_path, replace(CONFIG, deletes_old_segments=True, retention_ms=1_000))
    log.append(("a", "1"), ("b", "1"))
    log.roll()
    log.append(("a", "2"), at_ms=T0 + 5_000)
    log.roll()
    cleaned = Cleaner(log.disk, log.order()).clean()
    assert apply_retention(log.log, T0 + 5_500) == 1
    [swap] = log.swaps(cleaned)
    assert not swap_in(swap)
    assert log.records() == [(2, "a", "2")]
    assert [name for name in log.names() if name.endswith(".cleaned")] == []


def test_a_segment_that_goes_in_the_middle_of_a_swap_is_not_brought_back(tmp_path: Path) -> None:
    log = Compacted(tmp_path, replace(CONFIG, deletes_old_segments=True, retention_ms=1_000))
    for steps_before in range(3):
        log.append(("a", "1"), ("a", "2"))
        log.roll()
        [swap] = log.swaps(Cleaner(log.disk, log.order()).clean())
        steps = swap.steps()
        assert all(next(steps)() for _ in range(steps_before))
        assert apply_retention(log.log, T0 + 5_500) == 1
        assert not next(steps)()
        assert log.records() == []
        assert [name for name in log.names() if name.endswith((".cleaned", ".swap"))] == []


def test_a_new_segment_that_expires_before_it_is_settled_goes_with_all_its_files(tmp_path: Path) -> None:
    log = Compacted(tmp_path, replace(CONFIG, deletes_old_segments=True, retention_ms=1_000))
    for steps_before in (3, 4):
        first = log.log.end_offset
        log.append(("a", "1"), ("a", "2"))
        log.roll()
        [swap] = log.swaps(Cleaner(log.disk, log.order()).clean())
        steps = swap.steps()
        assert all(next(steps)() for _ in range(steps_before))
        assert log.records() == [(first + 1, "a", "2")]
        assert apply_retention(log.log, T0 + 5_500) == 1
        assert all(step() for step in steps)
        assert log.records() == []
        assert [name for name in log.names() if name.endswith((".cleaned", ".swap"))] == []


def test_damage_is_refused_and_left_where_it_is(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    log.append(("a", "1"), ("a", "2"))
    log.roll()
    path = Path(log.log.segments[0].path(".log"))
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptBatch):
        Cleaner(log.disk, log.order()).clean()
    with pytest.raises(Faulty, match="checksum"):
        decode_cleaned(clean(encode_order(log.order()), log.disk, lambda _: None))
    path.unlink()
    with pytest.raises(Hindered):
        decode_cleaned(clean(encode_order(log.order()), log.disk, lambda _: None))


def test_an_order_and_its_outcome_survive_the_way_to_a_worker(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    log.append(("a", "1"), producer_id=3)
    log.end(3, commit=True)
    log.append(("a", "2"), ("a", "3"))
    log.roll()
    sizes: list[int] = []
    cleaned = decode_cleaned(clean(encode_order(log.order()), log.disk, sizes.append))
    assert (cleaned.end_offset, cleaned.keys, cleaned.counts.records_kept) == (4, 1, 2)
    assert sum(sizes) > 0
    assert all(swap_in(swap) for swap in log.swaps(cleaned))
    assert log.records() == [(3, "a", "3")]


def test_a_cleaning_that_fails_leaves_no_file_open(tmp_path: Path) -> None:
    log = Compacted(tmp_path)
    for number in range(3):
        log.append(("a", str(number)))
        log.roll()
    disk = CountingDisk()
    seen_open: list[int] = []

    def fail_after_a_write(_: int) -> None:
        seen_open.append(disk.files_open)
        if any(path.stat().st_size for path in Path(log.log.directory).glob(f"*.log{ENDING}")):
            raise OSError(errno.ENOSPC, "no space left")

    with pytest.raises(OSError, match="no space left"):
        Cleaner(disk, log.order(), fail_after_a_write).clean()
    assert seen_open[-1] > 0
    assert disk.files_open == 0
