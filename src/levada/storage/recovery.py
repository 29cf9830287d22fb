"""Walks a segment, builds anew what is known of it, and cuts it at the first batch that is not sound."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from levada.records import RecordsError
from levada.records.batch import HEADER_SIZE, MAGIC, BatchView
from levada.storage.leader_epochs import LeaderEpochs
from levada.storage.producers import NO_PRODUCER, Producers
from levada.storage.replay import end_marker, note_producer
from levada.storage.segment import MAX_RELATIVE_OFFSET, Segment
from levada.world.disk import File

WINDOW_BYTES = 4 * 1024 * 1024

Progress = Callable[[int], None]
"""Called with the number of bytes walked since the last call."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What recovery took off the end of a file, and why."""

    path: str
    kept_bytes: int
    lost_bytes: int
    reason: str


class TornTail(Exception):
    """The walk met bytes that are no batch; `position` is the end of the last good one."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


def recover_segment(
    segment: Segment,
    epochs: LeaderEpochs,
    producers: Producers,
    progress: Progress = lambda _: None,
    *,
    may_have_gaps: bool = True,
) -> Cut | None:
    """Rebuild the indexes of a segment and bring epochs and producers up to its end; cut what is not sound."""
    file = segment.file
    segment.reset_indexes()
    cut = None
    try:
        for batch in sound_batches(file, segment.base_offset, may_have_gaps=may_have_gaps):
            if batch.partition_leader_epoch > epochs.latest:
                epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if batch.producer_id != NO_PRODUCER:
                _note(segment, producers, batch)
            segment.note(batch.size, batch.last_offset, batch.max_timestamp)
            producers.end_offset = batch.next_offset
            progress(batch.size)
    except TornTail as torn:
        cut = Cut(file.path, torn.position, file.size() - torn.position, str(torn))
        file.truncate(torn.position)
    segment.deactivate()
    return cut


def _note(segment: Segment, producers: Producers, batch: BatchView) -> None:
    try:
        marker = end_marker(batch) if batch.is_control else None
    except RecordsError as error:
        raise TornTail(segment.size, str(error)) from error
    for aborted in note_producer(producers, batch, batch.base_offset, marker):
        segment.transactions.append(aborted)


def sound_batches(file: File, base_offset: int, *, may_have_gaps: bool = True) -> Iterator[BatchView]:
    """Every batch of the file in order, each checked against its CRC; TornTail at the first that fails.

    The CRC does not cover a batch's offset. Where only compaction leaves gaps and there was none, a gap is damage.
    """
    size = file.size()
    next_offset = base_offset
    position = 0
    window, window_start = memoryview(b""), 0
    while position < size:
        relative = position - window_start
        needed = _batch_size(window[relative:]) if relative + HEADER_SIZE <= len(window) else HEADER_SIZE
        if relative + needed > len(window):
            if position + needed > size:
                raise TornTail(position, f"{size - position} bytes where a batch of {needed} begins")
            window = memoryview(file.read(position, min(max(WINDOW_BYTES, needed), size - position)))
            window_start, relative = position, 0
            if _batch_size(window) > needed:
                continue
        batch = BatchView(window, relative)
        _check(batch, position, next_offset, base_offset)
        if batch.base_offset > next_offset and not may_have_gaps:
            raise TornTail(position, f"offset {batch.base_offset} where {next_offset} was expected")
        yield batch
        next_offset = batch.next_offset
        position += batch.size


def _batch_size(window: memoryview) -> int:
    """What the length field claims, at least a header."""
    return max(12 + int.from_bytes(window[8:12], "big", signed=True), HEADER_SIZE)


def _check(batch: BatchView, position: int, next_offset: int, base_offset: int) -> None:
    if batch.size < HEADER_SIZE or batch.magic != MAGIC:
        raise TornTail(position, f"no batch of magic {MAGIC} (size {batch.size}, magic {batch.magic})")
    if batch.base_offset < next_offset or batch.last_offset_delta < 0:
        raise TornTail(position, f"offset {batch.base_offset} where at least {next_offset} was expected")
    if batch.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        raise TornTail(position, f"offset {batch.last_offset} is too far from the segment's base {base_offset}")
    if not batch.crc_is_valid():
        raise TornTail(position, f"the batch at offset {batch.base_offset} does not match its CRC")
