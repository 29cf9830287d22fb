"""A database's table as a sink changes it: by statements for many rows, in whatever order they can be done."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from levada.spark.pipeline.databases import (
    Database,
    Guard,
    NotUnique,
    Row,
    TableColumn,
    quoted,
    quoted_table,
)
from levada.spark.pipeline.problems import PipelineError

MOST_ROW_BYTES: Final = 400 << 20
"""Of a row: in a statement's text it can become twice as long, and PostgreSQL takes no gigabyte."""


@dataclass(frozen=True, slots=True)
class Table:
    """What is there, and what is written of it; `guard` only if the table keeps the order of changes: an older
    change, even from an older batch, changes nothing then."""

    name: str
    written: tuple[TableColumn, ...]
    key: tuple[TableColumn, ...]
    guard: Guard | None

    def on_conflict(self, database: Database) -> str:
        key = ", ".join(quoted(column.name) for column in self.key)
        others = [quoted(column.name) for column in self.written if column not in self.key]
        if not others:
            return f"ON CONFLICT ({key}) DO NOTHING"
        update = f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"
        if self.guard is None:
            return update
        name = quoted(self.guard.column.name)
        kept = f"{quoted_table(self.name)}.{name}"
        return f"{update} WHERE {kept} IS NULL OR {database.at_least(self.guard, f'excluded.{name}', kept)}"


class TableWriter:
    """The changes of a batch, inside of a transaction: one for each key."""

    def __init__(self, database: Database, table: Table, names: Sequence[str], deleted: str) -> None:
        self._database = database
        self._table = table
        self._place = {name: index for index, name in enumerate(names)}
        self._deleted = self._place[deleted]
        self._on_conflict = table.on_conflict(database)
        self._refusal: NotUnique | None = None

    def clear(self) -> None:
        self._database.execute(f"DELETE FROM {quoted_table(self._table.name)}")

    def delete(self, chunks: Iterable[pa.RecordBatch]) -> None:
        table = self._table
        columns = [*table.key, *([table.guard.column] if table.guard else [])]
        for chunk in chunks:
            removed = self._rows(chunk, columns, is_deleted=True)
            if removed:
                self._database.delete_many(table.name, table.key, table.guard, removed)

    def upsert(self, chunks: Iterable[pa.RecordBatch]) -> None:
        """A row may need a value that another one gives up: it is tried again behind it, until nothing moves."""
        waiting: list[Row] = []
        for chunk in chunks:
            waiting += self._upserted(self._rows(chunk, self._table.written, is_deleted=False))
        while waiting:
            left = self._upserted(waiting)
            if len(left) == len(waiting):
                assert self._refusal is not None
                raise PipelineError(f"table {self._table.name!r}: {self._refusal}") from self._refusal
            waiting = left

    def _upserted(self, rows: list[Row]) -> list[Row]:
        """Those for which another row is in the way."""
        if not rows:
            return []
        self._database.execute("SAVEPOINT levada")
        try:
            self._database.insert_many(self._table.name, self._table.written, self._on_conflict, rows)
        except NotUnique as refusal:
            self._refusal = refusal
            self._database.execute("ROLLBACK TO SAVEPOINT levada")
        else:
            rows = []
        self._database.execute("RELEASE SAVEPOINT levada")
        if len(rows) <= 1:
            return rows
        half = len(rows) // 2
        return self._upserted(rows[:half]) + self._upserted(rows[half:])

    def _rows(self, chunk: pa.RecordBatch, columns: Sequence[TableColumn], *, is_deleted: bool) -> list[Row]:
        if chunk.nbytes > MOST_ROW_BYTES:
            raise PipelineError(
                f"table {self._table.name!r}: a row of {chunk.nbytes >> 20} MiB is more than a statement takes: "
                "leave such values out, or send them to the dead letters by a quality rule"
            )
        deleted = chunk.column(self._deleted)
        kept = chunk.filter(deleted if is_deleted else pc.invert(deleted))
        values = [kept.column(self._place[column.name]).to_pylist() for column in columns]
        return list(zip(*values))
