"""A sink that keeps a database's table: rows are inserted, changed and deleted by their key, exactly once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from levada.spark.pipeline.chunks import chunks
from levada.spark.pipeline.databases import (
    Database,
    DatabaseAway,
    Row,
    TableColumn,
    connect,
    quoted,
    quoted_table,
    safe,
)
from levada.spark.pipeline.problems import PipelineError, unknown
from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, visible
from levada.spark.rows.problems import quoted as quoted_column

BOOKS: Final = "levada_batches"
"""A table in the same database: the last batch of each query that is written."""

DELETED: Final = "_deleted"
COUNT: Final = "_count"
DEFAULT_RETRY_S: Final = 600.0
NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class DatabaseSink(BatchSink):
    """`order` says which change of a key is the last, `delete_when` (SQL) which ones delete; `retry_for_s` how long to
    wait for a database that is away."""

    address: str
    table: str
    key: tuple[str, ...]
    order: str | None = None
    delete_when: str | None = None
    create: bool = False
    retry_for_s: float = DEFAULT_RETRY_S

    modes: ClassVar[Sequence[str]] = ("append", "update")

    def problems(self, schema: StructType, query: str | None) -> list[str]:
        names = visible(schema.names)
        missing = [name for name in self._named() if name not in schema.names]
        found = [unknown("column", name, names) for name in missing]
        try:
            with connect(self.address) as database:
                return found + self._table_problems(database, schema)
        except (DatabaseAway, PipelineError) as error:
            return [*found, f"cannot use {safe(self.address)}: {error}"]

    def write(self, frame: DataFrame, batch: MicroBatch, control: Control) -> None:
        """In one transaction with the batch's number; tried again while the database is away."""
        changes = last_changes(frame, self.key, self.order, self.delete_when)
        waits = control.waits(self.retry_for_s)
        while True:
            try:
                with connect(self.address) as database:
                    self._write_once(database, changes, batch)
                control.report("")
                return
            except DatabaseAway as error:
                control.report(f"waiting for {safe(self.address)}: {error}")
                if next(waits, NEVER) == NEVER:
                    raise PipelineError(
                        f"{safe(self.address)} was away for {self.retry_for_s:g} s (retry_for): {error}"
                    ) from error

    def _write_once(self, database: Database, changes: DataFrame, batch: MicroBatch) -> None:
        mark = database.placeholder
        if self.create and not database.columns(self.table):
            database.execute(self._create_statement(database, changes.schema))
        database.execute(f"CREATE TABLE IF NOT EXISTS {BOOKS} (query VARCHAR(200) PRIMARY KEY, batch BIGINT NOT NULL)")
        database.begin()
        database.execute(
            f"INSERT INTO {BOOKS} (query, batch) VALUES ({mark}, {mark}) ON CONFLICT (query) DO NOTHING",
            [batch.query, NEVER],
        )
        # Held until the commit: of two drivers with one checkpoint the second finds the batch done.
        last = database.lock_batch(BOOKS, batch.query)
        if last is not None and last >= batch.number:
            return
        table = Table(self.table, tuple(database.columns(self.table)), self.key, self.order)
        for chunk in chunks(changes):
            _apply(database, table, chunk.schema.names, [tuple(row.values()) for row in chunk.to_pylist()])
        database.execute(f"UPDATE {BOOKS} SET batch = {mark} WHERE query = {mark}", [batch.number, batch.query])
        database.commit()

    def _table_problems(self, database: Database, schema: StructType) -> list[str]:
        columns = {column.name for column in database.columns(self.table)}
        if not columns and self.create:
            return self._type_problems(database, schema)
        if not columns:
            statement = self._create_statement(database, schema)
            return [f"there is no table {self.table!r}; set create: true, or make it: {statement}"]
        found = [
            f"table {self.table!r}: {unknown('column', name, columns)}" for name in self.key if name not in columns
        ]
        if not found and frozenset(self.key) not in database.unique_keys(self.table):
            found.append(f"table {self.table!r} has no primary key or unique index on ({', '.join(self.key)})")
        found += [
            f"table {self.table!r}: {unknown('column', name, columns)}"
            for name in visible(schema.names)
            if name not in columns and not self._is_only_used(name) and name not in self.key
        ]
        return found + self._type_problems(database, schema)

    def _type_problems(self, database: Database, schema: StructType) -> list[str]:
        return [
            f"column {field.name!r} is {field.dataType.simpleString()}: use to_json({field.name}) or a plain type"
            for field in schema.fields
            if not field.name.startswith("_") and database.column_type(field.dataType) is None
        ]

    def _is_only_used(self, name: str) -> bool:
        """Columns that say what to do with a row need not be in the table."""
        return name == self.order or name in re.findall(r"\w+", self.delete_when or "")

    def _named(self) -> list[str]:
        return [*self.key, *([self.order] if self.order else [])]

    def _create_statement(self, database: Database, schema: StructType) -> str:
        kept = [
            f"{quoted(field.name)} {database.column_type(field.dataType)}"
            for field in schema.fields
            if not field.name.startswith("_") and (field.name == self.order or not self._is_only_used(field.name))
        ]
        key = ", ".join(quoted(name) for name in self.key)
        return f"CREATE TABLE IF NOT EXISTS {quoted_table(self.table)} ({', '.join(kept)}, PRIMARY KEY ({key}))"


