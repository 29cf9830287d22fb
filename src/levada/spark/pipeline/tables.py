"""A database's table as a sink changes it: by statements for many rows at a time."""

from collections.abc import Callable, Iterable, Sequence
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
from levada.spark.pipeline.moving import Mover
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
        """A row may need a value that another one of the batch gives up: then all of them give up theirs first."""
        try:
            self._as_a_whole(lambda: self._upsert_all(chunks))
            return
        except NotUnique:
            pass
        table = self._table
        mover = Mover(self._database, table.name, table.key, table.written, table.guard)
        hindrances: list[str] = []

        def move_and_upsert() -> None:
            hindrances.extend(mover.move(chunks, self._changed_rows))
            self._upsert_all(chunks)

        try:
            self._as_a_whole(move_and_upsert)
        except NotUnique as refusal:
            if not hindrances:
                raise PipelineError(f"table {table.name!r}: {refusal}") from refusal
            self._upsert_in_turn(chunks, hindrances)

    def _upsert_all(self, chunks: Iterable[pa.RecordBatch]) -> None:
        table = self._table
        for chunk in chunks:
            if rows := self._changed_rows(chunk, table.written):
                self._database.insert_many(table.name, table.written, self._on_conflict, rows)

    def _upsert_in_turn(self, chunks: Iterable[pa.RecordBatch], hindrances: list[str]) -> None:
        """Slow, where rows cannot be moved: each is tried again behind the others, until nothing changes."""
        waiting: list[Row] = []
        for chunk in chunks:
            waiting += self._upserted(self._changed_rows(chunk, self._table.written))
        while waiting:
            left = self._upserted(waiting)
            if len(left) == len(waiting):
                raise PipelineError(
                    f"table {self._table.name!r}: {self._refusal}. If rows of the batch exchange such values, let the "
                    "column be null meanwhile or, in PostgreSQL, make its constraint DEFERRABLE INITIALLY DEFERRED; "
                    f"they cannot be deleted and inserted again, as {'; '.join(hindrances)}"
                ) from self._refusal
            waiting = left

    def _as_a_whole(self, work: Callable[[], None]) -> None:
        """Nothing of it is left if a row is in the way."""
        self._database.execute("SAVEPOINT levada")
        try:
            work()
        except NotUnique:
            self._database.execute("ROLLBACK TO SAVEPOINT levada")
            self._database.execute("RELEASE SAVEPOINT levada")
            raise
        self._database.execute("RELEASE SAVEPOINT levada")

    def _upserted(self, rows: list[Row]) -> list[Row]:
        """Those for which another row is in the way."""
        if not rows:
            return []
        table = self._table
        try:
            self._as_a_whole(lambda: self._database.insert_many(table.name, table.written, self._on_conflict, rows))
        except NotUnique as refusal:
            self._refusal = refusal
        else:
            return []
        if len(rows) == 1:
            return rows
        half = len(rows) // 2
        return self._upserted(rows[:half]) + self._upserted(rows[half:])

    def _changed_rows(self, chunk: pa.RecordBatch, columns: Sequence[TableColumn]) -> list[Row]:
        return self._rows(chunk, columns, is_deleted=False)

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
