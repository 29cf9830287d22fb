"""Databases by address: SQLite files and PostgreSQL servers, behind what sources and sinks need of them."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql.types import DataType

from levada.spark.pipeline.problems import PipelineError

CONNECT_TIMEOUT_S: Final = 10
RECONNECT_S: Final = 0.5
READ_ROWS: Final = 10_000

Row = tuple[Any, ...]
"""Values as a database's driver takes and gives them."""

Cursor = int | str
"""A value of a cursor column, as JSON can keep it."""


SECRETS: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})
"""Parameters of an address that are not for people to see."""


class DatabaseAway(Exception):
    """It cannot be reached, or is too busy: the same may work later."""


class NotUnique(PipelineError):
    """Another row has a value that only one may have."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`type` is Spark's for what `select` gives; `declared` is the database's own word, without a length."""

    name: str
    type: DataType
    declared: str


@dataclass(frozen=True, slots=True)
class CursorRange:
    """Rows whose cursor is above `start` and at most `end`, if there are such limits."""

    start: Cursor | None
    end: Cursor | None


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """What only one row may have, with all columns that it looks at, as far as they are known.

    `is_plain` says that a null in any of them keeps a row out of it.
    """

    columns: tuple[str, ...]
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Given:
    """Rows beside a statement: how each of their values is written, and where a table of them is, if there is one."""

    values: Sequence[str]
    table: str | None

    def after(self, word: str) -> str:
        """`FROM table` or `USING table`, for a statement about another table."""
        return f"{word} {self.table}" if self.table else ""


@dataclass(frozen=True, slots=True)
class Guard:
    """The column that says which of two changes of a row is the later one; `type` is that of the rows, in Spark."""

    column: TableColumn
    type: DataType


