"""Which rows repeat an earlier one, in batches and in streams, and `deduplicate`.

Spark's own `dropDuplicatesWithinWatermark` cannot say which rows it dropped, drops late rows without a word, and takes
the one watermark that a query may define. So a stream's keys are remembered here, in Spark's state, by event time.
"""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, StructField, StructType

from levada.spark.rows.durations import Duration, milliseconds
from levada.spark.rows.kept import Kind, Rows, default_timestamp, frame_of, untouched
from levada.spark.rows.packing import has_map, pack, unpack
from levada.spark.rows.problems import RowsError, column_of, columns_of
from levada.spark.rows.remembering import (
    BUCKET,
    EXEMPT,
    FIRST_HASH,
    REPEATED,
    SECOND_HASH,
    STATE,
    TIME,
    Remembering,
)

BUCKETS = 64
"""Keys are remembered in so many groups: Python is called once for each in a micro-batch, not once for each key."""
SALT = "second"


def deduplicate(rows: Kind, keys: str | Iterable[str], within: Duration, *, timestamp: str | None = None) -> Kind:
    """Leave out rows whose keys were seen before, less than or exactly `within` ago by the rows' own time.

    `timestamp` is the column with a row's time, by default that of its record (`_source.timestamp`). Rows without one,
    and rows whose keys are all null, are passed on. Rejected rows are passed on as well, and their keys do not count.

    In a stream, what was seen is kept in the checkpoint, about 24 bytes for each key, until the newest row is twice
    `within` ahead of it. A row that comes later than that is passed on; nothing is dropped for being late. The query's
    watermark is not touched; set one behind this step, if you need it.
    """
    frame = frame_of(rows)
    columns = columns_of(frame, keys, "the keys of deduplicate")
    has_no_key = sf.lit(True)
    for column in columns:
        has_no_key = has_no_key & column.isNull()
    marked = mark_repeats(
        frame,
        columns,
        milliseconds(within, "within of deduplicate"),
        timestamp=default_timestamp(frame, timestamp, "deduplicate"),
        exempt=untouched(rows) | has_no_key,
        mark=REPEATED,
    )
    kept = marked.where(~sf.col(REPEATED)).drop(REPEATED)
    return rows.unrepeatable().with_frame(kept) if isinstance(rows, Rows) else kept


def mark_repeats(
    frame: DataFrame, keys: list[Column], within_ms: int, *, timestamp: str, exempt: Column, mark: str
) -> DataFrame:
    """The same rows with the column `mark`: whether there was one with the same keys up to `within_ms` before."""
    for field in frame.select(*keys).schema:
        if has_map(field.dataType):
            raise RowsError(
                f"the key {field.name!r} of deduplicate or unique has a map, and maps cannot be compared: "
                f"name an entry of it, as {field.name}.x does for x"
            )
    time = sf.unix_micros(column_of(frame, timestamp, "the timestamp").cast("timestamp"))
    is_exempt = sf.coalesce(exempt, sf.lit(False)) | time.isNull()
    if frame.isStreaming:
        return _in_stream(frame, keys, within_ms, time, is_exempt, mark)
    return _in_batch(frame, keys, within_ms, time, is_exempt, mark)


def _in_batch(
    frame: DataFrame, keys: list[Column], within_ms: int, time: Column, is_exempt: Column, mark: str
) -> DataFrame:
    """Sorted by time, a row repeats the one before it, if that is near enough."""
    same = Window.partitionBy(is_exempt, *keys).orderBy(time)
    gap = time - sf.lag(time).over(same)
    return frame.withColumn(mark, ~is_exempt & sf.coalesce(gap <= within_ms * 1_000, sf.lit(False)))


def _in_stream(
    frame: DataFrame, keys: list[Column], within_ms: int, time: Column, is_exempt: Column, mark: str
) -> DataFrame:
    hashed = [part for key in keys for part in (key.isNull(), key)]
    first, second = sf.xxhash64(*hashed), sf.xxhash64(sf.lit(SALT), *hashed)
    control = {
        # Exempt rows have no keys as a rule; their time spreads them over the groups. Nulls do not change a hash.
        BUCKET: sf.pmod(sf.xxhash64(sf.when(is_exempt, time), *hashed), sf.lit(BUCKETS)).cast("int"),
        FIRST_HASH: first,
        SECOND_HASH: second,
        TIME: sf.when(is_exempt, sf.lit(EXEMPT)).otherwise(time),
    }
    packed = pack(frame, control)
    output = StructType([*packed.schema.fields, StructField(REPEATED, BooleanType())])
    remembered = packed.groupBy(BUCKET).applyInPandasWithState(
        Remembering(within_ms * 1_000), output, STATE, "append", "NoTimeout"
    )
    return unpack(remembered, frame.schema, {REPEATED: mark})
