"""Rows of a table that must get out of the way, as others of the same batch take their unique values."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pyarrow as pa

from levada.spark.pipeline.databases import Database, Guard, Row, TableColumn, quoted, quoted_table

MOVED: Final = "levada_moved"
"""A temporary table, which the connection has for itself."""

ReadRows = Callable[[pa.RecordBatch, Sequence[TableColumn]], list[Row]]
"""The values of columns in those rows of a chunk that are inserted or change what is there."""


class Mover:
    """Frees the unique values of all rows that a batch changes, in a few statements for a chunk of it."""

    def __init__(
        self,
        database: Database,
        table: str,
        key: Sequence[TableColumn],
        written: Sequence[TableColumn],
        guard: Guard | None,
    ) -> None:
        self._database = database
        self._table = table
        self._key = key
        self._others = [column for column in written if column not in key]
        self._guard = guard

    def move(self, chunks: Iterable[pa.RecordBatch], rows: ReadRows) -> list[str]:
        """What is inserted or changed behind this finds only rows in its way that are not of the batch.

        If nothing can be moved, why: rows would have to go and come again, and others would see it.
        """
        freeing = self._freeing()
        hindrances = [] if freeing is not None else self._database.hindrances(self._table)
        if freeing is not None:
            self._set_null(freeing, chunks, rows)
        elif not hindrances:
            self._take_out_and_put_back(chunks, rows)
        return hindrances

    def _freeing(self) -> list[str] | None:
        """Columns that, without a value, keep a row out of the way; None if there are none for some unique index."""
        nullable = self._database.nullable(self._table) & {column.name for column in self._others}
        found = []
        for index in self._database.unique_indexes(self._table):
            if index.columns and not {column.name for column in self._others}.intersection(index.columns):
                # It cannot be in the way of what does not change it.
                continue
            free = next((name for name in index.columns if name in nullable), None)
            if free is None or not index.is_plain:
                return None
            found.append(free)
        return found or None

    def _set_null(self, names: Sequence[str], chunks: Iterable[pa.RecordBatch], rows: ReadRows) -> None:
        database, compared = self._database, self._compared()
        given = database.given(compared)
        statement = (
            f"UPDATE {quoted_table(self._table)} SET {', '.join(f'{quoted(name)} = NULL' for name in names)} "
            f"{given.after('FROM')} WHERE {database.matching(self._table, self._key, self._guard, given)}"
        )
        for chunk in chunks:
            self._execute(statement, compared, rows(chunk, compared))

    def _take_out_and_put_back(self, chunks: Iterable[pa.RecordBatch], rows: ReadRows) -> None:
        """Changed on the way, so that columns that the batch does not have are as they were."""
        database, target, compared = self._database, quoted_table(self._table), self._compared()
        names = ", ".join(quoted(name) for name in database.kept_columns(self._table))
        database.execute(f"CREATE TEMPORARY TABLE {MOVED} AS SELECT {names} FROM {target} WHERE 1 = 0")
        keys = ", ".join(quoted(column.name) for column in self._key)
        database.execute(f"CREATE INDEX {MOVED}_key ON {MOVED} ({keys})")
        given = database.given(compared)
        from_both = f"{target}, {given.table}" if given.table else target
        qualified = ", ".join(f"{target}.{quoted(name)}" for name in database.kept_columns(self._table))
        condition = database.matching(self._table, self._key, self._guard, given)
        written = [*self._key, *self._others]
        values = database.given(written)
        changes = ", ".join(
            f"{quoted(column.name)} = {value}" for column, value in zip(self._others, values.values[len(self._key) :])
        )
        for chunk in chunks:
            self._execute(
                f"INSERT INTO {MOVED} SELECT {qualified} FROM {from_both} WHERE {condition}",
                compared,
                rows(chunk, compared),
            )
            if changes:
                same = database.matching(MOVED, self._key, None, values)
                self._execute(
                    f"UPDATE {MOVED} SET {changes} {values.after('FROM')} WHERE {same}", written, rows(chunk, written)
                )
            if gone := rows(chunk, compared):
                database.delete_many(self._table, self._key, self._guard, gone)
        database.execute(f"INSERT INTO {target} ({names}) {database.overriding} SELECT {names} FROM {MOVED}")
        database.execute(f"DROP TABLE {MOVED}")

    def _compared(self) -> list[TableColumn]:
        return [*self._key, *([self._guard.column] if self._guard else [])]

    def _execute(self, statement: str, columns: Sequence[TableColumn], rows: list[Row]) -> None:
        if rows:
            self._database.execute_rows(statement, columns, rows)
