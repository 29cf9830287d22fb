"""The end of a log that moves to another directory: all that is not in its closed segments.

It is small, and written in one go while no append can come; then the log goes on there.
"""

from typing import Final

from levada.storage.indexes import NO_TIMESTAMP, TimeIndex
from levada.storage.leader_epochs import FILE_NAME as EPOCHS_FILE
from levada.storage.loading import LogState
from levada.storage.log import Log
from levada.storage.producer_snapshots import SUFFIX as SNAPSHOT
from levada.storage.producer_snapshots import ProducerSnapshots
from levada.storage.segment import SUFFIXES, Segment
from levada.world.disk import Disk

MOVED_FILE: Final = "moved"
"""In a log that was copied: the id of the directory whose copy counts as soon as it has its name."""


def names_to_copy(disk: Disk, log: Log, segment: Segment) -> list[str]:
    """The files of a closed segment, and the snapshot of producers at its beginning; one of records it must have."""
    records, *others = [f"{segment.base_offset:020d}{suffix}" for suffix in (*SUFFIXES, SNAPSHOT)]
    return [records, *(name for name in others if disk.exists(f"{log.directory}/{name}"))]


def state_to_hand_over(log: Log) -> LogState:
    """What the new place may trust: where the old one was flushed further, the end is flushed when it is written."""
    return LogState(
        was_clean=True,
        recovery_point=log.recovery_point,
        start_offset=log.start_offset,
        high_watermark=log.high_watermark,
    )


def write_end(disk: Disk, log: Log, target: str) -> None:
    log.epochs.write_if_changed()
    segment = log.active
    segment.transactions.settle()
    contents = {
        f"{segment.base_offset:020d}.log": segment.file.read(0, segment.size),
        f"{segment.base_offset:020d}.index": segment.offset_index.data,
        f"{segment.base_offset:020d}.timeindex": _closed_time_index(segment),
    }
    for name in (f"{segment.base_offset:020d}.txnindex", f"{segment.base_offset:020d}{SNAPSHOT}", EPOCHS_FILE):
        if disk.exists(f"{log.directory}/{name}"):
            contents[name] = _read(disk, f"{log.directory}/{name}")
    for name, data in contents.items():
        # The epochs stand on the device in the old place too, and cannot all be read from the batches again.
        is_synced = name == EPOCHS_FILE or log.recovery_point > segment.base_offset
        _write(disk, f"{target}/{name}", data, is_synced=is_synced)
    ProducerSnapshots(disk, target).take(log.producers)


def _closed_time_index(segment: Segment) -> bytes:
    """With the entry that an active segment gets when it is closed."""
    index = TimeIndex(segment.base_offset, 0, segment.time_index.data)
    if segment.largest.timestamp_ms > NO_TIMESTAMP:
        index.append_if_larger(segment.largest.timestamp_ms, segment.largest.offset)
    return index.data


def _read(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _write(disk: Disk, path: str, data: bytes, *, is_synced: bool) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        if data and file.append([data]) != len(data):
            raise OSError(f"{path}: the disk took only a part of {len(data)} bytes")
        if is_synced:
            file.sync()
    finally:
        file.close()
