"""SQLite through Python's own driver."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NumericType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from levada.spark.pipeline.databases import (
    CONNECT_TIMEOUT_S,
    READ_ROWS,
    Cursor,
    CursorRange,
    Database,
    DatabaseAway,
    Given,
    Guard,
    NotUnique,
    Row,
    TableColumn,
    UniqueIndex,
    not_of_type,
    quoted,
    quoted_table,
    range_condition,
)
from levada.spark.pipeline.problems import PipelineError

PASSING: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}
)
"""Errors of the file and of others who hold it."""

TYPES: Final[dict[type[DataType], str]] = {
    StringType: "TEXT", BinaryType: "BLOB", BooleanType: "BOOLEAN", ByteType: "INTEGER", ShortType: "INTEGER",
    IntegerType: "INTEGER", LongType: "INTEGER", FloatType: "REAL", DoubleType: "REAL", DecimalType: "TEXT",
    DateType: "TEXT", TimestampType: "TEXT", TimestampNTZType: "TEXT",
}  # fmt: skip

AFFINITIES: Final[tuple[tuple[str, DataType], ...]] = (
    ("INT", LongType()), ("CHAR", StringType()), ("CLOB", StringType()), ("TEXT", StringType()),
    ("BLOB", BinaryType()), ("REAL", DoubleType()), ("FLOA", DoubleType()), ("DOUB", DoubleType()),
    ("BOOL", BooleanType()), ("NUMERIC", DoubleType()), ("DECIMAL", DoubleType()),
)  # fmt: skip
"""SQLite's own way to understand a declared type: the first word that it contains."""


AT_LEAST: Final = "levada_at_least"
"""A function of ours: SQLite keeps decimals as text, which it would compare letter by letter."""

UNIQUE: Final = frozenset({sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY})


class SqliteDatabase(Database):
    """A file; one writer at a time, so that rows become visible in the order of their cursor."""

    placeholder = "?"

    def __init__(self, path: str) -> None:
        self.path = path
        with passing_errors():
            if not Path(path).parent.is_dir():
                raise DatabaseAway(f"{path}: there is no such directory")
            # Autocommit, so that transactions begin where we say.
            self._connection = sqlite3.connect(path, timeout=CONNECT_TIMEOUT_S, isolation_level=None)
        self._connection.create_function(AT_LEAST, 2, _is_at_least, deterministic=True)

    def close(self) -> None:
        self._connection.close()

    def begin(self) -> None:
        # A writer from the first moment on: a reader that becomes one can fail half-way.
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with passing_errors():
            return self._connection.execute(statement, parameters).fetchall()

    def create_table(self, table: str, definition: str) -> None:
        self.execute(f"CREATE TABLE IF NOT EXISTS {quoted_table(table)} ({definition})")

    def insert_many(self, table: str, columns: Sequence[TableColumn], on_conflict: str, rows: list[Row]) -> None:
        names = ", ".join(quoted(column.name) for column in columns)
        places = ", ".join("?" for _ in columns)
        self._execute_many(f"INSERT INTO {quoted_table(table)} ({names}) VALUES ({places}) {on_conflict}", rows)

    def given(self, columns: Sequence[TableColumn]) -> Given:
        return Given([f"?{number}" for number in range(1, len(columns) + 1)], None)

    def execute_rows(self, statement: str, columns: Sequence[TableColumn], rows: list[Row]) -> None:
        self._execute_many(statement, rows)

    def at_least(self, guard: Guard, new: str, kept: str) -> str:
        if isinstance(guard.type, NumericType):
            return f"{AT_LEAST}({new}, {kept})"
        if isinstance(guard.type, StringType):
            # By its bytes, as Spark does, whatever the column's affinity and collation are.
            return f"CAST({new} AS TEXT) COLLATE BINARY >= CAST({kept} AS TEXT)"
        return f"{new} >= {kept}"

    def columns(self, table: str) -> list[TableColumn]:
        found = self.execute("SELECT * FROM pragma_table_info(?)", [_bare(table)])
        return [TableColumn(name, _spark_type(declared), declared) for _, name, declared, *_ in found]

    def unique_keys(self, table: str) -> list[frozenset[str]]:
        keys = [frozenset(self._primary_key(table))]
        for _, index, unique, _, partial in self.execute("SELECT * FROM pragma_index_list(?)", [_bare(table)]):
            if unique and not partial:
                keys.append(frozenset(row[2] for row in self.execute("SELECT * FROM pragma_index_info(?)", [index])))
        return [key for key in keys if key]

    def unique_indexes(self, table: str) -> list[UniqueIndex]:
        found = [UniqueIndex(tuple(key), is_plain=True) for key in [self._primary_key(table)] if key]
        for _, index, unique, _, partial in self.execute("SELECT * FROM pragma_index_list(?)", [_bare(table)]):
            if partial and unique:
                # Which columns its condition has is not told.
                found.append(UniqueIndex((), is_plain=False))
            elif unique:
                names = [row[2] for row in self.execute("SELECT * FROM pragma_index_info(?)", [index])]
                # An expression has no name.
                found.append(UniqueIndex(tuple(filter(None, names)), is_plain=all(names)))
        return found

    def nullable(self, table: str) -> frozenset[str]:
        info = self.execute("SELECT * FROM pragma_table_info(?)", [_bare(table)])
        return frozenset(name for _, name, _, not_null, _, place in info if not not_null and not place)

    def kept_columns(self, table: str) -> list[str]:
        info = self.execute("SELECT * FROM pragma_table_xinfo(?)", [_bare(table)])
        return [name for _, name, *_, hidden in info if not hidden]

    def hindrances(self, table: str) -> list[str]:
        # What refers to rows does not act: SQLite looks at foreign keys where it is asked to, and we do not ask.
        asked = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower(?) ORDER BY name"
        return [f"it has the trigger {name}" for (name,) in self.execute(asked, [_bare(table)])]

    def _primary_key(self, table: str) -> list[str]:
        info = self.execute("SELECT * FROM pragma_table_info(?)", [_bare(table)])
        return [name for _, name, _, _, _, place in info if place]

    def select(
        self, table: str, columns: Sequence[TableColumn], cursor: str, bounds: CursorRange
    ) -> Iterator[list[Row]]:
        condition, parameters = range_condition(cursor, bounds, self.placeholder)
        # Any column can have any value: what is read as text becomes text, whatever it is.
        names = ", ".join(
            f"CAST({quoted(column.name)} AS TEXT)" if isinstance(column.type, StringType) else quoted(column.name)
            for column in columns
        )
        with passing_errors():
            found = self._connection.execute(f"SELECT {names} FROM {quoted_table(table)} {condition}", parameters)
            while rows := found.fetchmany(READ_ROWS):
                yield [tuple(map(_read, row, columns)) for row in rows]

    def last_cursor(self, table: str, cursor: str, bounds: CursorRange, most: int | None) -> Cursor | None:
        condition, parameters = range_condition(cursor, bounds, self.placeholder)
        limit = f"LIMIT {most}" if most is not None else ""
        wanted = f"SELECT {quoted(cursor)} AS c FROM {quoted_table(table)} {condition} {limit}"
        rows = self.execute(f"SELECT max(c) FROM ({wanted})", parameters)
        found: Cursor | None = rows[0][0]
        return found

    def column_type(self, spark_type: DataType) -> str | None:
        return TYPES.get(type(spark_type))

    def lock_batch(self, table: str, query: str) -> int | None:
        found = self.execute(f"SELECT batch FROM {quoted_table(table)} WHERE query = ?", [query])
        return found[0][0] if found else None

    def _execute_many(self, statement: str, rows: list[Row]) -> None:
        with passing_errors():
            self._connection.executemany(statement, [tuple(map(_stored, row)) for row in rows])


