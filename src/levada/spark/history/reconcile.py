"""Compares two tables key by key, such as what a stream computed and what a batch computes from the same input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, MapType, NumericType, StructType

from levada.spark.history.differences import Difference, Kind, Report
from levada.spark.rows.problems import quoted

DEFAULT_LIMIT = 20
LEFT, RIGHT = "_left", "_right"
COUNTS = ("_left_count", "_right_count")
Tolerance = float | Mapping[str, float]


def reconcile(
    left: DataFrame,
    right: DataFrame,
    *,
    keys: str | Sequence[str],
    compare: Sequence[str] | None = None,
    tolerance: Tolerance | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Report:
    """Every key of both tables: missing on one side, there more than once, or with other values.

    >>> report = reconcile(from_stream, from_batch, keys="user", tolerance={"points": 0.01})
    >>> assert report.agrees, report

    Compared are all columns that both have, without those that begin with `_`, or those that `compare` names. Nulls are
    equal to nulls, and NaN to NaN. `tolerance` is the difference that numbers may have, in all columns or by column. Of
    each kind of difference the report has up to `limit` examples, those with the lowest keys. Columns that only one
    side has are reported as a difference.
    """
    comparison = Comparison.of(left, right, [keys] if isinstance(keys, str) else list(keys), compare)
    classified = comparison.classified(tolerance).persist()
    try:
        return comparison.report(classified, limit)
    finally:
        classified.unpersist()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared with what."""

    left: DataFrame
    right: DataFrame
    keys: Sequence[str]
    columns: Sequence[str]
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]

    @classmethod
    def of(cls, left: DataFrame, right: DataFrame, keys: Sequence[str], compare: Sequence[str] | None) -> "Comparison":
        if not keys:
            raise ValueError("name the columns that make a row unique: keys=['id']")
        for side, frame in (("left", left), ("right", right)):
            if frame.isStreaming:
                raise ValueError(f"the {side} one is a stream: write it to a topic or table, and read that")
            missing = [name for name in keys if name not in frame.columns]
            if missing:
                raise ValueError(f"the {side} one has no key column {missing[0]!r}, only {', '.join(frame.columns)}")
        columns = {side: _compared(frame, keys, compare) for side, frame in ((LEFT, left), (RIGHT, right))}
        if compare is not None:
            unknown = [name for name in compare if name not in columns[LEFT] and name not in columns[RIGHT]]
            if unknown:
                raise ValueError(f"neither has a column {unknown[0]!r} to compare")
        return cls(
            left,
            right,
            keys,
            [name for name in columns[LEFT] if name in columns[RIGHT]],
            tuple(name for name in columns[LEFT] if name not in columns[RIGHT]),
            tuple(name for name in columns[RIGHT] if name not in columns[LEFT]),
        )

    @property
    def other_types(self) -> dict[str, tuple[str, str]]:
        """Columns whose types cannot be compared as they are; their text is compared then."""
        return {
            name: (_type(self.left, name).simpleString(), _type(self.right, name).simpleString())
            for name in [*self.keys, *self.columns]
            if not _comparable(_type(self.left, name), _type(self.right, name))
        }

    def classified(self, tolerance: Tolerance | None) -> DataFrame:
        """One row for each key, with the kind of its difference (null if there is none) and the columns that differ."""
        both = self._side(self.left, LEFT).unionByName(self._side(self.right, RIGHT), allowMissingColumns=True)
        grouped = both.groupBy(*map(quoted, self.keys)).agg(
            sf.count(LEFT).alias(COUNTS[0]),
            sf.count(RIGHT).alias(COUNTS[1]),
            sf.first(LEFT, ignorenulls=True).alias(LEFT),
            sf.first(RIGHT, ignorenulls=True).alias(RIGHT),
        )
        differing = [sf.when(~self._equal(name, tolerance), sf.lit(name)) for name in self.columns]
        columns = sf.array_compact(sf.array(*differing)) if differing else sf.array().cast("array<string>")
        left_count, right_count = (sf.col(name) for name in COUNTS)
        kind = (
            sf.when((left_count > 1) | (right_count > 1), Kind.DUPLICATE.value)
            .when(left_count == 0, Kind.MISSING_LEFT.value)
            .when(right_count == 0, Kind.MISSING_RIGHT.value)
            .when(sf.size("_columns") > 0, Kind.DIFFERENT.value)
        )
        return grouped.withColumn("_columns", columns).withColumn("_kind", kind)

    def report(self, classified: DataFrame, limit: int) -> Report:
        counts = classified.groupBy("_kind").agg(
            sf.count("*").alias("keys"),
            sf.sum(COUNTS[0]).alias("left"),
            sf.sum(COUNTS[1]).alias("right"),
            *(sf.count_if(sf.array_contains("_columns", name)).alias(f"in {name}") for name in self.columns),
        )
        by_kind = {row["_kind"]: row for row in counts.collect()}
        ordered = [quoted(name) for name in self.keys]
        examples = [
            self._difference(row)
            for kind in Kind
            if kind.value in by_kind and limit > 0
            for row in classified.where(sf.col("_kind") == kind.value).orderBy(*ordered).limit(limit).collect()
        ]
        different = by_kind.get(Kind.DIFFERENT.value)
        return Report(
            keys=tuple(self.keys),
            left_rows=sum(row["left"] for row in by_kind.values()),
            right_rows=sum(row["right"] for row in by_kind.values()),
            equal=by_kind[None]["keys"] if None in by_kind else 0,
            differences={kind: by_kind[kind.value]["keys"] for kind in Kind if kind.value in by_kind},
            columns={name: different[f"in {name}"] for name in self.columns if different and different[f"in {name}"]},
            only_left_columns=self.only_left,
            only_right_columns=self.only_right,
            other_types=self.other_types,
            examples=tuple(examples),
        )

    def _side(self, frame: DataFrame, side: str) -> DataFrame:
        """Keys and one struct of everything else, so that a row with nothing but nulls still counts."""
        others = self.other_types
        columns = {name: sf.col(quoted(name)) for name in (*self.keys, *self.columns)}
        keys = [columns[name].cast("string").alias(name) if name in others else columns[name] for name in self.keys]
        values = [columns[name] for name in self.columns] or [sf.lit(1).alias("_")]
        return frame.select(*keys, sf.struct(*values).alias(side))

    def _equal(self, name: str, tolerance: Tolerance | None) -> Column:
        left, right = (sf.col(f"{side}.{quoted(name)}") for side in (LEFT, RIGHT))
        if name in self.other_types:
            return left.cast("string").eqNullSafe(right.cast("string"))
        kind = _type(self.left, name)
        if isinstance(kind, MapType):
            left, right = (sf.array_sort(sf.map_entries(side)) for side in (left, right))
        allowed = tolerance.get(name) if isinstance(tolerance, Mapping) else tolerance
        if allowed is None or not isinstance(kind, NumericType):
            return left.eqNullSafe(right)
        return left.eqNullSafe(right) | sf.coalesce(sf.abs(left - right) <= sf.lit(allowed), sf.lit(False))

    def _difference(self, row: Row) -> Difference:
        left, right = row[LEFT], row[RIGHT]
        return Difference(
            kind=Kind(row["_kind"]),
            key=tuple(row[name] for name in self.keys),
            columns={name: (left[name], right[name]) for name in row["_columns"]}
            if row["_kind"] == Kind.DIFFERENT.value
            else {},
            left_count=row[COUNTS[0]],
            right_count=row[COUNTS[1]],
        )


def _compared(frame: DataFrame, keys: Sequence[str], compare: Sequence[str] | None) -> list[str]:
    if compare is not None:
        return [name for name in compare if name in frame.columns]
    return [name for name in frame.columns if name not in keys and not name.startswith("_")]


def _type(frame: DataFrame, name: str) -> DataType:
    schema: StructType = frame.schema
    return schema[name].dataType


def _comparable(left: DataType, right: DataType) -> bool:
    if isinstance(left, NumericType) and isinstance(right, NumericType):
        return True
    # Whether something may be null is no difference of types.
    return left.simpleString() == right.simpleString()
