"""A task's work: the records of its ranges as Arrow batches, straight from the bytes that were fetched."""

import time
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from levada import Consumer
from levada.client.errors import OffsetOutOfRange
from levada.client.types import TopicPartition
from levada.spark.kept_clients import KeptClients
from levada.spark.options import API_TIMEOUT, PATIENCE_MS
from levada.spark.source.bounds import EARLIEST, LATEST
from levada.spark.source.brokers import Brokers
from levada.spark.source.loss import report, within_log
from levada.spark.source.ranges import OffsetRange
from levada.spark.source.schema import ARROW_COLUMNS, ARROW_WITH_HEADERS
from levada.spark.source.settings import ReadSettings

ROWS_PER_BATCH = 10_000
"""About what Spark's own Arrow batches have. It also bounds what is decompressed at a time."""
PATIENCE_SECONDS = 5.0
"""Without any record for so long, a task looks whether its partition is still there."""
OFFSET_COLUMN = ARROW_COLUMNS.get_field_index("offset")

TASK_SETTINGS = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "group.id": None,
}
"""A task reads its range and nothing else; what is missing is an error, and the driver alone knows what is done."""

FETCH_BYTES = "max.partition.fetch.bytes"
SMALLEST_FETCH_BYTES, LARGEST_FETCH_BYTES = 64 * 1024, 4 * 1024 * 1024
RECORD_BYTES = 1_024
"""A guess: a small range is fetched in small pieces, as what comes behind its end is of no use."""


_consumers: KeptClients[Consumer] = KeptClients(most=4)


class NoAnswer(ValueError):
    """Brokers were silent about a partition for too long; the text is one line."""


def read_ranges(wanted: Sequence[OffsetRange], settings: ReadSettings) -> Iterator[pa.RecordBatch]:
    """Records below the ends of one range or of several, each of a partition of its own.

    They come as brokers have them; what is missing in between (markers, aborted, compacted) is passed over. No more
    than a few fetches are in memory, as nothing is read ahead of a reader that does not take what is there.
    """
    schema = ARROW_WITH_HEADERS if settings.includes_headers else ARROW_COLUMNS
    left = {TopicPartition(each.topic, each.partition): each for each in wanted}
    with _consumer(settings, sum(each.size for each in wanted)) as consumer:
        consumer.assign(left)
        for partition, each in left.items():
            consumer.seek(partition, each.start)
        heard_at = time.monotonic()
        while left:
            batch = _poll(consumer, left)
            if batch is None:
                left = {each: replace(left[each], start=consumer.position(each)) for each in left}
            else:
                heard_at = time.monotonic()
                for partition, records in _by_partition(left, batch):
                    yield from _shaped(_before(left[partition].end, records), schema)
                    last = records.column(OFFSET_COLUMN)[-1].as_py()
                    left[partition] = replace(left[partition], start=last + 1)
            consumer.pause([partition for partition, each in left.items() if each.size <= 0])
            left = {partition: each for partition, each in left.items() if each.size > 0}
            if batch is None:
                for partition, each in left.items():
                    _check_patience(each, heard_at, settings)
                    left[partition] = _still_there(each, settings)
                    consumer.seek(partition, left[partition].start)


@contextmanager
def _consumer(settings: ReadSettings, size: int) -> Iterator[Consumer]:
    """That of an earlier task of this worker, if there was one; at the end it has nothing of the range any more."""
    fetch_bytes = SMALLEST_FETCH_BYTES
    while fetch_bytes < min(size * RECORD_BYTES, LARGEST_FETCH_BYTES):
        fetch_bytes *= 2
    options = {API_TIMEOUT: PATIENCE_MS, FETCH_BYTES: fetch_bytes, **settings.client, **TASK_SETTINGS}
    with _consumers.taken(frozenset(options.items()), lambda: Consumer(None, **options)) as consumer:
        yield consumer
        consumer.unsubscribe()


def _poll(consumer: Consumer, left: Mapping[TopicPartition, OffsetRange]) -> pa.RecordBatch | None:
    """None at the ends of all ranges, after a silence, or where a log does not have the position."""
    until: dict[TopicPartition | tuple[str, int], int] = {partition: each.end for partition, each in left.items()}
    try:
        return consumer.poll_arrow(PATIENCE_SECONDS, max_rows=ROWS_PER_BATCH, until=until)
    except OffsetOutOfRange:
        return None


def _check_patience(left: OffsetRange, heard_at: float, settings: ReadSettings) -> None:
    if (time.monotonic() - heard_at) * 1_000 >= settings.poll_timeout_ms:
        raise NoAnswer(
            f"no record of {left.topic}-{left.partition} from offset {left.start} came within "
            f"{settings.poll_timeout_ms} ms (option kafkaConsumer.pollTimeoutMs): see whether its broker is up"
        )


def _still_there(left: OffsetRange, settings: ReadSettings) -> OffsetRange:
    """What the log has of the range; an error if that is not all of it, unless data loss is none."""
    partition = TopicPartition(left.topic, left.partition)
    with Brokers(settings) as brokers:
        earliest = brokers.offsets({partition: EARLIEST})
        latest = brokers.offsets(dict.fromkeys(earliest, LATEST))
    if not latest:
        losses = [f"{partition} is gone; it was to be read from offset {left.start} to {left.end}"]
        there: list[OffsetRange] = []
    else:
        there, losses = within_log({partition: left.start}, {partition: left.end}, earliest, latest)
    report(losses, fails=settings.fails_on_data_loss)
    return there[0] if there else replace(left, start=left.end)


def _by_partition(
    left: Collection[TopicPartition], batch: pa.RecordBatch
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """The records of each partition that has some; those of one have their order."""
    if len(left) == 1:
        yield from ((partition, batch) for partition in left)
        return
    for partition in left:
        is_its = pc.and_(pc.equal(batch["topic"], partition.topic), pc.equal(batch["partition"], partition.partition))
        records = batch.filter(is_its)
        if records.num_rows:
            yield partition, records


def _before(end: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    offsets = batch.column(OFFSET_COLUMN)
    if offsets[-1].as_py() < end:
        return batch
    return batch.slice(0, bisect_left(range(batch.num_rows), end, key=lambda row: offsets[row].as_py()))


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """With Spark's types, in parts of a size that Spark likes: one fetched batch may be larger."""
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    if schema.names[-1] == "headers":
        # Spark's own source has null for a record without headers, not an empty array.
        columns[-1] = pc.if_else(pc.equal(pc.list_value_length(columns[-1]), 0), None, columns[-1])
    shaped = pa.RecordBatch.from_arrays(columns, schema=schema)
    for start in range(0, shaped.num_rows, ROWS_PER_BATCH):
        yield shaped.slice(start, ROWS_PER_BATCH)