@contextmanager
def passing_errors() -> Iterator[None]:
    """SQLite's errors that may pass become DatabaseAway."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in PASSING:
            raise DatabaseAway(str(error)) from error
        raise
    except sqlite3.IntegrityError as error:
        if getattr(error, "sqlite_errorcode", 0) in UNIQUE:
            raise NotUnique(str(error)) from error
        raise


def _bare(table: str) -> str:
    return table.rpartition(".")[2]


def _stored(value: Any) -> Any:
    """SQLite has numbers, text and bytes; the rest is kept as text. Times sort as text as they do in time."""
    if isinstance(value, datetime):
        return value.isoformat(" ", "microseconds")
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value) if isinstance(value, date) else value


def _is_at_least(new: Any, kept: Any) -> bool | None:
    if new is None or kept is None:
        return None
    try:
        return Decimal(str(new)) >= Decimal(str(kept))
    except InvalidOperation:
        # What is kept is no number: it is not from here, and comes before all that is.
        return True


def _read(value: Any, column: TableColumn) -> Any:
    reader = READERS.get(type(column.type))
    if reader is None or value is None:
        return value
    try:
        return reader(value)
    except (ValueError, ArithmeticError) as error:
        raise PipelineError(not_of_type(column, repr(value))) from error


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        return FLAGS[value.lower()] if value.lower() in FLAGS else _flag(float(value))
    return bool(value)


def _whole(value: Any) -> int:
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError(f"{value!r} is not a whole number")
    return number


def _time(value: Any) -> Any:
    """Text, as SQLite's own functions write it; all times are UTC that do not say otherwise."""
    at = _plain_time(value)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _plain_time(value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} may be seconds, milliseconds or days")
    return datetime.fromisoformat(value)


def _day(value: Any) -> date:
    return _plain_time(value).date()


FLAGS: Final = {"true": True, "false": False}

READERS: Final[dict[type[DataType], Callable[[Any], Any]]] = {
    BooleanType: _flag, ByteType: _whole, ShortType: _whole, IntegerType: _whole, LongType: _whole,
    DecimalType: lambda value: Decimal(str(value)), TimestampType: _time, TimestampNTZType: _plain_time,
    DateType: _day,
}  # fmt: skip
"""How values that are there become those of a column's type: SQLite lets any value into any column."""


def _spark_type(declared: str) -> DataType:
    upper = declared.upper()
    return next((spark_type for word, spark_type in AFFINITIES if word in upper), StringType())
