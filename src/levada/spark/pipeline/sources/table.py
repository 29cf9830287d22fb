"""A source of the changes of a database's table, found by a column that grows with every change."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructField, StructType

from levada.spark.options import OptionError, refuse_unknown, whole_number
from levada.spark.pipeline.databases import (
    Cursor,
    CursorRange,
    Database,
    DatabaseAway,
    Row,
    TableColumn,
    connect,
    connect_when_back,
    not_of_type,
)
from levada.spark.pipeline.problems import PipelineError, one_line, unknown

FORMAT: Final = "levada_table"
OPTIONS: Final = ("database", "table", "cursor", "maxRowsPerTrigger", "pollMs", "settleMs")
DEFAULT_MAX_ROWS: Final = 100_000
DEFAULT_POLL_S: Final = 1.0
LONGEST_AWAY_S: Final = 600.0
BEGINNING: Final[dict[str, Any]] = {"cursor": None}


def read_table(
    spark: SparkSession,
    database: str,
    table: str,
    *,
    cursor: str,
    schema: str | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    poll_s: float = DEFAULT_POLL_S,
    settle_s: float = 0.0,
) -> DataFrame:
    """All rows of a table, then each row again whenever its `cursor` column has grown.

    The cursor is an increasing number or a time of the last change. A row that is deleted is not seen: mark it as
    deleted instead, or read a table of changes. Rows without a cursor, or with an infinite one, are not seen either. If
    transactions can commit in another order than their cursors have, `settle_s` must be longer than they last.
    """
    spark.dataSource.register(TableSource)
    reader = spark.readStream.format(FORMAT).options(database=database, table=table, cursor=cursor)
    reader = reader.options(maxRowsPerTrigger=max_rows, pollMs=round(poll_s * 1_000), settleMs=round(settle_s * 1_000))
    return (reader.schema(schema) if schema is not None else reader).load()


class TableSource(DataSource):
    """Spark's way in."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        settings = table_settings(self.options)
        with connect(settings.database) as database:
            columns = database.columns(settings.table)
        if not columns:
            raise PipelineError(f"there is no table {settings.table!r}")
        names = [column.name for column in columns]
        if settings.cursor not in names:
            raise PipelineError(f"table {settings.table!r}: {unknown('column', settings.cursor, names)}")
        return StructType([StructField(column.name, column.type) for column in columns])

    def streamReader(self, schema: StructType) -> "TableStreamReader":
        return TableStreamReader(table_settings(self.options), schema)


@dataclass(frozen=True, slots=True)
class TableSettings:
    database: str
    table: str
    cursor: str
    max_rows: int
    poll_s: float
    settle_s: float


def table_settings(options: Mapping[str, str]) -> TableSettings:
    refuse_unknown(options, OPTIONS)
    for required in ("database", "table", "cursor"):
        if not options.get(required):
            raise OptionError(f"option {required!r} is missing")
    return TableSettings(
        options["database"],
        options["table"],
        options["cursor"],
        whole_number(options, "maxRowsPerTrigger", at_least=1) or DEFAULT_MAX_ROWS,
        (whole_number(options, "pollMs", at_least=1) or DEFAULT_POLL_S * 1_000) / 1_000,
        (whole_number(options, "settleMs", at_least=0) or 0) / 1_000,
    )


@dataclass
class RangePartition(InputPartition):
    """What one task reads."""

    start: Cursor | None
    end: Cursor


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are values of the cursor; a range that is read again is read as it is then."""

    def __init__(self, settings: TableSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._seen: deque[tuple[float, Cursor | None]] = deque()
        self._settled: Cursor | None = None
        self._exhausted: tuple[Cursor | None, Cursor] | None = None
        self._reached_at = time.monotonic()
        self._is_bounded = False

    def initialOffset(self) -> dict[str, Any]:
        return BEGINNING

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._settings.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """An idle query asks a hundred times a second; the database is asked once in a poll interval."""
        while True:
            try:
                return self._latest_offset(start, limit)
            except DatabaseAway:
                # Nothing is lost by waiting; a database that is away for long is not coming back.
                if time.monotonic() - self._reached_at > LONGEST_AWAY_S:
                    raise
                time.sleep(self._settings.poll_s)
            if not self._is_bounded:
                # With an end, no news would be taken for it.
                return start

    def _latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._is_bounded:
            self._look_once(start)
        else:
            self._look(time.monotonic())
        newest = self._settled
        if newest is None or start["cursor"] == newest or self._exhausted == (start["cursor"], newest):
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with connect(self._settings.database) as database:
            end = database.last_cursor(
                self._settings.table, self._settings.cursor, CursorRange(start["cursor"], newest), most
            )
        if end is None:
            self._exhausted = (start["cursor"], newest)
            return start
        return {"cursor": end}

    def prepareForTriggerAvailableNow(self) -> None:
        """The end is what is there at the first question for it, which the database may be away for."""
        self._is_bounded = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
        return [RangePartition(start["cursor"], end["cursor"])] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        with connect_when_back(self._settings.database) as database:
            columns = self._columns(database)
            bounds = CursorRange(partition.start, partition.end)
            for rows in database.select(self._settings.table, columns, self._settings.cursor, bounds):
                yield pa.RecordBatch.from_arrays(self._arrays(rows, columns, schema), schema=schema)

    def _arrays(self, rows: list[Row], columns: list[TableColumn], schema: pa.Schema) -> list[pa.Array]:
        arrays = []
        for values, column, field in zip(zip(*rows), columns, schema):
            try:
                arrays.append(pa.array(values, field.type))
            except (pa.ArrowException, ArithmeticError) as error:
                text = not_of_type(column, f"a value ({one_line(str(error), 100)})")
                raise PipelineError(f"table {self._settings.table!r}: {text}") from error
        return arrays

    def _look(self, now: float) -> None:
        """What was there `settle_s` ago is settled: a transaction with a smaller cursor has committed by now."""
        if not self._seen or now - self._seen[-1][0] >= self._settings.poll_s:
            self._seen.append((now, self._newest()))
        while self._seen and now - self._seen[0][0] >= self._settings.settle_s:
            at, self._settled = self._seen.popleft()
            if not self._seen:
                # The last look is kept for its time.
                self._seen.append((at, self._settled))
                return

    def _look_once(self, start: dict[str, Any]) -> None:
        """What is there when a run begins that has an end. If there is news, it is settled after its time."""
        if not self._seen:
            self._seen.append((time.monotonic(), self._newest()))
        at, newest = self._seen[0]
        if newest is not None and newest not in (start["cursor"], self._settled):
            time.sleep(max(0.0, at + self._settings.settle_s - time.monotonic()))
            self._settled = newest

    def _newest(self) -> Cursor | None:
        with connect(self._settings.database) as database:
            newest = database.last_cursor(self._settings.table, self._settings.cursor, CursorRange(None, None), None)
        self._reached_at = time.monotonic()
        return newest

    def _columns(self, database: Database) -> list[TableColumn]:
        """In the schema's order and types, which may be the reader's own."""
        declared = {column.name: column.declared for column in database.columns(self._settings.table)}
        for name in self._schema.names:
            if name not in declared:
                raise PipelineError(f"table {self._settings.table!r}: {unknown('column', name, declared)}")
        return [TableColumn(field.name, field.dataType, declared[field.name]) for field in self._schema.fields]
