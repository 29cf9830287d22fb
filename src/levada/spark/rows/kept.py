"""Good and rejected rows in one frame, so that a source is read once and both are written together."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from levada.spark.rows.durations import Duration
from levada.spark.rows.problems import RowsError

if TYPE_CHECKING:
    from pyspark.sql import Observation
    from pyspark.sql.streaming.query import StreamingQuery

    from levada.spark.rows.rules import Rule

SOURCE = "_source"
"""Where a row comes from, and the record as it was there."""
REJECTED = "_rejected"
"""Why a row is not good, and which step said so, by its stage and its number; null for good rows."""
TOPIC = "_topic"
"""The topic that a row goes to, if it has one of its own."""
HEADERS = "_headers"
"""The headers that a row is written with."""
RESERVED = (SOURCE, REJECTED, TOPIC, HEADERS)

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
SOURCE_FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
SOURCE_TIMESTAMP = f"{SOURCE}.timestamp"

UNKNOWN_STEP = 0
_step_numbers = count(1)


@dataclass(frozen=True, slots=True)
class RejectingStep:
    """A step that has rejected rows; its number is in their `_rejected`."""

    number: int
    is_repeatable: bool = True
    """Whether a second query rejects the same rows: not if that depends on the time, or on other rows."""

    @classmethod
    def next(cls, is_repeatable: bool = True) -> "RejectingStep":
        return cls(next(_step_numbers), is_repeatable)


@dataclass(frozen=True, slots=True)
class Rows:
    """The fields of values as columns, with `_source` and `_rejected` beside them.

    `good` and `rejected` are the two halves. A query over `good` alone, such as an aggregation, leaves the rejected
    rows behind: `write_dead_letters` writes those in a query of their own. `write` writes both halves at once.
    """

    frame: DataFrame
    dead_letters: str
    """The topic that rejected rows are written to."""
    steps: tuple[RejectingStep, ...] = ()
    """Those that have rejected rows among these."""
    is_repeatable: bool = True
    """Whether a second query comes to the same rows: not after a step that depends on the time, or on other rows."""

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

    def with_frame(self, frame: DataFrame) -> "Rows":
        """The same with another frame, which must have `_source` and `_rejected` as this one has."""
        return replace(self, frame=frame)

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> "Rows":
        """Change all rows; the fields of rejected ones may be null, and what is computed for them is not written."""
        return self.with_frame(function(self.frame))

    def reject(self, condition: Column, reason: str | Column, stage: str) -> "Rows":
        """Reject the good rows for which the condition is true."""
        text = sf.lit(reason) if isinstance(reason, str) else reason
        return self.rejecting(lambda frame, step: reject(frame, condition, text, stage, step))

    def rejecting(self, function: Callable[[DataFrame, int], DataFrame]) -> "Rows":
        """What the function makes of the frame and of the number of a new step, which `reject` takes."""
        step = RejectingStep.next(self.is_repeatable)
        return replace(self, frame=function(self.frame, step.number), steps=(*self.steps, step))

    def unrepeatable(self) -> "Rows":
        """The same rows, of which a second query may have others."""
        return replace(self, is_repeatable=False)

    def without_rejected_by(self, numbers: Collection[int]) -> "Rows":
        """Without the rows that these steps have rejected, whose dead letters another query writes."""
        if not numbers:
            return self
        return self.with_frame(self.frame.where(is_good() | ~sf.col(REJECTED)["step"].isin(*numbers)))

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

    def quality(self, rules: "Iterable[Rule]", *, name: "str | Observation | None" = None) -> "Rows":
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


def reject(frame: DataFrame, condition: Column, reason: Column, stage: str, step: int) -> DataFrame:
    """The first reason stays: a row that is rejected already is left as it is."""
    before, told = sf.col(REJECTED), sf.when(condition, told_by(reason, stage, step))
    kind = frame.schema[REJECTED].dataType
    assert isinstance(kind, StructType)
    if "step" not in kind.fieldNames():
        # Made elsewhere, with a reason and a stage alone.
        before = sf.when(before.isNotNull(), told_by(before["reason"], before["stage"], UNKNOWN_STEP))
    return frame.withColumn(REJECTED, sf.coalesce(before, told))


def told_by(reason: Column, stage: str | Column, step: int) -> Column:
    """What `_rejected` is of a row that is not good."""
    return sf.struct(reason.cast("string").alias("reason"), sf.lit(stage).alias("stage"), sf.lit(step).alias("step"))


def default_timestamp(frame: DataFrame, given: str | None, step: str) -> str:
    """The column with the time of a row: the given one, else that of the record it comes from."""
    if given is not None:
        return given
    if SOURCE in frame.columns:
        return SOURCE_TIMESTAMP
    raise RowsError(f"{step}: there is no column {SOURCE!r}; name the column with the time of a row: timestamp='...'")
