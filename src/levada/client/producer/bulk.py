"""Many records at once: whole batches are encoded by the compiled writer, straight from lists or Arrow columns."""

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from levada.client.arguments import check_buffer
from levada.client.producer.accumulator import Accumulator, record_size
from levada.client.producer.batch import Batch
from levada.client.producer.handle import ManyHandle
from levada.client.producer.partition_queue import PartitionQueue
from levada.client.producer.routes import Routes, TopicQueues
from levada.client.serializers import advice
from levada.model.buffers import Buffer
from levada.records.writer import (
    BatchWriter,
    RecordColumns,
    partitions_of_columns,
    partitions_of_list,
    write_columns,
    write_lists,
)

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_ROWS = 4_096
"""Rows without a key among others that have one go to one sticky partition for so many rows."""

NO_PARTITION = -1


class Rows(Protocol):
    count: int
    has_keys: bool

    def chosen(self) -> "array[int] | None":
        """The partitions the user named, -1 where none; None if nowhere."""

    def hashed(self, partition_count: int) -> "array[int]":
        """The partition of each row's key, -1 where it has none."""

    def write(
        self, writers: Sequence[BatchWriter | None], partitions: "array[int] | None", start: int, stop: int
    ) -> int: ...

    def size_of(self, row: int) -> int:
        """What a row takes in a batch at most."""

    def key_and_value(self, row: int) -> tuple[bytes | None, bytes | None]: ...


class ListRows:
    def __init__(
        self, values: Sequence[Buffer | None], keys: Sequence[Buffer | None] | None, timestamp_ms: int
    ) -> None:
        self._values = values if isinstance(values, list | tuple) else list(values)
        self._keys = keys if keys is None or isinstance(keys, list | tuple) else list(keys)
        if self._keys is not None and len(self._keys) != len(self._values):
            raise ValueError(f"there are {len(self._keys)} keys for {len(self._values)} values")
        self.count = len(self._values)
        self.has_keys = keys is not None
        self._timestamp_ms = timestamp_ms

    def chosen(self) -> "array[int] | None":
        return None

    def hashed(self, partition_count: int) -> "array[int]":
        assert self._keys is not None
        try:
            return partitions_of_list(self._keys, partition_count)
        except TypeError:
            self._check()
            raise

    def write(
        self, writers: Sequence[BatchWriter | None], partitions: "array[int] | None", start: int, stop: int
    ) -> int:
        try:
            return write_lists(writers, partitions, self._timestamp_ms, self._keys, self._values, start, stop)
        except TypeError:
            self._check()
            raise

    def size_of(self, row: int) -> int:
        try:
            return record_size(None if self._keys is None else self._keys[row], self._values[row], ())
        except TypeError:
            self._check()
            raise

    def key_and_value(self, row: int) -> tuple[bytes | None, bytes | None]:
        key = None if self._keys is None else self._keys[row]
        value = self._values[row]
        return (None if key is None else bytes(key)), (None if value is None else bytes(value))

    def _check(self) -> None:
        """Say which row has something else than bytes, once that has been found out."""
        for what, fields in (("keys", self._keys or ()), ("values", self._values)):
            for row, field in enumerate(fields):
                if field is not None:
                    check_buffer(field, f"send_many(): {what}[{row}]", advice(field, what.removesuffix("s")))


class ArrowRows:
    """The rows of a RecordBatch: its column `value`, and `key`, `headers`, `timestamp`, `partition` if any."""

    def __init__(self, batch: "pa.RecordBatch", timestamp_ms: int) -> None:
        from levada.records.arrow_writer import arrow_records

        records = arrow_records(batch, timestamp_ms)
        self._batch = batch
        self._columns = RecordColumns(records.source)
        self._partitions = records.partitions
        self.count = self._columns.row_count
        self.has_keys = records.source.keys is not None

    def chosen(self) -> "array[int] | None":
        return None if self._partitions is None else array("i", self._partitions.tobytes())

    def hashed(self, partition_count: int) -> "array[int]":
        return partitions_of_columns(self._columns, partition_count)

    def write(
        self, writers: Sequence[BatchWriter | None], partitions: "array[int] | None", start: int, stop: int
    ) -> int:
        return write_columns(writers, partitions, self._columns, start, stop)

    def size_of(self, row: int) -> int:
        return record_size(None, None, ()) + int(self._batch.slice(row, 1).nbytes)

    def key_and_value(self, row: int) -> tuple[bytes | None, bytes | None]:
        names = self._batch.schema.names
        columns = {"value": 0} if len(names) == 1 else {name: index for index, name in enumerate(names)}
        found = [
            self._batch.column(columns[name])[row].as_py() if name in columns else None for name in ("key", "value")
        ]
        key, value = (each.encode() if isinstance(each, str) else each for each in found)
        return key, value


