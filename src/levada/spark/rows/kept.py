"""Good and rejected rows in one frame, so that a source is read once and both are written together."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from levada.spark.rows.durations import Duration
from levada.spark.rows.problems import RowsError

if TYPE_CHECKING:
    from pyspark.sql import Observation
    from pyspark.sql.streaming.query import StreamingQuery

    from levada.spark.rows.rules import Rule

SOURCE = "_source"
"""Where a row comes from, and the record as it was there."""
REJECTED = "_rejected"
"""Why a row is not good, and which step said so; null for good rows."""
TOPIC = "_topic"
"""The topic that a row goes to, if it has one of its own."""
HEADERS = "_headers"
"""The headers that a row is written with."""
RESERVED = (SOURCE, REJECTED, TOPIC, HEADERS)

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
SOURCE_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
SOURCE_TIMESTAMP = f"{SOURCE}.timestamp"


@dataclass(frozen=True, slots=True)
class Rows:
    """The fields of values as columns, with `_source` and `_rejected` beside them.

    `good` and `rejected` are the two halves. A query over `good` alone, such as an aggregation, leaves the rejected
    rows behind: `write_dead_letters` writes those in a query of their own. `write` writes both halves at once.
    """

    frame: DataFrame
    dead_letters: str
    """The topic that rejected rows are written to."""

    def __post_init__(self) -> None:
        missing = [name for name in (SOURCE, REJECTED) if name not in self.frame.columns]
        if missing:
            raise RowsError(
                f"rows need the column {missing[0]!r}: keep it in what you select, or work on the frame of `good` rows"
            )

    @property
    def good(self) -> DataFrame:
        """Good rows only, with `_source`."""
        return self.frame.where(is_good()).drop(REJECTED)

    @property
    def rejected(self) -> DataFrame:
        """The others, with `_source` and with `_rejected.reason` and `_rejected.stage`."""
        return self.frame.where(~is_good())

    @property
    def is_stream(self) -> bool:
        return self.frame.isStreaming

    def with_frame(self, frame: DataFrame) -> "Rows":
        """The same with another frame, which must have `_source` and `_rejected` as this one has."""
        return replace(self, frame=frame)

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> "Rows":
        """Change all rows; the fields of rejected ones may be null, and what is computed for them is not written."""
        return self.with_frame(function(self.frame))

    def reject(self, condition: Column, reason: str | Column, stage: str) -> "Rows":
        """Reject the good rows for which the condition is true."""
        text = sf.lit(reason) if isinstance(reason, str) else reason
        return self.with_frame(reject(self.frame, condition, text, stage))

    def expire_after(
        self, ttl: Duration, *, timestamp: str | None = None, action: Literal["dead-letter", "drop"] = "dead-letter"
    ) -> "Rows":
        """See `levada.spark.expire_after`."""
        from levada.spark.rows.expiry import expire_after

        return expire_after(self, ttl, timestamp=timestamp, action=action)

    def deduplicate(self, keys: str | Iterable[str], within: Duration, *, timestamp: str | None = None) -> "Rows":
        """See `levada.spark.deduplicate`."""
        from levada.spark.rows.repeats import deduplicate

        return deduplicate(self, keys, within, timestamp=timestamp)

    def route(self, by: str | Column, topics: Mapping[Any, str], *, default: str | None = None) -> "Rows":
        """See `levada.spark.route`."""
        from levada.spark.rows.routing import route

        return route(self, by, topics, default=default)

    def quality(self, rules: "Iterable[Rule]", *, name: "str | Observation" = "quality") -> "Rows":
        """See `levada.spark.quality`."""
        from levada.spark.rows.quality import quality

        return quality(self, rules, name=name)

    def write(self, topic: str | None = None, **arguments: Any) -> "StreamingQuery | None":
        """See `levada.spark.write`."""
        from levada.spark.rows.writing import write

        return write(self, topic, **arguments)


Kind = TypeVar("Kind", Rows, DataFrame)
"""What a step takes, it gives back."""


def is_good() -> Column:
    return sf.col(REJECTED).isNull()


def frame_of(rows: Rows | DataFrame) -> DataFrame:
    return rows.frame if isinstance(rows, Rows) else rows


def untouched(rows: Rows | DataFrame) -> Column:
    """Whether a step has to leave a row as it is, because an earlier one rejected it."""
    return ~is_good() if isinstance(rows, Rows) else sf.lit(False)


def reject(frame: DataFrame, condition: Column, reason: Column, stage: str) -> DataFrame:
    """The first reason stays: a row that is rejected already is left as it is."""
    told = sf.struct(reason.cast("string").alias("reason"), sf.lit(stage).alias("stage"))
    return frame.withColumn(REJECTED, sf.coalesce(sf.col(REJECTED), sf.when(condition, told)))


def default_timestamp(frame: DataFrame, given: str | None, step: str) -> str:
    """The column with the time of a row: the given one, else that of the record it comes from."""
    if given is not None:
        return given
    if SOURCE in frame.columns:
        return SOURCE_TIMESTAMP
    raise RowsError(f"{step}: there is no column {SOURCE!r}; name the column with the time of a row: timestamp='...'")
