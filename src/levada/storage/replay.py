"""From batches to what is known of their producers, when they are appended and when a log is read again."""

from collections.abc import Sequence

from levada.model.errors import KafkaStorageError
from levada.records import BatchView, CorruptBatch, RecordsError, parse_control_record
from levada.records.builder import ControlType
from levada.storage.formats import AbortedTransaction
from levada.storage.log_config import LogConfig
from levada.storage.marker_sets import tie_of
from levada.storage.producer_snapshots import ProducerSnapshots
from levada.storage.producers import NO_PRODUCER, AppendedBatch, EndMarker, Producers
from levada.storage.segment import Segment


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
    start_offset: int,
    end_offset: int,
    now_ms: int,
    config: LogConfig,
) -> None:
    """Bring producers to the state they have at an offset, and take a snapshot there."""
    snapshots.restore(producers, start_offset, end_offset, now_ms, config)
    snapshot_at = [segment.base_offset for segment in segments[-2:]]
    for segment in segments:
        if segment.next_offset <= producers.end_offset or segment.base_offset >= end_offset:
            continue
        producers.end_offset = max(segment.base_offset, producers.end_offset, start_offset)
        if segment.base_offset in snapshot_at:
            snapshots.take(producers)
        _replay_segment(segment, producers, end_offset)
    producers.end_offset = end_offset
    snapshots.take(producers)


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
