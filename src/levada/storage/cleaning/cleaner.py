"""One pass over a log: which keys have newer records, and new segments without the older ones, beside the old ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from levada.records import BatchView, CorruptBatch, iter_batches
from levada.records.batch import HEADER_SIZE
from levada.records.offset_map import offset_map
from levada.storage.aborted import aborted_between
from levada.storage.cleaning.dirty import DirtyPart
from levada.storage.cleaning.filtering import Counts, Filter, LastRecord
from levada.storage.cleaning.transactions import PassedTransactions
from levada.storage.formats import AbortedTransaction
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.marker_sets import with_torn
from levada.storage.open_files import OpenFiles
from levada.storage.segment import CLEANED, MAX_RELATIVE_OFFSET, Segment
from levada.world.disk import Disk

READ_BYTES = 1 << 20
LEAST_READ_BYTES = 4096

Pause = Callable[[int], None]
"""Told of every read and write by its bytes; may take its time, for the sake of others who use the disk."""


class SourceSegment(NamedTuple):
    """A segment as the log knows it."""

    base_offset: int
    size: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Order:
    """What to clean, and what of the log's state it takes."""

    directory: str
    config: LogConfig
    sources: Sequence[SourceSegment]
    """All segments but the active one."""
    first_dirty: int
    first_uncleanable: int
    now_ms: int
    last_records: dict[int, LastRecord]
    """By producer."""
    later_aborts: Sequence[AbortedTransaction]
    """Transactions whose marker lies in the active segment; what they wrote may lie in others."""
    memory_bytes: int
    load_factor: float
    hash_key: bytes
    """Sixteen bytes that a producer cannot guess."""
    ending: str = CLEANED
    """Of the files that are written; each pass has its own, so that one which outlives its broker harms no other."""
    read_bytes: int = READ_BYTES
    """How much is read at a time, if no batch is larger."""