@dataclass(frozen=True, slots=True)
class Table:
    """The statements for one table."""

    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    order: str | None

    @property
    def guard(self) -> str | None:
        """The order column if the table keeps it: an older change, even from an older batch, changes nothing then."""
        return self.order if self.order in {column.name for column in self.columns} else None

    def written(self, names: Sequence[str]) -> list[TableColumn]:
        return [column for column in self.columns if column.name in names]

    def on_conflict(self, written: Sequence[TableColumn]) -> str:
        key = ", ".join(quoted(name) for name in self.key)
        others = [quoted(column.name) for column in written if column.name not in self.key]
        if not others:
            return f"ON CONFLICT ({key}) DO NOTHING"
        update = f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"
        if self.guard is None:
            return update
        kept, new = f"{quoted_table(self.name)}.{quoted(self.guard)}", f"excluded.{quoted(self.guard)}"
        return f"{update} WHERE {kept} IS NULL OR {new} >= {kept}"

    def delete(self, placeholder: str) -> str:
        conditions = [f"{quoted(name)} = {placeholder}" for name in self.key]
        if self.guard is not None:
            guard = quoted(self.guard)
            conditions.append(f"({guard} IS NULL OR {guard} <= {placeholder})")
        return f"DELETE FROM {quoted_table(self.name)} WHERE {' AND '.join(conditions)}"


def last_changes(frame: DataFrame, key: Sequence[str], order: str | None, delete_when: str | None) -> DataFrame:
    """One row for each key, the last, with a column that says whether it deletes.

    Without an order column it is the record's place in its topic; without that either, two rows for a key in one batch
    are an error: neither is known to be the later one.
    """
    deleted = F.coalesce(F.expr(delete_when), F.lit(False)) if delete_when else F.lit(False)
    keys = [F.col(quoted_column(name)) for name in key]
    marked = frame.withColumn(DELETED, deleted)
    for name in key:
        marked = marked.withColumn(name, _not_null(name))
    latest = _latest_first(frame, order)
    text = f"two rows for one key ({', '.join(key)}) in a batch: name the column that orders them (order)"
    if latest is None:
        counted = marked.withColumn(COUNT, F.count("*").over(Window.partitionBy(*keys)))
        kept = counted.where(F.when(F.col(COUNT) > 1, F.raise_error(F.lit(text)).cast("boolean")).otherwise(True))
    else:
        counted = marked.withColumn(COUNT, F.row_number().over(Window.partitionBy(*keys).orderBy(*latest)))
        is_last = F.col(COUNT) == 1
        if order is None:
            # Lines of files have no offsets; nulls come last.
            is_unordered = (F.col(COUNT) > 1) & F.col("_source.offset").isNull()
            is_last = F.when(is_unordered, F.raise_error(F.lit(text)).cast("boolean")).otherwise(is_last)
        kept = counted.where(is_last)
    return kept.select(*(quoted_column(name) for name in visible(frame.columns)), DELETED)


def _latest_first(frame: DataFrame, order: str | None) -> list[Any] | None:
    if order is not None:
        by_order = [F.col(quoted_column(order)).desc_nulls_last()]
        return by_order + ([F.col("_source.offset").desc()] if "_source" in frame.columns else [])
    # Records with one key are in one partition, where offsets are their order.
    return [F.col("_source.offset").desc()] if "_source" in frame.columns else None


def _not_null(name: str) -> Any:
    column = F.col(quoted_column(name))
    text = f"the key column {name!r} is null in a row: a quality rule can send such rows to the dead letters"
    return F.when(column.isNull(), F.raise_error(F.lit(text))).otherwise(column)


def _apply(database: Database, table: Table, names: list[str], rows: list[Row]) -> None:
    place = {name: index for index, name in enumerate(names)}
    deleted = place[DELETED]
    written = table.written(names)
    places = [place[column.name] for column in written]
    inserted = [tuple(row[index] for index in places) for row in rows if not row[deleted]]
    if inserted:
        database.insert_many(table.name, written, table.on_conflict(written), inserted)
    named = [place[name] for name in (*table.key, *([table.guard] if table.guard else []))]
    removed = [tuple(row[index] for index in named) for row in rows if row[deleted]]
    if removed:
        database.execute_many(table.delete(database.placeholder), removed)