class Database(ABC):
    """One connection. Errors that may pass are DatabaseAway, others the driver's own."""

    placeholder: str
    """Of a parameter in a statement."""

    overriding: str = ""
    """What lets an INSERT give values that the database would choose by itself."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction that will write."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Rows of a query, nothing for other statements."""

    @abstractmethod
    def create_table(self, table: str, definition: str) -> None:
        """Unless it is there, which needs no right to create any."""

    @abstractmethod
    def insert_many(self, table: str, columns: Sequence[TableColumn], on_conflict: str, rows: list[Row]) -> None:
        """NotUnique if a row has what another one has, in columns that `on_conflict` does not name."""

    @abstractmethod
    def given(self, columns: Sequence[TableColumn]) -> Given:
        """How a statement for `execute_rows` names the values of a row."""

    @abstractmethod
    def execute_rows(self, statement: str, columns: Sequence[TableColumn], rows: list[Row]) -> None:
        """A statement about given rows, for each of them."""

    def delete_many(self, table: str, key: Sequence[TableColumn], guard: Guard | None, rows: list[Row]) -> None:
        """By the key, and if there is a guard by its value behind that: a row that is younger stays."""
        columns = [*key, *([guard.column] if guard else [])]
        given = self.given(columns)
        condition = self.matching(table, key, guard, given)
        self.execute_rows(f"DELETE FROM {quoted_table(table)} {given.after('USING')} WHERE {condition}", columns, rows)

    def matching(self, table: str, key: Sequence[TableColumn], guard: Guard | None, given: Given) -> str:
        """The condition that a row of the table is one of those given, the key first and then the guard's value."""
        target = quoted_table(table)
        conditions = [f"{target}.{quoted(column.name)} = {value}" for column, value in zip(key, given.values)]
        if guard is not None:
            kept = f"{target}.{quoted(guard.column.name)}"
            conditions.append(f"({kept} IS NULL OR {self.at_least(guard, given.values[len(key)], kept)})")
        return " AND ".join(conditions)

    @abstractmethod
    def at_least(self, guard: Guard, new: str, kept: str) -> str:
        """The condition that one value of the guard is not before another, as Spark has them in order."""

    @abstractmethod
    def columns(self, table: str) -> list[TableColumn]:
        """Those of a table; none if there is no such table."""

    @abstractmethod
    def unique_keys(self, table: str) -> list[frozenset[str]]:
        """Sets of columns that are unique together."""

    @abstractmethod
    def unique_indexes(self, table: str) -> list[UniqueIndex]:
        """All that can be in the way of a row."""

    @abstractmethod
    def nullable(self, table: str) -> frozenset[str]:
        """Columns that can be null for a moment and nothing else changes."""

    @abstractmethod
    def kept_columns(self, table: str) -> list[str]:
        """Those whose values are kept, not computed."""

    @abstractmethod
    def hindrances(self, table: str) -> list[str]:
        """What acts, in other places, when a row is deleted."""

    @abstractmethod
    def select(
        self, table: str, columns: Sequence[TableColumn], cursor: str, bounds: CursorRange
    ) -> Iterator[list[Row]]:
        """The rows of a range in the cursor's order, in lists of a bounded size."""

    @abstractmethod
    def last_cursor(self, table: str, cursor: str, bounds: CursorRange, most: int | None) -> Cursor | None:
        """The greatest one of the first `most` rows of a range; None if it has none."""

    @abstractmethod
    def column_type(self, spark_type: DataType) -> str | None:
        """The type of a column that can keep such values; None if none can."""

    @abstractmethod
    def lock_batch(self, table: str, query: str) -> int | None:
        """The last batch of a query that is written, held against others until the transaction ends."""

    def lacking(self, table: str, right: str, columns: Sequence[str] = ()) -> bool:
        """Whether we may not do that to a table, or to one of its columns."""
        return False

    def may_create(self, table: str) -> bool:
        """Whether we may make a table that is not there."""
        return True

    @property
    def user(self) -> str:
        """Who we are to the database; empty if it does not care."""
        return ""

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(address: str) -> Database:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user:password@host:port/database`."""
    scheme = address.partition("://")[0].lower()
    if scheme == "sqlite":
        from levada.spark.pipeline.sqlite import SqliteDatabase

        parts = urlsplit(address)
        path = parts.path.removeprefix("/")
        if parts.netloc or not path:
            text = "a SQLite file is named sqlite:///relative.db or sqlite:////absolute.db"
            raise PipelineError(f"{safe(address)!r}: {text}")
        return SqliteDatabase(path)
    if scheme in ("postgresql", "postgres"):
        try:
            from levada.spark.pipeline.postgresql import PostgresqlDatabase
        except ImportError as error:
            raise PipelineError("PostgreSQL needs a driver: pip install 'levada[postgresql]'") from error
        return PostgresqlDatabase(address)
    raise PipelineError(f"{safe(address)!r}: a database is sqlite:///FILE or postgresql://HOST/NAME")


def connect_when_back(address: str, limit_s: float = 60.0) -> Database:
    """Connect, and if it is away try again for a while."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return connect(address)
        except DatabaseAway:
            if time.monotonic() > deadline:
                raise
            time.sleep(RECONNECT_S)


def safe(address: str) -> str:
    """An address without its passwords, for people to see."""
    # Up to the last @, as a password that is not encoded may have any character in it.
    shown = re.sub(r"(?<=://)([^:@/?]*):.*@", r"\1:***@", address, flags=re.DOTALL)
    return "".join(map(_safe_parameter, re.split("([?&])", shown)))


def _safe_parameter(parameter: str) -> str:
    name, mark, _ = parameter.partition("=")
    return f"{name}=***" if mark and unquote(name).lower() in SECRETS else parameter


def quoted(name: str) -> str:
    """A column as both databases take it, whatever its characters are."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(name: str) -> str:
    """A table, perhaps with its schema before a dot."""
    return ".".join(quoted(part) for part in name.split("."))


def not_of_type(column: TableColumn, what: str) -> str:
    """What to say of a value that a column's type does not have."""
    kind = column.type.simpleString()
    return f"column {column.name!r} has {what}, which is no {kind}: give the source a schema in which it is a string"


def range_condition(
    cursor: str, bounds: CursorRange, placeholder: str, more: str | None = None
) -> tuple[str, list[Cursor]]:
    """A WHERE clause, perhaps with one condition more, in the cursor's order, and its parameters."""
    limits = [(sign, limit) for sign, limit in ((">", bounds.start), ("<=", bounds.end)) if limit is not None]
    conditions = [f"{quoted(cursor)} IS NOT NULL", *(f"{quoted(cursor)} {sign} {placeholder}" for sign, _ in limits)]
    conditions += [more] if more else []
    return f"WHERE {' AND '.join(conditions)} ORDER BY {quoted(cursor)}", [limit for _, limit in limits]
