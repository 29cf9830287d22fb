"""PostgreSQL through psycopg."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict
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
    quoted,
    quoted_table,
    range_condition,
    safe,
)
from levada.spark.pipeline.problems import PipelineError

READ_TYPES: Final[dict[str, DataType]] = {
    "smallint": ShortType(), "integer": IntegerType(), "bigint": LongType(), "real": FloatType(),
    "double precision": DoubleType(), "boolean": BooleanType(), "text": StringType(),
    "character varying": StringType(), "character": StringType(), "bytea": BinaryType(), "date": DateType(),
    "timestamp with time zone": TimestampType(), "timestamp without time zone": TimestampNTZType(),
}  # fmt: skip
"""What is not here is read as text, as PostgreSQL writes it."""

WRITE_TYPES: Final[dict[type[DataType], str]] = {
    StringType: "text", BinaryType: "bytea", BooleanType: "boolean", ByteType: "smallint", ShortType: "smallint",
    IntegerType: "integer", LongType: "bigint", FloatType: "real", DoubleType: "double precision",
    DateType: "date", TimestampType: "timestamp with time zone", TimestampNTZType: "timestamp without time zone",
}  # fmt: skip

PLACE: Final = "\0"
"""Of a parameter, until psycopg gets the statement: no name can have it in it, while `%` is a letter like others."""

COLUMNS: Final = f"""
SELECT a.attname, format_type(a.atttypid, NULL), format_type(a.atttypid, -1)
FROM pg_attribute a WHERE a.attrelid = to_regclass({PLACE}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
"""The second is a type's name, the third one that has no length in a cast either: `character` would be one letter."""

UNIQUE_KEYS: Final = f"""
SELECT array_agg(a.attname::text) FROM pg_index i
CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass({PLACE}) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
AND i.indexprs IS NULL AND k.place <= i.indnkeyatts GROUP BY i.indexrelid
"""
"""Those that ON CONFLICT can name: without what INCLUDE adds, and none that is only looked at when others are done."""

UNIQUE_INDEXES: Final = f"""
SELECT array_agg(DISTINCT a.attname::text) FILTER (WHERE a.attname IS NOT NULL),
bool_and(i.indexprs IS NULL AND i.indpred IS NULL AND i.indnkeyatts = i.indnatts
AND coalesce(to_jsonb(i) ->> 'indnullsnotdistinct', 'false') = 'false')
FROM pg_index i LEFT JOIN pg_depend d
ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid AND d.refobjid = i.indrelid AND d.refobjsubid > 0
LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid AND c.contype IN ('p', 'u', 'x')
LEFT JOIN pg_attribute a
ON a.attrelid = i.indrelid
AND (a.attnum = ANY (i.indkey::int2[]) OR a.attnum = d.refobjsubid OR a.attnum = ANY (c.conkey))
WHERE i.indrelid = to_regclass({PLACE}) AND (i.indisunique OR i.indisexclusion) GROUP BY i.indexrelid
"""
"""With the columns of their expressions and conditions."""

NULLABLE: Final = f"""
SELECT a.attname FROM pg_attribute a WHERE a.attrelid = to_regclass({PLACE}) AND a.attnum > 0 AND NOT a.attisdropped
AND NOT a.attnotnull AND a.attgenerated = '' AND NOT EXISTS (
SELECT 1 FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = a.attrelid AND a.attnum = ANY (c.confkey))
"""
KEPT_COLUMNS: Final = f"""
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass({PLACE}) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
HINDRANCES: Final = f"""
SELECT 'table ' || conrelid::regclass || ' refers to it' FROM pg_constraint
WHERE contype = 'f' AND confrelid = to_regclass({PLACE})
UNION ALL SELECT 'it has the trigger ' || tgname FROM pg_trigger
WHERE tgrelid = to_regclass({PLACE}) AND NOT tgisinternal AND tgenabled <> 'D' ORDER BY 1
"""

PASSING_CLASSES: Final = ("08", "53", "57")
"""Connections, resources, and operators who intervene."""

PASSING: Final = frozenset({
    "25006",  # A server that is about to become a standby, or still is one.
    "25P03", "25P04", "40001", "40003", "40P01", "55006", "55P03", "58030",
})  # fmt: skip
"""Time limits, deadlocks, locks and disks: the same transaction may work later. All else fails again."""

ATTEMPT: Final = "connection to server "
REFUSALS: Final = re.compile(
    r'(database|role|user) ".*" does not exist|authentication failed|no password supplied|is not permitted to log in'
    r"|pg_hba\.conf|is not currently accepting connections|permission denied for database|certificate verify failed"
    r"|does not support SSL|unrecognized configuration parameter|invalid value for parameter"
)
"""What a server, in English, or our side says of an address that will be refused the next time as well."""

UNIQUE: Final = frozenset({"23505", "23P01"})
ALREADY_THERE: Final = frozenset({"23505", "42P07", "42710"})
"""What the second of two gets who make the same table at the same time."""

TIMES: Final = ("date", "timestamp with time zone", "timestamp without time zone")
TIME_TYPES: Final = (DateType, TimestampType, TimestampNTZType)
NUMBERS: Final = ("real", "double precision", "numeric")


class PostgresqlDatabase(Database):
    """A server. Its times are UTC, as everything in our Spark sessions is."""

    placeholder = PLACE
    overriding = "OVERRIDING SYSTEM VALUE"

    def __init__(self, address: str) -> None:
        settings = _settings(address)
        with passing_errors():
            try:
                self._connection = psycopg.connect(**settings, autocommit=True)
            except psycopg.OperationalError as error:
                if is_refused(str(error)):
                    raise PipelineError(" ".join(str(error).split())) from error
                raise
        # Not an option of the connection: those are the address's own.
        self.execute("SET timezone = 'UTC'")

    def close(self) -> None:
        self._connection.close()

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        with passing_errors(), self._connection.cursor() as cursor:
            cursor.execute(_trusted(statement), parameters)
            return cursor.fetchall() if cursor.description is not None else []

    def create_table(self, table: str, definition: str) -> None:
        # IF NOT EXISTS asks for the right to create before it looks, and does not see what is made meanwhile.
        if self.columns(table):
            return
        try:
            self.execute(f"CREATE TABLE IF NOT EXISTS {quoted_table(table)} ({definition})")
        except (psycopg.Error, NotUnique) as error:
            cause = error.__cause__ if isinstance(error, NotUnique) else error
            if getattr(cause, "sqlstate", None) not in ALREADY_THERE:
                raise

    def insert_many(self, table: str, columns: Sequence[TableColumn], on_conflict: str, rows: list[Row]) -> None:
        """A column at a time, as arrays: one statement for all rows."""
        names = ", ".join(quoted(column.name) for column in columns)
        statement = (
            f"INSERT INTO {quoted_table(table)} ({names}) SELECT * FROM unnest({_arrays(columns)}) {on_conflict}"
        )
        self._execute_arrays(statement, columns, rows)

    def given(self, columns: Sequence[TableColumn]) -> Given:
        names = [f"c{number}" for number in range(len(columns))]
        return Given([f"given.{name}" for name in names], f"unnest({_arrays(columns)}) AS given({', '.join(names)})")

    def execute_rows(self, statement: str, columns: Sequence[TableColumn], rows: list[Row]) -> None:
        self._execute_arrays(statement, columns, rows)

    def at_least(self, guard: Guard, new: str, kept: str) -> str:
        is_kept_as_text = isinstance(guard.column.type, StringType)
        if isinstance(guard.type, NumericType) and is_kept_as_text:
            return f"({new})::numeric >= ({kept})::numeric"
        if isinstance(guard.type, StringType) or is_kept_as_text:
            # By its bytes, as Spark does, whatever the column's collation is.
            return f'({new})::text COLLATE "C" >= ({kept})::text COLLATE "C"'
        return f"{new} >= {kept}"

    def columns(self, table: str) -> list[TableColumn]:
        found = self.execute(COLUMNS, [quoted_table(table)])
        return [TableColumn(name, READ_TYPES.get(plain, StringType()), full) for name, plain, full in found]

    def unique_keys(self, table: str) -> list[frozenset[str]]:
        return [frozenset(names) for (names,) in self.execute(UNIQUE_KEYS, [quoted_table(table)])]

    def unique_indexes(self, table: str) -> list[UniqueIndex]:
        found = self.execute(UNIQUE_INDEXES, [quoted_table(table)])
        return [UniqueIndex(tuple(names or ()), is_plain) for names, is_plain in found]

    def nullable(self, table: str) -> frozenset[str]:
        return frozenset(name for (name,) in self.execute(NULLABLE, [quoted_table(table)]))

    def kept_columns(self, table: str) -> list[str]:
        return [name for (name,) in self.execute(KEPT_COLUMNS, [quoted_table(table)])]

    def hindrances(self, table: str) -> list[str]:
        return [text for (text,) in self.execute(HINDRANCES, [quoted_table(table)] * 2)]

    def select(
        self, table: str, columns: Sequence[TableColumn], cursor: str, bounds: CursorRange
    ) -> Iterator[list[Row]]:
        condition, parameters = range_condition(cursor, bounds, self.placeholder, self._is_finite(table, cursor))
        names = ", ".join(_selected(column) for column in columns)
        statement = f"SELECT {names} FROM {quoted_table(table)} {condition}"
        with passing_errors(), self._connection.transaction(), self._connection.cursor("levada") as found:
            # A cursor of the server's: the client would fetch all rows at once.
            found.execute(_trusted(statement), [str(parameter) for parameter in parameters])
            while rows := _fetched(found, table, columns):
                yield rows

    def last_cursor(self, table: str, cursor: str, bounds: CursorRange, most: int | None) -> Cursor | None:
        condition, parameters = range_condition(cursor, bounds, self.placeholder, self._is_finite(table, cursor))
        limit = f"LIMIT {most}" if most is not None else ""
        wanted = f"SELECT {quoted(cursor)} AS c FROM {quoted_table(table)} {condition} {limit}"
        # As text, which becomes the column's own type again where it is compared with the column.
        rows = self.execute(f"SELECT max(c)::text FROM ({wanted}) w", [str(parameter) for parameter in parameters])
        found: str | None = rows[0][0]
        return found

    def column_type(self, spark_type: DataType) -> str | None:
        if isinstance(spark_type, DecimalType):
            return f"numeric({spark_type.precision},{spark_type.scale})"
        return WRITE_TYPES.get(type(spark_type))

    def lock_batch(self, table: str, query: str) -> int | None:
        statement = f"SELECT batch FROM {quoted_table(table)} WHERE query = {PLACE} FOR UPDATE"
        found = self.execute(statement, [query])
        return found[0][0] if found else None

    def lacking(self, table: str, right: str, columns: Sequence[str] = ()) -> bool:
        if not columns:
            return not self.execute(f"SELECT has_table_privilege({PLACE}, {PLACE})", [quoted_table(table), right])[0][0]
        asked = f"SELECT bool_and(has_column_privilege({PLACE}, name, {PLACE})) FROM unnest({PLACE}::text[]) AS name"
        return not self.execute(asked, [quoted_table(table), right, list(columns)])[0][0]

    def may_create(self, table: str) -> bool:
        schema, _, _ = table.rpartition(".")
        place = PLACE if schema else "current_schema()"
        asked = f"SELECT has_schema_privilege({place}, 'CREATE')"
        return bool(self.execute(asked, [schema] if schema else [])[0][0])

    @property
    def user(self) -> str:
        return str(self.execute("SELECT current_user")[0][0])

    def _execute_arrays(self, statement: str, columns: Sequence[TableColumn], rows: list[Row]) -> None:
        arrays = [list(values) for values in zip(*rows)]
        for column, values in zip(columns, arrays):
            if any(isinstance(value, str) and "\0" in value for value in values):
                raise PipelineError(
                    f"column {column.name!r}: PostgreSQL keeps no text with a NUL character: "
                    f"replace({column.name}, char(0), '') takes it out"
                )
        self.execute(statement, arrays)

    def _is_finite(self, table: str, cursor: str) -> str | None:
        """A condition for a cursor that others can follow: nothing is behind infinity."""
        plain = {name: kind for name, kind, _ in self.execute(COLUMNS, [quoted_table(table)])}.get(cursor)
        if plain in TIMES:
            return f"isfinite({quoted(cursor)})"
        return f"{quoted(cursor)}::text NOT IN ('Infinity', 'NaN')" if plain in NUMBERS else None


def is_refused(text: str) -> bool:
    """Whether a connection failed for good: libpq gives no SQLSTATE of it, only what each server of the address says.

    >>> away = 'connection to server at "a", port 1 failed: Connection refused'
    >>> unknown = 'connection to server at "b", port 1 failed: FATAL:  database "x" does not exist'
    >>> is_refused(away), is_refused(unknown), is_refused(away + unknown)
    (False, True, False)
    """
    return all(map(REFUSALS.search, text.split(ATTEMPT)[1:] or [text]))


@contextmanager
def passing_errors() -> Iterator[None]:
    """A server that is away, shuts down, is full, or asks to try again: DatabaseAway."""
    try:
        yield
    except psycopg.Error as error:
        text, state = " ".join(str(error).split()), error.sqlstate
        if state in UNIQUE:
            raise NotUnique(text) from error
        # Without a state it comes from our side: no server has answered.
        is_lost = state is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        if is_lost or (state is not None and (state in PASSING or state.startswith(PASSING_CLASSES))):
            raise DatabaseAway(text) from error
        raise


def _fetched(found: psycopg.ServerCursor[Row], table: str, columns: Sequence[TableColumn]) -> list[Row]:
    try:
        return found.fetchmany(READ_ROWS)
    except psycopg.DataError as error:
        if error.sqlstate is not None:
            raise
        times = [column.name for column in columns if isinstance(column.type, TIME_TYPES)]
        raise PipelineError(
            f"table {table!r}: {' '.join(str(error).split())}: Spark has no such time; "
            f"give the source a schema in which {' or '.join(times)} is a string"
        ) from error


def _settings(address: str) -> dict[str, Any]:
    """What an address says, and how long to wait for an answer if it does not."""
    given: dict[str, Any] | None = None
    with suppress(psycopg.Error):
        given = dict(conninfo_to_dict(address))
    # A password with a slash in it is taken for a port up to there.
    if given is None or re.fullmatch("[0-9,]*", str(given.get("port", ""))) is None:
        # What psycopg says may have a part of the password in it.
        how = "write postgresql://USER:PASSWORD@HOST:PORT/NAME, with %40 for @ and %2F for / in a password"
        raise PipelineError(f"{safe(address)!r} is no address: {how}")
    if "PGCONNECT_TIMEOUT" not in os.environ:
        given.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
    return given


def _arrays(columns: Sequence[TableColumn]) -> str:
    """Without lengths: an explicit cast would cut values to them, where an INSERT refuses."""
    return ", ".join(f"{PLACE}::{column.declared}[]" for column in columns)


def _selected(column: TableColumn) -> str:
    is_as_text = isinstance(column.type, StringType)
    return f"{quoted(column.name)}::text" if is_as_text else quoted(column.name)


def _trusted(statement: str) -> LiteralString:
    """Our own statements: every name in them is quoted, every value a parameter."""
    return cast(LiteralString, statement.replace("%", "%%").replace(PLACE, "%s"))  # type: ignore[redundant-cast]
