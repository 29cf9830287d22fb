"""The current table from a stream of changes: INSERT, UPDATE and DELETE events, in order for each key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, NumericType, StructType, TimestampNTZType, TimestampType

from levada.spark.history import latest
from levada.spark.rows.durations import Duration, milliseconds
from levada.spark.rows.json_values import TO_JSON
from levada.spark.rows.kept import REJECTED, SOURCE, Kind, Rows, default_timestamp, frame_of, is_good, reject
from levada.spark.rows.packing import pack, unpack
from levada.spark.rows.problems import RowsError, column_of, quoted
from levada.spark.rows.reading import Format, Schema, read

INSERT, UPDATE, DELETE = "INSERT", "UPDATE", "DELETE"
OPERATIONS = {INSERT: INSERT, "C": INSERT, UPDATE: UPDATE, "U": UPDATE, DELETE: DELETE, "D": DELETE}
"""What the column may say, in any case of letters, and what is meant."""

DEFAULT_OPERATION = "op"
STAGE = "changes"
BUCKETS = 64
"""Keys are kept in so many groups: Python is called once for each in a micro-batch, not once for each key."""
SALT = "second"


def changes(
    changed: str | Rows | DataFrame,
    *,
    key: str | Sequence[str],
    operation: str = DEFAULT_OPERATION,
    order: str | Sequence[str] | None = None,
    schema: Schema = None,
    format: Format = "json",
    spark: SparkSession | None = None,
    bootstrap: str | None = None,
    **options: Any,
) -> DataFrame:
    """The table as it is after all changes of a topic, or of rows that were read from one in batch.

    >>> customers = changes("customers", key="id", schema="op string, id string, name string, city string")
    >>> customers.columns
    ['id', 'name', 'city']

    An event is a row: `op` (INSERT, UPDATE or DELETE in any case of letters, or c, u, d), the key's columns, and the
    rest of the row as it is after the change; a DELETE needs only the key. See `apply_changes` for what orders them. An
    event that cannot be understood is an error; where there may be such, `apply_changes` of `read` rejects them.
    """
    if isinstance(changed, str):
        if schema is None:
            raise ValueError(f"changes of topic {changed!r} need a schema, such as schema='op string, id string'")
        found = read(
            changed, schema=schema, format=format, stream=False, spark=spark, bootstrap=bootstrap, **options
        ).frame
        frame = _without_rejected(found)
    else:
        frame = changed.good if isinstance(changed, Rows) else changed
    if frame.isStreaming:
        raise ValueError(
            "a stream has no table yet: apply_changes() keeps one up to date, changes() takes stream=False"
        )
    applied = apply_changes(frame, key=key, operation=operation, order=order)
    table = applied.where(sf.col(quoted(operation)) != DELETE)
    return table.select(*(quoted(name) for name in table.columns if name != operation and not name.startswith("_")))


def apply_changes(
    changed: Kind,
    *,
    key: str | Sequence[str],
    operation: str = DEFAULT_OPERATION,
    order: str | Sequence[str] | None = None,
    forget_deleted_after: Duration | None = None,
    forget_after: Duration | None = None,
    timestamp: str | None = None,
) -> Kind:
    """The latest change of each key, for a table that is to be kept: rows to upsert, or to delete where `op` is DELETE.

    >>> events = read("customers", schema="op string, id string, name string")
    >>> query = write(apply_changes(events, key="id"), "customers.table", key="id")

    Of a stream it gives, for each micro-batch, the latest change of each key that moved forward. Events are ordered by
    their offsets, for which all events of a key must be in one partition, or by the columns that `order` names, such as
    a version or a log sequence number; of equal ones the first that was written counts. An event that is not newer than
    what was applied changes nothing, so repetitions and stragglers neither bring back a deleted key nor an older row.
    The state has about 60 bytes for each key, and keeps them for ever, also those of deleted ones, unless it is told
    how long: `forget_deleted_after="7 days"` is for keys whose last change is a DELETE, `forget_after` for all. It is
    counted from the batch with the key's last change, by the newest `timestamp` of the rows, by default that of their
    records; so nothing is forgotten while the query stands still. Keys are in groups, which are looked through when a
    row of theirs comes.

    **A key that was forgotten is as good as new: the next event of it passes, whatever its order.** Where offsets order
    the events that does no harm, as a later event is the newer one. Where columns do, a straggler from before the last
    change puts an old row into the table, or brings a deleted one back, and it stays until the key's next change. So
    take longer than any event can be late, written twice, or left waiting in one partition while others are read.

    Events with an unknown operation, without a key or without an order are rejected (`Rows`) or an error (DataFrame).
    """
    forgetting = _forgetting(forget_deleted_after, forget_after)
    frame, time = frame_of(changed), None
    if forgetting.is_on:
        time = column_of(frame, default_timestamp(frame, timestamp, "apply_changes"), "the timestamp")
    ordered = Order.of(frame, key, operation, order)
    apply = partial(_apply, order=ordered, time=time, forgetting=forgetting)
    if isinstance(changed, Rows):
        return changed.rejecting(lambda rejecting, step: apply(rejecting, step=step))
    return apply(changed)


def compacted(changed: Kind, *, operation: str = DEFAULT_OPERATION) -> Kind:
    """Changes as a compacted topic keeps them: `value` is the row as JSON, and nothing where the key is deleted.

    >>> table = compacted(apply_changes(events, key="id"))
    >>> query = write(table, "customers.table", key="id", format="binary", checkpoint="...")
    """
    frame = frame_of(changed)
    names = [name for name in frame.columns if name != operation and not name.startswith("_")]
    row = sf.to_json(sf.struct(*map(quoted, names)), TO_JSON).cast("binary")
    with_value = frame.withColumn("value", sf.when(sf.col(quoted(operation)) != DELETE, row))
    return changed.with_frame(with_value) if isinstance(changed, Rows) else with_value


@dataclass(frozen=True, slots=True)
class Order:
    """Which columns say what of an event."""

    keys: Sequence[str]
    operation: str
    columns: Mapping[str, Column]
    """What orders the events, by the names that were given; empty where offsets do."""
    place: Column | None
    """Topic, partition and offset of the event, where they are known."""

    @classmethod
    def of(
        cls, frame: DataFrame, key: str | Sequence[str], operation: str, order: str | Sequence[str] | None
    ) -> "Order":
        keys = [key] if isinstance(key, str) else list(key)
        ordering = [order] if isinstance(order, str) else list(order or ())
        if not keys:
            raise ValueError("name the columns of the key: key='id'")
        for name in (*keys, operation):
            if name not in frame.columns:
                raise ValueError(f"changes have no column {name!r}, only {', '.join(frame.columns)}")
        place = _place(frame)
        if not ordering and place is None:
            raise ValueError(
                f"nothing orders the changes: keep the column {SOURCE}, or name a column with order='version'"
            )
        return cls(keys, operation, {name: _comparable(frame, name) for name in ordering}, place)

    @property
    def values(self) -> list[Column]:
        """From the most significant on; the greatest is the latest."""
        if not self.columns:
            assert self.place is not None
            return [self.place["offset"]]
        first_counts = [] if self.place is None else [-self.place["offset"], -self.place["partition"]]
        return [*self.columns.values(), *first_counts]

    @property
    def partition(self) -> Column:
        """The partition that all events of a key must share; null where it does not matter."""
        if self.columns:
            return sf.lit(None).cast("string")
        assert self.place is not None
        return sf.concat_ws("-", self.place["topic"], self.place["partition"])

    @property
    def objection(self) -> Column:
        """Why an event cannot be applied; null if it can."""
        given = sf.col(quoted(self.operation))
        told = sf.coalesce(sf.concat(sf.lit("'"), given, sf.lit("'")), sf.lit("null"))
        nulls = [
            sf.when(sf.col(quoted(name)).isNull(), sf.lit(f"{what} {name!r} is null"))
            for what, names in (("key", self.keys), ("order", self.columns))
            for name in names
        ]
        if not self.columns:
            assert self.place is not None
            # A line of a file has no offset.
            nulls.append(
                sf.when(self.place["offset"].isNull(), sf.lit("nothing orders it: name a column, order='version'"))
            )
        known = f" is none of {INSERT}, {UPDATE}, {DELETE} (or c, u, d)"
        unknown = sf.when(self.meant.isNull(), sf.concat(sf.lit(f"operation {self.operation} = "), told, sf.lit(known)))
        return sf.coalesce(*nulls, unknown)

    @property
    def meant(self) -> Column:
        table = sf.create_map(*(sf.lit(word) for pair in OPERATIONS.items() for word in pair))
        return sf.try_element_at(table, sf.upper(sf.trim(sf.col(quoted(self.operation)))))


def _forgetting(deleted_after: Duration | None, after: Duration | None) -> latest.Forgetting:
    given = {"forget_deleted_after": deleted_after, "forget_after": after}
    lengths_us = {
        name: milliseconds(length, f"{name} of apply_changes") * 1_000
        for name, length in given.items()
        if length is not None
    }
    forgetting = latest.Forgetting(lengths_us.get("forget_deleted_after"), lengths_us.get("forget_after"))
    if len(lengths_us) == 2 and lengths_us["forget_deleted_after"] >= lengths_us["forget_after"]:
        raise RowsError(
            "apply_changes: forget_after forgets deleted keys as well, so forget_deleted_after must be shorter: "
            "make it so, or leave it out"
        )
    return forgetting


def _apply(
    frame: DataFrame, order: Order, time: Column | None, forgetting: latest.Forgetting, step: int | None = None
) -> DataFrame:
    if step is not None:
        checked = reject(frame, order.objection.isNotNull(), order.objection, STAGE, step)
        checked = checked.withColumn(order.operation, sf.coalesce(order.meant, sf.col(quoted(order.operation))))
    else:
        complaint = sf.raise_error(sf.concat(sf.lit("change cannot be applied: "), order.objection)).cast("string")
        meant = sf.when(order.objection.isNull(), order.meant).otherwise(complaint)
        checked = frame.withColumn(order.operation, meant)
    if frame.isStreaming:
        return _latest_of_stream(checked, order, time, forgetting)
    if REJECTED not in frame.columns:
        return _latest_of_batch(checked, order)
    return _latest_of_batch(checked.where(is_good()), order).union(checked.where(~is_good()))


def _latest_of_stream(
    checked: DataFrame, order: Order, time: Column | None, forgetting: latest.Forgetting
) -> DataFrame:
    keys = [sf.col(quoted(name)) for name in order.keys]
    # Null adds nothing to a hash, so that (null, x) and (x, null) would look alike.
    hashed = [part for key in keys for part in (key.isNull(), key)]
    first, second = sf.xxhash64(*hashed), sf.xxhash64(sf.lit(SALT), *hashed)
    control = {
        latest.BUCKET: sf.pmod(first, sf.lit(BUCKETS)).cast("int"),
        latest.FIRST_HASH: first,
        latest.SECOND_HASH: second,
        latest.KEY_TEXT: sf.to_json(sf.struct(*keys)),
        latest.PLACE: order.partition,
        latest.IS_REJECTED: ~is_good() if REJECTED in checked.columns else sf.lit(False),
        latest.IS_DELETED: sf.coalesce(sf.col(quoted(order.operation)) == DELETE, sf.lit(False)),
        **{f"{latest.ORDER}{number}": _never_null(checked, value) for number, value in enumerate(order.values)},
    }
    if time is not None:
        control[latest.TIME] = sf.coalesce(sf.unix_micros(time.cast("timestamp")), sf.lit(latest.NO_TIME))
    packed = pack(checked, control)
    kept = [field for field in packed.schema.fields if field.name not in control]
    passed = packed.groupBy(latest.BUCKET).applyInPandasWithState(
        latest.LatestChange(len(order.values), tuple(field.name for field in kept), forgetting),
        StructType(kept),
        latest.STATE,
        "append",
        "NoTimeout",
    )
    return unpack(passed, checked.schema, {})


def _latest_of_batch(checked: DataFrame, order: Order) -> DataFrame:
    whole, keys = sf.struct(*map(quoted, checked.columns)), [sf.col(quoted(name)) for name in order.keys]
    ordering = sf.struct(*(value.alias(f"o{number}") for number, value in enumerate(order.values)))
    places = [] if order.columns else [sf.array_sort(sf.collect_set(order.partition)).alias("places")]
    found = checked.groupBy(*keys).agg(sf.max_by(whole, ordering).alias("latest"), *places)
    if places:
        complaint = sf.concat(
            sf.lit("offsets do not order the changes of "),
            sf.to_json(sf.struct(*keys)),
            sf.lit(": they are in "),
            sf.array_join("places", " and "),
            sf.lit("; name a column with order='version'"),
        )
        scattered = sf.raise_error(complaint).cast("boolean")
        # In a condition, so that it is looked at whichever columns are used later.
        found = found.where(sf.when(sf.size("places") > 1, scattered).otherwise(sf.lit(True)))
    return found.select("latest.*")


def _place(frame: DataFrame) -> Column | None:
    """Where a row was read, if its frame says so."""
    names = ("topic", "partition", "offset")
    if SOURCE in frame.columns:
        return sf.struct(*(sf.col(f"{SOURCE}.{name}").alias(name) for name in names))
    if set(names) <= set(frame.columns):
        return sf.struct(*names)
    return None


def _comparable(frame: DataFrame, name: str) -> Column:
    """Times as numbers: the state would hand them back as another kind of time than the rows."""
    column = sf.col(quoted(name))
    kind = frame.select(column).schema[0].dataType
    if isinstance(kind, TimestampType | TimestampNTZType):
        return sf.unix_micros(column.cast("timestamp"))
    return sf.unix_date(column) if isinstance(kind, DateType) else column


def _never_null(frame: DataFrame, value: Column) -> Column:
    """Only rejected rows have no order; for one that is null pandas would make all whole numbers inexact."""
    kind = frame.select(value).schema[0].dataType
    return sf.coalesce(value, sf.lit(0).cast(kind)) if isinstance(kind, NumericType) else value


def _without_rejected(frame: DataFrame) -> DataFrame:
    """Rows that did not parse are an error here: a table without them would be a wrong one."""
    told = sf.concat(
        sf.lit("a record cannot be read as a change: "),
        sf.col(f"{REJECTED}.reason"),
        sf.lit(" at "),
        sf.concat_ws("-", f"{SOURCE}.topic", f"{SOURCE}.partition", f"{SOURCE}.offset"),
    )
    all_good = sf.when(is_good(), sf.lit(True)).otherwise(sf.raise_error(told).cast("boolean"))
    return frame.where(all_good).drop(REJECTED)
