"""The rules that rows can be held against."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from levada.spark.rows.durations import Duration, milliseconds
from levada.spark.rows.problems import RowsError, column_of, first_line

COMPARED_WITH_TEXT: Final = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
"""Types of columns whose bounds may be written as text."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What rows can be held against, by its name in reasons and counts."""

    name: str

    @property
    def is_repeatable(self) -> bool:
        """Whether a row that breaks it always does."""
        return True


@dataclass(frozen=True, slots=True)
class Condition(Rule):
    """Something that is true of a row that keeps it; unknown (null) counts as kept."""

    holds: Callable[[DataFrame], Column]
    is_timed: bool = False
    """Whether it depends on when the row is looked at."""

    @property
    def is_repeatable(self) -> bool:
        return not self.is_timed


@dataclass(frozen=True, slots=True)
class Unique(Rule):
    """No two rows have the same keys within some time."""

    keys: tuple[str, ...]
    within_ms: int
    timestamp: str | None

    @property
    def is_repeatable(self) -> bool:
        return False


def not_null(column: str) -> Rule:
    """The column has a value."""
    name = f"not_null({column})"
    return Condition(name, lambda frame: column_of(frame, column, name).isNotNull())


def in_range(column: str, low: Any = None, high: Any = None) -> Rule:
    """The value is at least `low` and at most `high`; None is no bound. NaN is in no range.

    Bounds of dates and times may be text, such as `"2026-01-01"`; one without a zone is in that of the session. Text is
    compared with text, letter by letter.
    """
    name = f"in_range({column})"
    if low is None and high is None:
        raise RowsError(f"{name}: give a lowest value, a highest, or both")

    def holds(frame: DataFrame) -> Column:
        value = column_of(frame, column, name)
        kind = frame.select(value.alias("value")).schema[0].dataType
        is_number = sf.lit(True)
        if isinstance(kind, FloatType | DoubleType):
            is_number = ~sf.isnan(value)
        above = sf.lit(True) if low is None else value >= _bound(frame, low, kind, f"the low of {name}")
        below = sf.lit(True) if high is None else value <= _bound(frame, high, kind, f"the high of {name}")
        return above & below & is_number

    return Condition(name, holds)


def _bound(frame: DataFrame, given: Any, kind: DataType, what: str) -> Column:
    """The bound in the column's own type: of two types Spark may change the column's values to the bound's, and end the
    query at the first that cannot be."""
    if isinstance(given, int | float | Decimal) and not isinstance(given, bool) and isinstance(kind, NumericType):
        return sf.lit(given)
    written = given.isoformat() if isinstance(given, date) else given
    if isinstance(written, str) and isinstance(kind, COMPARED_WITH_TEXT):
        bound = sf.lit(written).try_cast(kind)
        if frame.sparkSession.sql("SELECT 1").select(bound).head() != (None,):
            return bound
    raise RowsError(f"{what} must be a value for the column, which is {kind.simpleString()}, not {given!r}")


def matches(column: str, pattern: str) -> Rule:
    """The text has a part that matches the regular expression (Java's); use ^ and $ for the whole of it."""
    name = f"matches({column})"
    return Condition(name, lambda frame: column_of(frame, column, name).cast("string").rlike(pattern))


def fresh(column: str, within: Duration) -> Rule:
    """The time in the column is at most `within` before the micro-batch began."""
    name = f"fresh({column})"
    within_ms = milliseconds(within, f"within of {name}")

    def holds(frame: DataFrame) -> Column:
        time = column_of(frame, column, name).cast("timestamp")
        return sf.unix_millis(sf.current_timestamp()) - sf.unix_millis(time) <= within_ms

    return Condition(name, holds, is_timed=True)


def check(name: str, condition: str) -> Rule:
    """A condition in SQL, such as `check("paid", "amount <= paid")`."""

    def holds(frame: DataFrame) -> Column:
        try:
            column = sf.expr(condition)
            kind = frame.select(column.alias("held")).schema[0].dataType
        except PySparkException as error:
            raise RowsError(f"rule {name!r}: {first_line(error)}") from None
        if not isinstance(kind, BooleanType):
            raise RowsError(f"rule {name!r}: {condition!r} is not true or false, but {kind.simpleString()}")
        return column

    return Condition(name, holds)


def unique(keys: str | Iterable[str], within: Duration, *, timestamp: str | None = None) -> Unique:
    """No row has the same keys as one before it, up to `within` earlier by the rows' own time.

    `timestamp` is the column with that time, by default the record's. Rows that have a null among the keys are unique.
    In a stream, keys are remembered as `deduplicate` does it.
    """
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    name = f"unique({', '.join(names)})"
    if not names:
        raise RowsError("unique: name at least one column")
    return Unique(name, names, milliseconds(within, f"within of {name}"), timestamp)