class Bulk:
    """One bulk send: `step` after `step`, each of about one batch, until all rows are written."""

    def __init__(
        self, accumulator: Accumulator, routes: Routes, topic: TopicQueues, rows: Rows, partition: int | None
    ) -> None:
        self.batches: dict[Batch, None] = {}
        self.next_row = 0
        self.releases = 0
        """How often memory had been given back when the last step began."""
        self._accumulator = accumulator
        self._routes = routes
        self._topic = topic
        self._rows = rows
        self._queue = None if partition is None else topic.partitions[partition]
        self._partitions = None if partition is not None else self._choose()

    @property
    def is_done(self) -> bool:
        return self.next_row >= self._rows.count

    def handle(self) -> ManyHandle:
        """For all that was written."""
        return ManyHandle(list(self.batches), self.next_row)

    def step(self) -> bool:
        """Write up to about one batch; False if it cannot go on because the memory is used up."""
        with self._accumulator.lock:
            self.releases = self._accumulator.releases
            if self._accumulator.counts_records:
                has_memory = self._write_row()
            else:
                has_memory = self._fill_one() if self._partitions is None else self._fill_chunk(self._partitions)
        self._accumulator.wake()
        return has_memory

    def _write_row(self) -> bool:
        """One row alone, where not only bytes are counted."""
        row, partitions, queues = self.next_row, self._partitions, self._topic.partitions
        queue = self._queue or self._routes.sticky(self._topic)
        if partitions is not None:
            if partitions[row] == NO_PARTITION:
                partitions[row] = queue.partition
            queue = queues[partitions[row]]
        else:
            queues = [queue]
        if self._accumulator.takes_record(queue):
            self._write_open(queues, partitions, row + 1)
        return self.next_row > row or self._begin(queue, partitions, queues)

    def _fill_one(self) -> bool:
        """All rows go to one partition at a time: the one named, or the sticky one."""
        queue = self._queue or self._routes.sticky(self._topic)
        self._write_open([queue], None, self._rows.count)
        if self.is_done:
            return True
        if self._accumulator.close(queue, is_full=True) and self._queue is None:
            queue = self._routes.is_full(self._topic, queue)
            if queue.open is not None:
                return True
        return self._begin(queue, None, [queue])

    def _fill_chunk(self, partitions: "array[int]") -> bool:
        """Each row goes to the partition of its own."""
        start = self.next_row
        stop = min(self._rows.count, start + CHUNK_ROWS)
        if NO_PARTITION in partitions[start:stop]:
            sticky = self._routes.sticky(self._topic).partition
            for row in range(start, stop):
                if partitions[row] == NO_PARTITION:
                    partitions[row] = sticky
        queues = self._topic.partitions
        self._write_open(queues, partitions, stop)
        if self.next_row == stop:
            return True
        return self._begin(queues[partitions[self.next_row]], partitions, queues)

    def _write_open(self, queues: Sequence[PartitionQueue], partitions: "array[int] | None", stop: int) -> None:
        """Write what fits into the open batches."""
        opened = [queue.open for queue in queues]
        counts = [0 if batch is None else batch.count for batch in opened]
        writers = [None if batch is None else batch.writer for batch in opened]
        self.next_row = self._rows.write(writers, partitions, self.next_row, stop)
        for batch, count in zip(opened, counts):
            if batch is not None and batch.count > count:
                self.batches[batch] = None

    def _begin(self, queue: PartitionQueue, partitions: "array[int] | None", queues: Sequence[PartitionQueue]) -> bool:
        """A new batch for the next row, and the row in it; False without memory for it."""
        row = self.next_row
        batch = self._accumulator.begin(queue, self._rows.size_of(row))
        if batch is None:
            return False
        writers = [batch.writer if each is queue else None for each in queues]
        try:
            self.next_row = self._rows.write(writers, partitions, row, row + 1)
        except BaseException:
            self._accumulator.undo(queue, batch)
            raise
        self.batches[batch] = None
        return True

    def _choose(self) -> "array[int] | None":
        """A partition for each row; None if all go to the sticky one."""
        rows, topic = self._rows, self._topic
        chosen = rows.chosen()
        if not self._routes.is_sticky:
            return self._ask_partitioner(chosen)
        hashed = rows.hashed(topic.count) if rows.has_keys and self._routes.hashes_keys else None
        if chosen is None:
            return hashed
        _refuse_unknown(chosen, topic)
        if hashed is not None:
            for row, partition in enumerate(chosen):
                if partition == NO_PARTITION:
                    chosen[row] = hashed[row]
        return chosen

    def _ask_partitioner(self, chosen: "array[int] | None") -> "array[int]":
        """The user's own partitioner sees each row."""
        partitions = array("i", [NO_PARTITION]) * self._rows.count if chosen is None else chosen
        for row, partition in enumerate(partitions):
            if partition == NO_PARTITION:
                partitions[row] = self._routes.queue(self._topic, *self._rows.key_and_value(row)).partition
        return partitions


def _refuse_unknown(partitions: "array[int]", topic: TopicQueues) -> None:
    for partition in (min(partitions, default=0), max(partitions, default=0)):
        if not NO_PARTITION <= partition < topic.count:
            raise ValueError(f"topic {topic.name!r} has no partition {partition}, only 0 to {topic.count - 1}")