def order_for(
    log: Log,
    part: DirtyPart,
    *,
    now_ms: int,
    memory_bytes: int,
    load_factor: float,
    hash_key: bytes,
    ending: str = CLEANED,
    read_bytes: int = READ_BYTES,
) -> Order:
    """An order to clean the dirty part of a log, as it is now."""
    return Order(
        directory=log.directory,
        config=log.config,
        sources=[SourceSegment(one.base_offset, one.size, one.next_offset) for one in log.segments[:-1]],
        first_dirty=part.first_dirty,
        first_uncleanable=part.first_uncleanable,
        now_ms=now_ms,
        last_records={one: LastRecord(*last) for one, last in log.producers.last_records().items()},
        later_aborts=list(log.active.transactions.entries()),
        memory_bytes=memory_bytes,
        load_factor=load_factor,
        hash_key=hash_key,
        ending=ending,
        read_bytes=read_bytes,
    )


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A new segment, and the bases of those whose place it shall take."""

    base_offset: int
    source_bases: tuple[int, ...]
    next_offset: int
    """Behind its last record; the base where it has none."""


@dataclass(slots=True)
class Cleaned:
    groups: list[CleanedGroup] = field(default_factory=list)
    end_offset: int = 0
    """The log is clean up to here."""
    keys: int = 0
    counts: Counts = field(default_factory=Counts)


class Cleaner:
    """Reads the log's files and writes `.cleaned` ones; it changes nothing that is there."""

    def __init__(self, disk: Disk, order: Order, pause: Pause = lambda _: None) -> None:
        self._disk = disk
        self._order = order
        self._pause = pause
        self._files = OpenFiles(disk)
        self._segments = [_opened(disk, self._files, order, source) for source in order.sources]
        self._offsets = offset_map(order.memory_bytes, order.load_factor, order.hash_key)
        self._counts = Counts()

    def clean(self) -> Cleaned:
        try:
            self._map_keys()
            end_offset = self._offsets.latest_offset + 1
            rules = self._rules()
            sources = [segment for segment in self._segments if segment.base_offset < end_offset]
            groups = [self._clean_group(group, rules) for group in self._grouped(sources)]
            return Cleaned(groups, end_offset, len(self._offsets), self._counts)
        finally:
            self._files.close_all()

    def _rules(self) -> Filter:
        order = self._order
        return Filter(
            offsets=self._offsets,
            transactions=PassedTransactions(),
            last_records=order.last_records,
            upper_offset=order.first_uncleanable,
            now_ms=order.now_ms,
            delete_retention_ms=order.config.delete_retention_ms,
            counts=self._counts,
        )

    # Mapping

    def _map_keys(self) -> None:
        """Note the last offset of every key in the dirty part, as far as there is memory for it."""
        start, end = self._order.first_dirty, self._order.first_uncleanable
        passed = PassedTransactions()
        passed.expect(self._aborted(start, end))
        dirty = self._between(start, end)
        for segment, following in zip(dirty, [*dirty[1:], None]):
            for batch in self._batches(segment, segment.offset_index.lookup(start).position):
                if not self._map_batch(batch, passed, start):
                    return
            # Where offsets are missing at the end of a segment, there is nothing to map.
            self._advance(end - 1 if following is None else following.base_offset - 1)

    def _map_batch(self, batch: BatchView, passed: PassedTransactions, start: int) -> bool:
        """False when there is no memory for more."""
        self._counts.mapped_bytes += batch.size
        if batch.is_control:
            passed.is_marker_of_nothing(batch)
        elif not passed.is_void(batch):
            body = batch.uncompressed_body()
            if not self._offsets.note(body, batch.record_count, batch.base_offset, start):
                return False
        self._counts.mapped_records += batch.record_count
        if batch.last_offset >= start:
            self._advance(batch.last_offset)
        return True

    def _advance(self, offset: int) -> None:
        self._offsets.latest_offset = max(self._offsets.latest_offset, offset)

    def _aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those with records in a range, wherever their markers are."""
        later = [one for one in self._order.later_aborts if one.first_offset < end]
        return [*aborted_between(self._segments, start, end), *later]

    def _between(self, start: int, end: int) -> list[Segment]:
        """The segments with offsets in a range."""
        first = max((segment.base_offset for segment in self._segments if segment.base_offset <= start), default=start)
        return [segment for segment in self._segments if first <= segment.base_offset < end]

    # Writing

    def _grouped(self, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
        """Neighbours that fit one segment together."""
        config = self._order.config
        group: list[Segment] = []
        sizes = (0, 0, 0)
        for number, segment in enumerate(segments):
            # The next segment's base bounds the last offset without a look into the file.
            last = self._order.first_uncleanable if number + 1 == len(segments) else segments[number + 1].base_offset
            grown = (
                sizes[0] + segment.size,
                sizes[1] + len(segment.offset_index.data),
                sizes[2] + len(segment.time_index.data),
            )
            fits = grown[0] <= config.segment_bytes and max(grown[1:]) <= config.max_index_bytes
            is_near = not segment.size or not group or last - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
            if group and not (fits and is_near):
                yield group
                group, grown = [], (segment.size, len(segment.offset_index.data), len(segment.time_index.data))
            group.append(segment)
            sizes = grown
        if group:
            yield group

    def _clean_group(self, sources: list[Segment], rules: Filter) -> CleanedGroup:
        order = self._order
        target = Segment(self._disk, self._files, order.directory, sources[0].base_offset, order.config, order.ending)
        target.remove()
        target.create()
        target.reset_indexes()
        if self._disk.exists(sources[0].path(".txnindex")):
            # Even without an entry: one that lies there without the new ending is the new segment's, not the old one's.
            target.transactions.create()
        before = len(rules.transactions.kept_aborts)
        for source, following in zip(sources, [*sources[1:], None]):
            upper = source.next_offset if following is None else following.base_offset
            rules.transactions.expect(self._aborted(source.base_offset, upper))
            for batch, is_torn in with_torn(self._batches(source)):
                kept = rules.apply(batch, is_torn=is_torn)
                if kept is not None:
                    target.append([kept.data], len(kept.data), batch.last_offset, kept.max_timestamp)
                    self._pause(len(kept.data))
        for aborted in rules.transactions.kept_aborts[before:]:
            target.transactions.append(aborted)
        target.deactivate()
        for file in target.files_to_sync():
            file.sync()
        # A segment without timestamps is as old as its file, and cleaning makes nothing younger.
        target.file.set_modified_ms(sources[-1].file.modified_ms())
        target.close()
        self._disk.sync_directory(order.directory)
        return CleanedGroup(target.base_offset, tuple(source.base_offset for source in sources), target.next_offset)

    # Reading

    def _batches(self, segment: Segment, position: int = 0) -> Iterator[BatchView]:
        """Whole batches in memory, read in large pieces; CorruptBatch for a damaged one: it must not pass for good."""
        wanted = max(self._order.read_bytes, LEAST_READ_BYTES)
        while position < segment.size:
            data = segment.file.read(position, min(wanted, segment.size - position))
            self._pause(len(data))
            used = 0
            for batch in iter_batches(data):
                batch.validate()
                used += batch.size
                yield batch
            if not used:
                if len(data) < wanted or len(data) < HEADER_SIZE:
                    raise CorruptBatch(f"{segment.path('.log')} ends in the middle of a batch at {position}")
                wanted = max(BatchView(data).size, 2 * wanted)
            position += used


def _opened(disk: Disk, files: OpenFiles, order: Order, source: SourceSegment) -> Segment:
    segment = Segment(disk, files, order.directory, source.base_offset, order.config)
    segment.size, segment.next_offset = source.size, source.next_offset
    return segment
