"""What fetches brought of one partition and `poll` has not handed out: raw batches, opened as they are read."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from levada.client.cluster import NO_EPOCH
from levada.client.consumer.prefetched_records import PrefetchedRecords
from levada.client.consumer.subscription import AssignedPartition, Position
from levada.client.errors import CorruptRecord, KafkaError, SerializationFailed
from levada.client.types import TopicPartition
from levada.model.buffers import Buffer
from levada.protocol.messages.fetch import AbortedTransaction
from levada.records import (
    BatchView,
    ControlType,
    CorruptBatch,
    RecordsError,
    extents,
    parse_control_record,
)
from levada.records.record import BATCH_HEADER_SIZE, BATCH_LENGTH_OVERHEAD, BATCH_MAGIC, ConsumerRecord

Transform: TypeAlias = Callable[[list[ConsumerRecord]], tuple[list[ConsumerRecord], SerializationFailed | None]]
"""Deserializes; gives the records before the first that fails, and its failure."""

_offset_of = itemgetter(ConsumerRecord._fields.index("offset"))
DECODED_TOGETHER = 1_000
"""Small batches are decoded together up to so many records: each step costs as much as some records."""

_MAGIC_AT = 16
_LENGTH_AT = 8
_OVERHEAD = BATCH_LENGTH_OVERHEAD
_SMALLEST_LENGTH = BATCH_HEADER_SIZE - BATCH_LENGTH_OVERHEAD


class RecordReading(NamedTuple):
    """How records are read, the same for all partitions of a consumer."""

    checks_crcs: bool = True
    is_committed_only: bool = False
    transform: Transform | None = None


class FetchedBytes:
    """The bytes of one fetch: whole batches. Which of them count is found out when the first is read."""

    __slots__ = ("_aborted", "_data", "_starts", "batches", "end", "fault", "read_bytes", "size")

    def __init__(
        self, data: Buffer, starts: list[int], end: Position, aborted: Sequence[AbortedTransaction] | None
    ) -> None:
        self._data = data
        self._starts = starts
        self._aborted = aborted
        self.size = starts[-1]
        self.read_bytes = 0
        """Up to here it does not count as unread any more."""
        self.end = end
        """Where to go on once all of this is read: past the last batch, whether it counts or not."""
        self.batches: deque[BatchView] | None = None
        self.fault: KafkaError | None = None
        """What is wrong with the first batch that is not among the batches."""

    def open(self, partition: TopicPartition, reading: RecordReading, offset: int) -> "deque[BatchView]":
        """The batches with records to hand out, from an offset on: no control batches, nothing aborted."""
        if self.batches is None:
            self.batches = deque()
            # Batches may begin before the offset that was asked for, but none may end there.
            aborted = _Aborted(self._aborted) if reading.is_committed_only and self._aborted else None
            for start in self._starts[:-1]:
                batch = BatchView(self._data, start)
                try:
                    if reading.checks_crcs and not batch.crc_is_valid():
                        raise CorruptBatch("its checksum does not match")
                    if batch.is_control:
                        if aborted is not None:
                            aborted.pass_marker(batch)
                        continue
                except RecordsError as error:
                    self.fault = corrupt(partition, max(batch.base_offset, offset), error)
                    break
                if (aborted is None or not aborted.covers(batch)) and batch.last_offset >= offset:
                    self.batches.append(batch)
        return self.batches


class _Aborted:
    """Which producers' records do not count, batch by batch."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._producers: set[int] = set()

    def covers(self, batch: BatchView) -> bool:
        while self._ahead and self._ahead[0].first_offset <= batch.last_offset:
            self._producers.add(self._ahead.popleft().producer_id)
        return batch.is_transactional and batch.producer_id in self._producers

    def pass_marker(self, batch: BatchView) -> None:
        """An abort marker ends what it aborts; what the producer writes after it may count again."""
        if not self.covers(batch):
            return
        records = batch.records()
        if records and parse_control_record(records[0]).type == ControlType.ABORT:
            self._producers.discard(batch.producer_id)


