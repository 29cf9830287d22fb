"""Finds in the log what a snapshot does not keep of a producer: the batches before its last one.

A producer that lost its answers in a crash repeats several batches. Taken for a gap in its sequences, the first of them
would be sent again under another epoch, and be there twice.
"""

from collections.abc import Iterator, Sequence

from levada.model.errors import OutOfOrderSequence
from levada.records import BatchView
from levada.storage.producers import REMEMBERED_BATCHES, AppendedBatch, Producers, next_sequence
from levada.storage.reading import ReadGuard
from levada.storage.segment import Segment

MAX_BYTES = 32 << 20
"""Only what was in flight at the end matters, so there is no need to look far back."""


def check_sequences(
    batch: BatchView, producers: Producers, segments: Sequence[Segment], reading: ReadGuard
) -> AppendedBatch | None:
    """The batch that this one repeats, None if it may be appended; an error if neither is so."""
    sequences = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence)
    repeated = producers.duplicate_of(*sequences)
    if repeated is not None:
        return repeated
    try:
        producers.check_data(*sequences, is_transactional=batch.is_transactional)
    except OutOfOrderSequence:
        if not producers.may_have_forgotten(batch.producer_id, batch.producer_epoch, batch.last_sequence):
            raise
        with reading:
            restore_batches(segments, producers, batch.producer_id)
        repeated = producers.duplicate_of(*sequences)
        if repeated is None:
            raise
    return repeated


def restore_batches(segments: Sequence[Segment], producers: Producers, producer_id: int) -> None:
    """Remember as many batches of a producer as if it had never been forgotten, if they stand near the last one."""
    known = producers.get(producer_id)
    assert known is not None
    known.is_from_snapshot = False
    for batch in _backwards(segments, producer_id, known.epoch, known.batches[0].base_offset):
        if len(known.batches) == REMEMBERED_BATCHES:
            return
        if next_sequence(batch.last_sequence) != known.batches[0].first_sequence:
            return
        known.batches.appendleft(batch)


def _backwards(segments: Sequence[Segment], producer_id: int, epoch: int, offset: int) -> Iterator[AppendedBatch]:
    """The producer's batches below an offset, newest first."""
    budget = MAX_BYTES
    for segment in reversed(segments):
        if segment.base_offset >= offset:
            continue
        behind = segment.first_batch_to_contain(offset)
        end = segment.size if behind is None else behind.position
        start = _start_within(segment, end, budget)
        yield from reversed(list(_between(segment, start, end, producer_id, epoch)))
        budget -= end - start
        if budget <= 0 or start > 0:
            return


def _start_within(segment: Segment, end: int, budget: int) -> int:
    """Where a batch begins, at most so many bytes before the end."""
    if end <= budget:
        return 0
    entry = segment.first_entry_behind(end - budget)
    return end if entry is None else min(entry.position, end)


def _between(segment: Segment, start: int, end: int, producer_id: int, epoch: int) -> Iterator[AppendedBatch]:
    for place in segment.headers(start):
        if place.position >= end:
            return
        header = place.header
        if header.producer_id == producer_id and header.producer_epoch == epoch and not header.is_control:
            last_offset = header.base_offset + header.last_offset_delta
            yield AppendedBatch(header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp)
