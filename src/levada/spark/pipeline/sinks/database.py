"""A sink that keeps a database's table: rows are inserted, changed and deleted by their key, exactly once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from levada.spark.pipeline.chunks import Spool, packed_chunks, spooled
from levada.spark.pipeline.databases import (
    Database,
    DatabaseAway,
    Guard,
    connect,
    quoted,
    quoted_table,
    safe,
)
from levada.spark.pipeline.problems import PipelineError, unknown
from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, is_written, visible
from levada.spark.pipeline.tables import Table, TableWriter
from levada.spark.rows.problems import quoted as quoted_column

BOOKS: Final = "levada_batches"
"""A table in the same database: the last batch of each query that is written."""

BOOKS_DEFINITION: Final = "query VARCHAR(200) PRIMARY KEY, batch BIGINT NOT NULL"
BOOKS_RIGHTS: Final = ("SELECT", "INSERT", "UPDATE")
TEXTS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
"""In Spark's SQL: what is in them are no columns."""

DELETED: Final = "_deleted"
COUNT: Final = "_count"
DEFAULT_RETRY_S: Final = 600.0
NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class DatabaseSink(BatchSink):
    """`order` says which change of a key is the last, `delete_when` (SQL) which ones delete; `retry_for_s` how long to
    wait for a database that is away; `is_complete` that each batch is the whole table."""

    address: str
    table: str
    key: tuple[str, ...]
    order: str | None = None
    delete_when: str | None = None
    create: bool = False
    retry_for_s: float = DEFAULT_RETRY_S
    is_complete: bool = False

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
        # All of it, before there is a transaction: that must not wait for Spark.
        with spooled(packed_chunks(changes)) as spool:
            self._write_when_back(changes.schema, spool, batch, control)

    def _write_when_back(self, schema: StructType, spool: Spool, batch: MicroBatch, control: Control) -> None:
        waits = control.waits(self.retry_for_s)
        while True:
            try:
                with connect(self.address) as database:
                    self._write_once(database, schema, spool, batch)
                control.report("")
                return
            except DatabaseAway as error:
                control.report(f"waiting for {safe(self.address)}: {error}")
                if next(waits, NEVER) == NEVER:
                    raise PipelineError(
                        f"{safe(self.address)} was away for {self.retry_for_s:g} s (retry_for): {error}"
                    ) from error

    def _write_once(self, database: Database, schema: StructType, spool: Spool, batch: MicroBatch) -> None:
        mark = database.placeholder
        if self.create:
            database.create_table(self.table, self._table_definition(database, schema))
        database.create_table(BOOKS, BOOKS_DEFINITION)
        table = self._table(database, schema)
        database.begin()
        database.execute(
            f"INSERT INTO {BOOKS} (query, batch) VALUES ({mark}, {mark}) ON CONFLICT (query) DO NOTHING",
            [batch.query, NEVER],
        )
        # Held until the commit: of two drivers with one checkpoint the second finds the batch done.
        if is_written(database.lock_batch(BOOKS, batch.query), batch):
            return
        writer = TableWriter(database, table, schema.names, DELETED)
        if self.is_complete:
            writer.clear()
        elif self.delete_when is not None:
            # First, as what is inserted may have what they give up.
            writer.delete(spool)
        writer.upsert(spool)
        database.execute(f"UPDATE {BOOKS} SET batch = {mark} WHERE query = {mark}", [batch.number, batch.query])
        database.commit()

    def _table(self, database: Database, schema: StructType) -> Table:
        columns = {column.name: column for column in database.columns(self.table)}
        written = tuple(column for name, column in columns.items() if name in schema.names)
        guard = None
        if self.order in columns:
            guard = Guard(columns[self.order], schema[self.order].dataType)
        return Table(self.table, written, tuple(columns[name] for name in self.key), guard)

    def _table_problems(self, database: Database, schema: StructType) -> list[str]:
        columns = {column.name for column in database.columns(self.table)}
        if not columns and self.create:
            made = self._creation_problems(database, self.table) or self._books_problems(database)
            return self._type_problems(database, schema) + made
        if not columns:
            statement = _create_statement(self.table, self._table_definition(database, schema))
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
        found += self._type_problems(database, schema)
        return found or self._rights_problems(database, schema)

    def _rights_problems(self, database: Database, schema: StructType) -> list[str]:
        table = self._table(database, schema)
        written = [column.name for column in table.written]
        changed = [column.name for column in table.written if column not in table.key]
        # What a conflict reads of the row that is new counts as read from the table.
        needed = [("INSERT", written), ("SELECT", written), *([("UPDATE", changed)] if changed else [])]
        lacking = [right for right, columns in needed if database.lacking(self.table, right, columns)]
        if (self.delete_when is not None or self.is_complete) and database.lacking(self.table, "DELETE"):
            lacking.append("DELETE")
        return _grant_problems(database, self.table, lacking) + self._books_problems(database)

    def _books_problems(self, database: Database) -> list[str]:
        if not database.columns(BOOKS):
            return self._creation_problems(database, BOOKS)
        lacking = [right for right in BOOKS_RIGHTS if database.lacking(BOOKS, right)]
        return _grant_problems(database, BOOKS, lacking)

    def _creation_problems(self, database: Database, table: str) -> list[str]:
        if database.may_create(table):
            return []
        rights = f"GRANT {', '.join(BOOKS_RIGHTS)} ON {BOOKS} TO {database.user}"
        how = f"let its owner run: {_create_statement(BOOKS, BOOKS_DEFINITION)}; {rights}"
        return [
            f"table {table!r} is not there, and {database.user!r} may not create it: "
            + (how if table == BOOKS else "let the database's owner create it")
        ]

    def _type_problems(self, database: Database, schema: StructType) -> list[str]:
        return [
            f"column {field.name!r} is {field.dataType.simpleString()}: use to_json({field.name}) or a plain type"
            for field in schema.fields
            if not field.name.startswith("_") and database.column_type(field.dataType) is None
        ]

    def _is_only_used(self, name: str) -> bool:
        """Columns that say what to do with a row need not be in the table."""
        words = re.findall(r"\w+", TEXTS.sub("", self.delete_when or "").lower())
        return name == self.order or name.lower() in words

    def _named(self) -> list[str]:
        return [*self.key, *([self.order] if self.order else [])]

    def _table_definition(self, database: Database, schema: StructType) -> str:
        """With every column: which ones only say what to do with a row, the rows do not tell."""
        kept = [
            f"{quoted(field.name)} {database.column_type(field.dataType)}"
            for field in schema.fields
            if not field.name.startswith("_")
        ]
        return f"{', '.join(kept)}, PRIMARY KEY ({', '.join(quoted(name) for name in self.key)})"


def _create_statement(table: str, definition: str) -> str:
    return f"CREATE TABLE IF NOT EXISTS {quoted_table(table)} ({definition})"


def _grant_problems(database: Database, table: str, rights: Sequence[str]) -> list[str]:
    if not rights:
        return []
    user, wanted = database.user, ", ".join(rights)
    return [f"table {table!r}: {user!r} has no right to {wanted}: GRANT {wanted} ON {table} TO {user}"]


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
