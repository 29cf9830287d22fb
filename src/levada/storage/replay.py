"""From batches to what is known of their producers, when they are appended and when a log is read again."""

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from levada.model.errors import KafkaStorageError
from levada.records import BatchView, CorruptBatch, RecordsError, parse_control_record
from levada.records.builder import ControlType
from levada.storage.formats import AbortedTransaction
from levada.storage.log_config import LogConfig
from levada.storage.marker_sets import tie_of
from levada.storage.producer_snapshots import ProducerSnapshots
from levada.storage.producers import NO_PRODUCER, AppendedBatch, EndMarker, Producers
from levada.storage.segment import Segment

logger = logging.getLogger(__name__)


class Bounds(NamedTuple):
    """Which part of a log producers are replayed from."""

    start_offset: int
    end_offset: int
    high_watermark: int


def end_marker(batch: BatchView) -> EndMarker | None:
    """The end of a transaction that a control batch announces; other control batches say nothing to a log."""
    if batch.producer_id == NO_PRODUCER:
        return None
    records = batch.records()
    if not records:
        return None
    control = parse_control_record(records[0])
    if control.type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if control.coordinator_epoch is None:
        raise CorruptBatch("an end marker without its coordinator's epoch")
    is_commit = control.type == ControlType.COMMIT
    return EndMarker(is_commit, control.coordinator_epoch, records[0].timestamp_ms, tie_of(records[0]))


def note_producer(
    producers: Producers, batch: BatchView, base_offset: int, marker: EndMarker | None
) -> Sequence[AbortedTransaction]:
    """Bring the producers up to date with an appended batch; what the transaction index must learn."""
    last_offset = base_offset + batch.last_offset_delta
    if marker is None:
        if not batch.is_control:
            appended = AppendedBatch(batch.last_sequence, last_offset, batch.last_offset_delta, batch.max_timestamp)
            producers.note_data(
                batch.producer_id, batch.producer_epoch, appended, is_transactional=batch.is_transactional
            )
        return ()
    return note_end(producers, batch.producer_id, batch.producer_epoch, base_offset, marker)


def note_end(
    producers: Producers, producer_id: int, producer_epoch: int, offset: int, marker: EndMarker
) -> list[AbortedTransaction]:
    """The same for a marker alone."""
    aborted = []
    for ended in producers.markers.take(marker.tie, offset, (producer_id, producer_epoch, offset, marker)):
        completed = producers.note_marker(*ended)
        if completed is not None and (one := producers.complete(completed, offset)) is not None:
            aborted.append(one)
    return aborted


def replay_producers(
    segments: tuple[Segment, ...],
    producers: Producers,
    snapshots: ProducerSnapshots,
    bounds: Bounds,
    now_ms: int,
    config: LogConfig,
) -> None:
    """Bring producers to the state they have where the bounds end, and take a snapshot there."""
    snapshots.restore(producers, bounds.start_offset, bounds.end_offset, now_ms, config)
    restored_offset = producers.end_offset
    snapshot_at = [segment.base_offset for segment in segments[-2:]]
    for segment in _to_replay(segments, producers, bounds):
        if segment.base_offset in snapshot_at:
            snapshots.take(producers)
        _replay_segment(segment, producers, bounds.end_offset)
    producers.end_offset = bounds.end_offset
    snapshots.take(producers)
    _replay_unreplicated(segments, producers, snapshots, bounds, restored_offset)
    producers.set_high_watermark(bounds.high_watermark)


def _to_replay(segments: tuple[Segment, ...], producers: Producers, bounds: Bounds) -> Iterator[Segment]:
    """The segments with batches that the producers do not know yet; they are told where the next one goes on."""
    for segment in segments:
        if segment.next_offset > producers.end_offset and segment.base_offset < bounds.end_offset:
            producers.end_offset = max(segment.base_offset, producers.end_offset, bounds.start_offset)
            yield segment


def _replay_unreplicated(
    segments: tuple[Segment, ...],
    producers: Producers,
    snapshots: ProducerSnapshots,
    bounds: Bounds,
    restored_offset: int,
) -> None:
    """Find the transactions that have ended above the high watermark, of which a snapshot says nothing.

    Their markers may yet be lost, on this machine or with its leadership: readers must not see their records as
    decided, and a cleaning must not let these take the place of others.
    """
    try:
        if not _has_marker(segments, bounds.high_watermark, restored_offset):
            return
        earlier = Producers()
        snapshots.load_before(earlier, bounds.start_offset, bounds.high_watermark)
        for segment in _to_replay(segments, earlier, bounds):
            _replay_segment(segment, earlier, bounds.end_offset)
    except KafkaStorageError as error:
        # It lies before the last snapshot, so that the log can be appended to all the same.
        logger.warning("cannot find the transactions above the high watermark reason=%r", str(error))
        return
    producers.hold_unreplicated(earlier)


def _has_marker(segments: tuple[Segment, ...], start_offset: int, end_offset: int) -> bool:
    """Whether a transaction may have ended in a range."""
    for segment in segments:
        if segment.next_offset <= start_offset or segment.base_offset >= end_offset:
            continue
        first = segment.first_batch_to_contain(start_offset)
        places = () if first is None else segment.headers(first.position)
        for header in (place.header for place in places):
            if header.is_control and header.producer_id != NO_PRODUCER and header.base_offset < end_offset:
                return True
    return False


def _replay_segment(segment: Segment, producers: Producers, end_offset: int) -> None:
    first = segment.first_batch_to_contain(producers.end_offset)
    if first is None:
        return
    for place in segment.headers(first.position):
        header = place.header
        if header.base_offset >= end_offset:
            return
        if header.producer_id != NO_PRODUCER:
            try:
                marker = end_marker(segment.read_batch(place)) if header.is_control else None
            except RecordsError as error:
                raise KafkaStorageError(f"{segment.path('.log')} is damaged at {place.position}: {error}") from error
            note_producer(producers, header, header.base_offset, marker)