class Backlog:
    """Of one partition, from one position on. A seek makes it stale, and another takes its place."""

    __slots__ = (
        "_answers",
        "_is_cut_short",
        "_opened",
        "_records",
        "_taken",
        "failure",
        "fetch_offset",
        "node_id",
        "partition",
        "position",
        "retry_at_ms",
        "state",
        "unread_bytes",
    )

    def __init__(self, partition: TopicPartition, state: AssignedPartition, position: Position) -> None:
        self.partition = partition
        self.state = state
        self.position = position
        """Of the next record to hand out; if it is not the state's own, the user has moved the position."""
        self.fetch_offset = position.offset
        """Where the next fetch begins."""
        self.node_id = -1
        """The broker that sent what is here."""
        self.unread_bytes = 0
        """Not opened yet."""
        self.failure: KafkaError | None = None
        """Comes after all that is here."""
        self.retry_at_ms = 0.0
        self._answers: deque[FetchedBytes] = deque()
        self._opened = 0
        """How many batches of the first answer the records are of."""
        self._records: list[ConsumerRecord] = []
        self._taken = 0
        self._is_cut_short = False
        """The records end before the one that could not be deserialized."""

    @property
    def is_stale(self) -> bool:
        return self.state.position is not self.position or self.state.reset is not None

    @property
    def is_in_batch(self) -> bool:
        """Whether something is decoded already, and waits to be taken."""
        return bool(self._records)

    @property
    def is_empty(self) -> bool:
        return not self._answers and self.failure is None

    def add(self, data: Buffer, aborted: Sequence[AbortedTransaction] | None) -> int:
        """Queue the batches of an answer; how many bytes they are. A last one that is cut off comes again."""
        _, starts, last_offsets = extents(data)
        size = starts[-1]
        if size:
            last = BatchView(data, starts[-2])
            end = Position(max(last_offsets[-1] + 1, self.fetch_offset), last.partition_leader_epoch)
            self._answers.append(FetchedBytes(data, starts, end, aborted))
            self.unread_bytes += size
            self.fetch_offset = end.offset
        if _is_malformed(data, size):
            self.failure = corrupt(self.partition, self.fetch_offset, "it is not a batch of format 2")
        return size

    def take(self, limit: int, reading: RecordReading) -> list[ConsumerRecord]:
        """Up to so many records, which count as consumed with that; a fault is raised once nothing is before it.

        Ends after a batch where the next one does not fit: it may be another partition's turn.
        """
        taken: list[ConsumerRecord] = []
        while (room := limit - len(taken)) > 0:
            if not self._records:
                if taken and not self._next_fits(room):
                    break
                try:
                    if not self._open_batches(reading):
                        break
                except KafkaError:
                    if taken:
                        break
                    raise
            start = self._taken
            if start + room < len(self._records):
                self._taken = start + room
                chosen = self._records[start : self._taken]
                self._move(_after(chosen[-1]))
            else:
                chosen = self._records[start:] if start else self._records
                self._finish_records()
            if taken:
                taken += chosen
            else:
                taken = chosen
        return taken

    def prefetch(self, limit: int, reading: RecordReading) -> PrefetchedRecords | None:
        """Up to so many records; they stay here until `take_back`. A fault is raised if it comes first."""
        return (
            PrefetchedRecords(self._records, self._taken, limit)
            if self._records or self._open_batches(reading)
            else None
        )

    def take_back(self, count: int) -> None:
        """So many of the prefetched records count as consumed."""
        if not count or self.is_stale:
            return
        end = self._taken + count
        if end < len(self._records):
            self._taken = end
            self._move(_after(self._records[end - 1]))
        else:
            self._finish_records()

    def peek_batches(self, reading: RecordReading) -> list[BatchView]:
        """All batches that are to be read, the first perhaps from its middle; a fault when there are none before it."""
        self._forget_records()
        batches: list[BatchView] = []
        for answer in self._answers:
            batches += answer.open(self.partition, reading, self.position.offset)
            if answer.fault is not None:
                if not batches:
                    raise answer.fault
                break
        return batches

    def skip_batches(self, count: int) -> None:
        """So many of the batches that `peek_batches` gave count as consumed, and all that does not count after them."""
        while self._answers:
            answer = self._answers[0]
            if answer.batches is None:
                return
            while count and answer.batches:
                batch = answer.batches.popleft()
                self._count_as_read(answer, batch)
                self._move(Position(batch.next_offset, batch.partition_leader_epoch))
                count -= 1
            if answer.batches or answer.fault is not None:
                return
            self._finish_answer()

    def _next_fits(self, room: int) -> bool:
        batches = self._answers[0].batches if self._answers else None
        return batches is not None and len(batches) > 0 and batches[0].record_count <= room

    def _open_batches(self, reading: RecordReading) -> bool:
        """Decode the next batches that have records from the position on; False when there are none."""
        while self._answers:
            answer = self._answers[0]
            batches = answer.open(self.partition, reading, self.position.offset)
            if not batches:
                if answer.fault is not None:
                    raise answer.fault
                self._finish_answer()
                continue
            records, opened = self._decode(batches)
            failure = None
            if reading.transform is not None:
                records, failure = reading.transform(records)
                if failure is not None and not records:
                    raise failure
            self._count_as_read(answer, batches[opened - 1])
            self._records, self._taken, self._opened = records, 0, opened
            self._is_cut_short = failure is not None
            if records:
                return True
            self._finish_records()
        return False

    def _decode(self, batches: "deque[BatchView]") -> tuple[list[ConsumerRecord], int]:
        """The records of the first batch, and of those behind it where they are small; how many batches."""
        offset = self.position.offset
        first = batches[0]
        try:
            records = first.consumer_records(*self.partition)
        except RecordsError as error:
            raise corrupt(self.partition, max(first.base_offset, offset), error) from error
        if records and _offset_of(records[0]) < offset:
            # A fetch begins with the whole batch that has the offset.
            records = records[bisect_left(records, offset, key=_offset_of) :]
        opened = 1
        for batch in islice(batches, 1, None):
            if len(records) + batch.record_count > DECODED_TOGETHER:
                break
            try:
                records += batch.consumer_records(*self.partition)
            except RecordsError:
                # Told when its turn comes, as the first.
                break
            opened += 1
        return records, opened

    def _finish_records(self) -> None:
        """All that could be read of the open batches is taken."""
        answer = self._answers[0]
        assert answer.batches is not None
        if self._is_cut_short:
            # What failed stays: its batch is opened again there, which raises the failure.
            self._move(_after(self._records[-1]))
            self._forget_records()
            return
        for _ in range(self._opened):
            batch = answer.batches.popleft()
        self._records, self._opened = [], 0
        if answer.batches or answer.fault is not None:
            self._move(Position(batch.next_offset, batch.partition_leader_epoch))
        else:
            self._finish_answer()

    def _forget_records(self) -> None:
        """Keep only the batches of what is decoded, as far as they are not read."""
        if self._opened:
            batches = self._answers[0].batches
            while batches and batches[0].last_offset < self.position.offset:
                batches.popleft()
        self._records, self._opened = [], 0

    def _finish_answer(self) -> None:
        answer = self._answers.popleft()
        self.unread_bytes -= answer.size - answer.read_bytes
        if answer.end.offset > self.position.offset:
            self._move(answer.end)

    def _count_as_read(self, answer: FetchedBytes, batch: BatchView) -> None:
        end = batch.start + batch.size
        if end > answer.read_bytes:
            self.unread_bytes -= end - answer.read_bytes
            answer.read_bytes = end

    def _move(self, position: Position) -> None:
        self.position = self.state.position = position


def corrupt(partition: TopicPartition, offset: int, why: object) -> CorruptRecord:
    error = CorruptRecord(
        f"the batch at offset {offset} of {partition} cannot be read: {why}; seek past it to go on without its records"
    )
    error.retriable = False
    return error


def _after(record: ConsumerRecord) -> Position:
    epoch = record.leader_epoch
    return Position(record.offset + 1, NO_EPOCH if epoch is None else epoch)


def _is_malformed(data: Buffer, start: int) -> bool:
    """Whether what is left behind the whole batches is not just the beginning of another one."""
    view = memoryview(data)[start:]
    if len(view) <= _MAGIC_AT:
        return False
    length = int.from_bytes(view[_LENGTH_AT:_OVERHEAD], signed=True)
    return view[_MAGIC_AT] != BATCH_MAGIC or length < _SMALLEST_LENGTH or length <= len(view) - _OVERHEAD
