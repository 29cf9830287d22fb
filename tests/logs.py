"""Logs for tests: batches of plain values, all of a log read back, and indexes held against the batches they index."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from levada.records import BatchView, ControlType, build_batch, end_transaction_marker, iter_batches
from levada.storage.formats import OFFSET_ENTRY, TIME_ENTRY
from levada.storage.loading import LogState, open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.lookups import Search
from levada.storage.outcomes import Appended, FoundRecord
from levada.storage.producers import Origin
from levada.storage.retention import Due, below_start, expire, retire
from levada.world.disk import Disk
from levada.world.real_disk import RealDisk, RealFile

T0 = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=100, max_index_bytes=2_400)


def batch(*values: bytes, at_ms: int = T0, **settings: Any) -> BatchView:
    return BatchView(build_batch([(at_ms, None, value, ()) for value in values], **settings))


def marker(producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> BatchView:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return BatchView(
        end_transaction_marker(
            kind,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=T0,
        )
    )


def opened(
    directory: Path | str,
    config: LogConfig = SMALL,
    *,
    disk: Disk | None = None,
    state: LogState | None = None,
    now_ms: int = T0,
    **settings: Any,
) -> Log:
    """A log that needed no cut."""
    log, cuts = open_log(disk or RealDisk(), str(directory), config, state=state, now_ms=now_ms, **settings)
    assert cuts == []
    return log


def append(log: Log, *values: bytes, now_ms: int = T0, leader_epoch: int = 0, **settings: Any) -> Appended:
    one = batch(*values, **settings)
    appended = log.append(one, leader_epoch=leader_epoch, origin=Origin.CLIENT, now_ms=now_ms)
    log.set_high_watermark(log.end_offset)
    return appended


def end_transaction(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> Appended:
    ended = marker(producer_id, commit=commit, epoch=epoch)
    appended = log.append(ended, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=T0)
    log.set_high_watermark(log.end_offset)
    return appended


def clean(log: Log) -> LogState:
    """What the checkpoints would say of a log that was closed."""
    return LogState(
        was_clean=True,
        recovery_point=log.recovery_point,
        start_offset=log.start_offset,
        high_watermark=log.high_watermark,
    )


def killed(log: Log) -> LogState:
    return replace(clean(log), was_clean=False)


def batches_from(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[BatchView]:
    """What one read brings, each batch checked."""
    found = log.read(offset, max_bytes, at_least_one_batch=True, upper_offset=log.end_offset)
    if found is None:
        return []
    data = found.file.read(found.position, found.size)
    batches = list(iter_batches(data))
    for one in batches:
        one.validate()
    return batches


def read_all(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> Iterator[tuple[int, bytes | None]]:
    """Every record from an offset on, control records left out, as a consumer would collect them."""
    position = log.start_offset if offset is None else offset
    while position < log.end_offset:
        batches = batches_from(log, position, max_bytes)
        if not batches:
            return
        for one in batches:
            if not one.is_control:
                yield from ((record.offset, record.value) for record in one.records() if record.offset >= position)
            position = max(position, one.next_offset)


def values_of(log: Log, offset: int | None = None) -> list[bytes | None]:
    return [value for _, value in read_all(log, offset)]


def run_search(search: Search) -> FoundRecord | None:
    """All steps of a search by time at once."""
    answer = None
    while True:
        try:
            call = search.send(answer)
        except StopIteration as found:
            record: FoundRecord | None = found.value
            return record
        answer = None if call is None else call()


def check_indexes(directory: Path | str, disk: Disk | None = None) -> int:
    """Hold every index of a log on disk against a scan of its batches; how many entries there are."""
    disk = disk or RealDisk()
    count = 0
    for name in disk.names(str(directory)):
        if name.endswith(".log"):
            count += _check_segment(disk, f"{directory}/{name[:-4]}", int(name[:-4]))
    return count


@dataclass(frozen=True)
class Scanned:
    position: int
    last_offset: int
    max_timestamp: int


def _check_segment(disk: Disk, stem: str, base_offset: int) -> int:
    scanned, position = [], 0
    for one in iter_batches(_content(disk, f"{stem}.log")):
        one.validate()
        scanned.append(Scanned(position, one.last_offset, one.max_timestamp))
        position += one.size
    by_position = {one.position: one for one in scanned}
    offsets = _entries(disk, f"{stem}.index", OFFSET_ENTRY)
    for relative, place in offsets:
        assert by_position[place].last_offset == base_offset + relative, (stem, relative, place)
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(offsets)), (stem, offsets)
    times = _entries(disk, f"{stem}.timeindex", TIME_ENTRY)
    for timestamp_ms, relative in times:
        indexed = next(one for one in scanned if one.last_offset == base_offset + relative)
        assert indexed.max_timestamp == timestamp_ms, (stem, timestamp_ms, relative)
        before = [one for one in scanned if one.last_offset <= indexed.last_offset]
        assert max(one.max_timestamp for one in before) == timestamp_ms, (stem, timestamp_ms, relative)
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(times)), (stem, times)
    return len(offsets) + len(times)


def _entries(disk: Disk, path: str, entry: Any) -> list[tuple[int, int]]:
    """The entries of an index file, without the zeros that an active one ends with."""
    if not disk.exists(path):
        return []
    data = _content(disk, path)
    entries: list[tuple[int, int]] = list(entry.iter_unpack(data))
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return entries


def _content(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


class CountedFile(RealFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: "CountingDisk", path: str, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk
        disk.files_open += 1

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        name = self.path.rpartition("/")[2]
        self._disk.bytes_read[name] = self._disk.bytes_read.get(name, 0) + len(data)
        return data

    def sync(self) -> None:
        if self._disk.fails_to_sync:
            raise OSError(5, "sync")
        self._disk.synced.append(self.path.rpartition("/")[2])
        super().sync()

    def close(self) -> None:
        if self._fd >= 0:
            self._disk.files_open -= 1
        super().close()


class CountingDisk(RealDisk):
    """A disk that knows what was read and synced, and how many of its files are open."""

    def __init__(self) -> None:
        self.bytes_read: dict[str, int] = {}
        self.synced: list[str] = []
        self.files_open = 0
        self.fails_to_sync = False

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> CountedFile:
        file = super().open(path, create=create, exclusive=exclusive)
        counted = CountedFile(self, path, file.duplicate())
        file.close()
        return counted


def delete_old_segments(log: Log) -> int:
    """Retire segments that lie wholly below the log's start; returns how many."""
    count = below_start(log.segments, log.start_offset, log.end_offset, log.high_watermark)
    return retire(log, [Due(count, "below the start")] if count else [])


def apply_retention(log: Log, now_ms: int) -> int:
    """Retire the oldest segments as the configuration says; returns how many."""
    return retire(log, expire(log, now_ms))
