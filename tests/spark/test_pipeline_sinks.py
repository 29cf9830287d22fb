"""Sinks of pipelines: each batch once, however often it comes, and rows by their key."""

import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from levada.spark.pipeline.chunks import chunks
from levada.spark.pipeline.problems import PipelineError
from levada.spark.pipeline.sinks import ConsoleSink, Control, DatabaseSink, DeltaSink, MicroBatch, ParquetSink, Stopped
from levada.spark.pipeline.sinks.database import BOOKS, BOOKS_DEFINITION
from levada.spark.pipeline.sinks.parquet import STAGING
from tests.spark.databases import PostgresServer, SqliteFile, TestDatabase, wait_until

OLDER = "batch {} of this query is written, and Spark is at batch {} again: the checkpoint is older than the output"
SCHEMA = "id long, name string, version long, op string"


@pytest.fixture
def rows(spark: SparkSession) -> Callable[..., DataFrame]:
    def make(*values: tuple[Any, ...], schema: str = SCHEMA) -> DataFrame:
        return spark.createDataFrame(list(values), schema)

    return make


def users(database: TestDatabase, **options: Any) -> DatabaseSink:
    return DatabaseSink(
        database.address, "users", ("id",), order="version", delete_when="op = 'DELETE'", create=True, **options
    )


def test_rows_are_inserted_changed_and_deleted_by_their_key(
    database: TestDatabase, rows: Callable[..., DataFrame]
) -> None:
    sink = users(database)
    first = rows((1, "a", 1, "INSERT"), (2, "b", 1, "INSERT"), (3, 'it\'s "c"', 1, "INSERT"))
    sink.write(first, MicroBatch("q", 0), Control())
    second = rows((1, "z", 2, "UPDATE"), (2, None, 2, "DELETE"), (4, "d", 1, None))
    sink.write(second, MicroBatch("q", 1), Control())
    found = database.execute("SELECT id, name, version FROM users ORDER BY id")
    assert found == [(1, "z", 2), (3, 'it\'s "c"', 1), (4, "d", 1)]


def test_only_the_last_change_of_a_key_in_a_batch_counts(
    database: TestDatabase, rows: Callable[..., DataFrame]
) -> None:
    sink = users(database)
    changes = rows((1, "new", 3, "INSERT"), (1, "old", 1, "INSERT"), (1, None, 2, "DELETE"), (2, "x", 1, "INSERT"))
    changes = changes.union(rows((2, None, 2, "DELETE")))
    sink.write(changes.repartition(3), MicroBatch("q", 0), Control())
    assert database.execute("SELECT id, name FROM users") == [(1, "new")]


def test_an_older_change_that_comes_in_a_later_batch_changes_nothing(
    database: TestDatabase, rows: Callable[..., DataFrame]
) -> None:
    sink = users(database)
    sink.write(rows((1, "new", 5, "UPDATE")), MicroBatch("q", 0), Control())
    sink.write(rows((1, "old", 4, "UPDATE")), MicroBatch("q", 1), Control())
    sink.write(rows((1, None, 3, "DELETE")), MicroBatch("q", 2), Control())
    assert database.execute("SELECT id, name FROM users") == [(1, "new")]


def test_a_batch_that_comes_again_is_left_out(database: TestDatabase, rows: Callable[..., DataFrame]) -> None:
    sink = DatabaseSink(database.address, "log", ("id",), create=True)
    schema = "id long, name string"
    sink.write(rows((1, "first"), schema=schema), MicroBatch("q", 7), Control())
    sink.write(rows((2, "again"), schema=schema), MicroBatch("q", 7), Control())
    with pytest.raises(PipelineError, match=OLDER.format(7, 6)):
        sink.write(rows((3, "older"), schema=schema), MicroBatch("q", 6), Control())
    sink.write(rows((4, "other query"), schema=schema), MicroBatch("r", 7), Control())
    assert database.execute("SELECT id FROM log ORDER BY id") == [(1,), (4,)]


def test_a_batch_that_fails_half_way_leaves_nothing(database: TestDatabase, rows: Callable[..., DataFrame]) -> None:
    database.execute("CREATE TABLE small (id BIGINT PRIMARY KEY, name VARCHAR(5) NOT NULL)")
    sink = DatabaseSink(database.address, "small", ("id",))
    bad = rows(*((number, "fine") for number in range(50)), (99, None), schema="id long, name string")
    with pytest.raises(Exception, match=r"(?i)not.null"):
        sink.write(bad.repartition(5), MicroBatch("q", 0), Control())
    assert database.execute("SELECT count(*) FROM small") == [(0,)]
    sink.write(rows((1, "fine"), schema="id long, name string"), MicroBatch("q", 0), Control())
    assert database.execute("SELECT count(*) FROM small") == [(1,)]


def test_two_rows_of_a_key_without_an_order_are_refused(database: TestDatabase, rows: Callable[..., DataFrame]) -> None:
    sink = DatabaseSink(database.address, "log", ("id",), create=True)
    with pytest.raises(Exception, match="name the column that orders them"):
        sink.write(rows((1, "a"), (1, "b"), schema="id long, name string"), MicroBatch("q", 0), Control())


def test_strange_names_and_all_plain_types_are_kept(database: TestDatabase, spark: SparkSession) -> None:
    frame = spark.sql(
        """SELECT 1L AS `the "key"`, true AS `100%`, 1.5D AS d, 12.50BD AS n, X'00FF' AS b, DATE'2026-01-02' AS day,
        TIMESTAMP'2026-01-02 03:04:05.678901Z' AS at, CAST(NULL AS STRING) AS nothing, 3 AS `a``b`"""
    )
    DatabaseSink(database.address, "strange one", ('the "key"',), create=True).write(
        frame, MicroBatch("q", 0), Control()
    )
    found = database.execute('SELECT * FROM "strange one"')[0]
    assert found[0] == 1
    assert found[1]
    assert [str(value)[:23] for value in (found[3], found[5], found[6])] == [
        "12.50",
        "2026-01-02",
        "2026-01-02 03:04:05.678",
    ]
    assert (bytes(found[4]), found[7], found[8]) == (b"\x00\xff", None, 3)


def test_a_sink_waits_for_its_database(database: TestDatabase, rows: Callable[..., DataFrame]) -> None:
    sink = users(database)
    sink.write(rows((1, "a", 1, "INSERT")), MicroBatch("q", 0), Control())
    notes: list[str] = []
    changes = rows((1, "b", 2, "UPDATE"))
    database.stop()
    writing = threading.Thread(target=sink.write, args=(changes, MicroBatch("q", 1), Control(report=notes.append)))
    writing.start()
    wait_until(lambda: notes)
    database.start()
    writing.join(60)
    assert not writing.is_alive()
    assert notes[0].startswith("waiting for ")
    assert notes[-1] == ""
    assert database.execute("SELECT name FROM users") == [("b",)]


def test_a_database_that_stays_away_ends_the_wait_with_one_line(tmp_path: Path, rows: Callable[..., DataFrame]) -> None:
    sink = DatabaseSink(f"sqlite:///{tmp_path}/not/there.db", "users", ("id",), create=True, retry_for_s=0.3)
    with pytest.raises(PipelineError, match=r"was away for 0.3 s \(retry_for\): .*there is no such directory"):
        sink.write(rows((1, "a", 1, "INSERT")), MicroBatch("q", 0), Control())


def test_a_sink_that_waits_stops_when_the_pipeline_does(tmp_path: Path, rows: Callable[..., DataFrame]) -> None:
    sink = DatabaseSink(f"sqlite:///{tmp_path}/not/there.db", "users", ("id",), create=True)
    control = Control()
    control.stopping.set()
    with pytest.raises(Stopped):
        sink.write(rows((1, "a", 1, "INSERT")), MicroBatch("q", 0), control)


def test_what_does_not_fit_the_table_is_found_before_anything_runs(
    database: TestDatabase, rows: Callable[..., DataFrame]
) -> None:
    database.execute("CREATE TABLE users (id BIGINT, nam VARCHAR(20), version BIGINT)")
    schema = rows((1, "a", 1, "INSERT")).schema
    sink = DatabaseSink(database.address, "users", ("id",), order="version", delete_when="op = 'D'")
    assert sink.problems(schema, None) == [
        "table 'users' has no primary key or unique index on (id)",
        "table 'users': unknown column 'name'; did you mean nam?",
    ]
    missing = DatabaseSink(database.address, "user", ("idd",), order="version").problems(schema, None)
    assert missing[0] == "unknown column 'idd'; did you mean id?"
    assert missing[1].startswith("there is no table 'user'; set create: true, or make it: CREATE TABLE")


def test_numbers_that_order_changes_are_compared_as_numbers(
    database: TestDatabase, rows: Callable[..., DataFrame]
) -> None:
    """Also where a column of text keeps them, as SQLite keeps decimals."""
    database.execute("CREATE TABLE kept (id BIGINT PRIMARY KEY, n TEXT, name TEXT)")
    decimals = DatabaseSink(database.address, "made", ("id",), order="n", delete_when="name IS NULL", create=True)
    integers = DatabaseSink(database.address, "kept", ("id",), order="n", delete_when="name IS NULL")
    for sink, kind in ((decimals, "decimal(9,2)"), (integers, "int")):
        for number, (version, name) in enumerate([(9, "a"), (10, "b"), (9, None)]):
            value = Decimal(version) if "decimal" in kind else version
            changes = rows((1, value, name), schema=f"id long, n {kind}, name string")
            sink.write(changes, MicroBatch(kind, number), Control())
        assert database.execute(f"SELECT name FROM {sink.table}") == [("b",)], kind


def test_text_that_orders_changes_is_compared_by_its_bytes(
    database: TestDatabase, rows: Callable[..., DataFrame]
) -> None:
    """As Spark does within a batch, whatever the column's collation says."""
    collation = "NOCASE" if isinstance(database, SqliteFile) else '"und-x-icu"'
    database.execute(f"CREATE TABLE t (id BIGINT PRIMARY KEY, version TEXT COLLATE {collation}, name TEXT)")
    sink = DatabaseSink(database.address, "t", ("id",), order="version", delete_when="name IS NULL")
    for number, (version, name) in enumerate([("B", "first"), ("a", "last"), ("B", "old"), ("Z", None)]):
        changes = rows((1, version, name), schema="id long, version string, name string")
        sink.write(changes, MicroBatch("q", number), Control())
    assert database.execute("SELECT name FROM t") == [("last",)]


def test_a_row_can_have_a_unique_value_that_another_gives_up_in_the_same_batch(
    database: TestDatabase, rows: Callable[..., DataFrame]
) -> None:
    database.execute("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, mail VARCHAR(9))")
    database.execute("CREATE UNIQUE INDEX mails ON t (lower(mail))")
    sink = DatabaseSink(database.address, "t", ("id",), delete_when="mail = 'gone'")
    schema = "id int, mail string"
    sink.write(rows((1, "a"), (2, "b"), (3, "c"), schema=schema), MicroBatch("q", 0), Control())
    # The first needs what the second has, which needs what the third has, which goes.
    sink.write(rows((1, "b"), (2, "c"), (3, "gone"), (4, "a"), schema=schema), MicroBatch("q", 1), Control())
    assert database.execute("SELECT id, mail FROM t ORDER BY id") == [("1", "b"), ("2", "c"), ("4", "a")]
    with pytest.raises(PipelineError, match=r"(?i)table 't': .*unique"):
        sink.write(rows((5, "a"), (6, "new"), schema=schema), MicroBatch("q", 2), Control())
    assert database.execute("SELECT count(*) FROM t") == [(3,)]


def test_a_complete_result_replaces_the_rows_of_a_table(database: TestDatabase, rows: Callable[..., DataFrame]) -> None:
    sink = DatabaseSink(database.address, "t", ("id",), create=True, is_complete=True)
    schema = "id int, name string"
    sink.write(rows((1, "a"), (2, "b"), schema=schema), MicroBatch("q", 0), Control())
    sink.write(rows((2, "c"), schema=schema), MicroBatch("q", 1), Control())
    assert database.execute("SELECT * FROM t") == [(2, "c")]
    sink.write(rows(schema=schema), MicroBatch("q", 2), Control())
    assert database.execute("SELECT * FROM t") == []


def test_a_role_that_may_write_needs_no_more_rights(
    empty_postgres: PostgresServer, rows: Callable[..., DataFrame]
) -> None:
    server = empty_postgres
    server.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
    server.execute(f"CREATE TABLE {BOOKS} ({BOOKS_DEFINITION})")
    server.execute("CREATE ROLE writer LOGIN")
    server.execute("GRANT USAGE ON SCHEMA public TO writer")
    server.execute(f"GRANT SELECT, INSERT, UPDATE ON {BOOKS} TO writer")
    server.execute("GRANT SELECT, INSERT, UPDATE (name) ON t TO writer")
    changes = rows((1, "a"), schema="id long, name string")
    sink = DatabaseSink(server.address.replace("tester@", "writer@"), "t", ("id",), create=True)
    try:
        assert sink.problems(changes.schema, None) == []
        sink.write(changes, MicroBatch("q", 0), Control())
    finally:
        server.execute("DROP OWNED BY writer")
        server.execute("DROP ROLE writer")
    assert server.execute("SELECT * FROM t") == [(1, "a")]


def test_no_transaction_waits_for_spark(empty_postgres: PostgresServer, spark: SparkSession) -> None:
    """A server with a limit for idle transactions would end it."""
    address = empty_postgres.address

    def looked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with psycopg.connect(address) as connection:
                asked = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
                found = connection.execute(asked).fetchone()
            yield batch.append_column("open", pa.array([found[0] if found else -1] * batch.num_rows, pa.int64()))

    changes = spark.range(2).repartition(2).mapInArrow(looked, "id long, open long")
    DatabaseSink(address, "t", ("id",), create=True).write(changes, MicroBatch("q", 0), Control())
    assert empty_postgres.execute("SELECT id, open FROM t ORDER BY id") == [(0, 0), (1, 0)]


def test_a_batch_is_once_in_a_delta_table(rows: Callable[..., DataFrame], tmp_path: Path) -> None:
    from deltalake import DeltaTable

    sink = DeltaSink(str(tmp_path / "table"), partition_by=("op",))
    many = rows(*((number, f"n{number}", 1, "INSERT") for number in range(1_000))).repartition(7)
    for number in (0, 0, 1, 1):
        sink.write(many, MicroBatch("q", number), Control())
    with pytest.raises(PipelineError, match=OLDER.format(1, 0)):
        sink.write(many, MicroBatch("q", 0), Control())
    sink.write(rows((7, None, None, "DELETE")), MicroBatch("r", 0), Control())
    sink.write(many.limit(0), MicroBatch("q", 2), Control())
    table = DeltaTable(sink.directory)
    assert table.to_pyarrow_table().num_rows == 2_001
    assert table.transaction_version("q") == 1
    assert sink.problems(rows((1, "a", 1, "x")).schema, None) == []
    assert sink.problems(rows((1, "a"), schema="id long, title string").schema, None) == [
        "unknown column 'op'",
        f"table {sink.directory}: unknown column 'title'",
    ]


def test_a_complete_result_without_rows_empties_a_delta_table(rows: Callable[..., DataFrame], tmp_path: Path) -> None:
    from deltalake import DeltaTable

    sink = DeltaSink(str(tmp_path / "table"), partition_by=("name",), is_complete=True)
    for number, changes in enumerate([rows((1, "a", 1, "x"), (2, "b", 1, "x")), rows()]):
        sink.write(changes, MicroBatch("q", number), Control())
    table = DeltaTable(sink.directory)
    assert table.to_pyarrow_table().num_rows == 0
    assert table.transaction_version("q") == 1
    sink.write(rows((3, "c", 1, "x")), MicroBatch("q", 2), Control())
    assert DeltaTable(sink.directory).to_pyarrow_table()["id"].to_pylist() == [3]


def test_names_with_any_letters_are_written(
    rows: Callable[..., DataFrame], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from deltalake import DeltaTable

    frame = rows((1, 2), schema="id long, other long").toDF("a`b", "c.d")
    sink = DeltaSink(str(tmp_path / "table"))
    sink.write(frame, MicroBatch("q", 0), Control())
    assert DeltaTable(sink.directory).to_pyarrow_table().to_pylist() == [{"a`b": 1, "c.d": 2}]
    ConsoleSink("shown").write(frame, MicroBatch("q", 0), Control())
    assert "a`b" in capsys.readouterr().out


@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("last", [0, 1])
def test_a_driver_that_was_given_up_cannot_write_its_batch_to_a_delta_table(
    is_complete: bool, last: int, rows: Callable[..., DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    sink = DeltaSink(str(tmp_path / "table"), is_complete=is_complete)
    old, new = rows((1, "old", 1, "x")), rows((2, "new", 1, "x"))
    if last:
        sink.write(rows((0, "first", 1, "x")), MicroBatch("q", 0), Control())

    def overtaken(frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """While its rows are computed, its successor writes the batch and the one behind it."""
        monkeypatch.setattr("levada.spark.pipeline.sinks.delta.chunks", chunks)
        for number in (last, last + 1):
            sink.write(new, MicroBatch("q", number), Control())
        yield from chunks(frame)

    monkeypatch.setattr("levada.spark.pipeline.sinks.delta.chunks", overtaken)
    with pytest.raises(PipelineError, match=rf"batch {last + 1} "):
        sink.write(old, MicroBatch("q", last), Control())
    found = DeltaTable(sink.directory).to_pyarrow_table()["name"].to_pylist()
    assert sorted(found) == (["new"] if is_complete else ["first"] * last + ["new"] * 2)


def test_two_drivers_that_make_a_delta_table_at_once_write_its_first_batch_once(
    rows: Callable[..., DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    sink = DeltaSink(str(tmp_path / "table"))
    write = deltalake.write_deltalake

    def overtaken(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(deltalake, "write_deltalake", write)
        sink.write(rows((2, "new", 1, "x")), MicroBatch("q", 0), Control())
        write(*arguments, **options)

    monkeypatch.setattr(deltalake, "write_deltalake", overtaken)
    with pytest.raises(PipelineError, match="another driver with this checkpoint has written batch 0 while this one"):
        sink.write(rows((1, "old", 1, "x")), MicroBatch("q", 0), Control())
    assert DeltaTable(sink.directory).to_pyarrow_table()["name"].to_pylist() == ["new"]


def test_a_batch_is_once_in_a_directory_of_parquet(
    spark: SparkSession, rows: Callable[..., DataFrame], tmp_path: Path
) -> None:
    sink = ParquetSink(str(tmp_path / "out"))
    for number in (0, 0, 1, 1):
        sink.write(rows((number, "a", 1, "x"), (number, "b", 1, "x")), MicroBatch("q", number), Control())
    found = spark.read.parquet(sink.directory)
    assert sorted((row.id, row.name, row.batch) for row in found.collect()) == [
        (0, "a", 0),
        (0, "b", 0),
        (1, "a", 1),
        (1, "b", 1),
    ]


def test_a_fresh_checkpoint_over_an_old_directory_of_parquet_is_refused(
    rows: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """Spark's own sink writes nothing then, and says nothing."""
    sink = ParquetSink(str(tmp_path / "out"))
    changes = rows((1, "a", 1, "x"))
    assert sink.problems(changes.schema, None) == []
    sink.write(changes, MicroBatch("q", 0), Control())
    assert sink.problems(changes.schema, "q") == []
    (problem,) = sink.problems(changes.schema, None)
    assert "has batches of another checkpoint" in problem
    with pytest.raises(PipelineError, match="has batches of another checkpoint"):
        sink.write(changes, MicroBatch("r", 0), Control())
    foreign = tmp_path / "foreign"
    changes.write.parquet(str(foreign))
    (problem,) = ParquetSink(str(foreign)).problems(changes.schema, "q")
    assert "is not empty and not this pipeline's" in problem


def test_a_directory_of_parquet_that_is_ahead_of_the_checkpoint_is_refused(
    rows: Callable[..., DataFrame], tmp_path: Path
) -> None:
    changes = rows((1, "a", 1, "x"))
    sink = ParquetSink(str(tmp_path / "out"))
    for number in (8, 9, 10):
        sink.write(changes, MicroBatch("q", number), Control())
    (tmp_path / "out" / "batch=8").rename(tmp_path / "away")
    for later in (sink, ParquetSink(sink.directory)):
        with pytest.raises(PipelineError, match=OLDER.format(10, 9)):
            later.write(changes, MicroBatch("q", 9), Control())
    with pytest.raises(PipelineError, match=OLDER.format(10, 8)):
        ParquetSink(sink.directory).write(changes, MicroBatch("q", 8), Control())


def test_a_column_that_directories_of_parquet_would_hide_is_refused(
    rows: Callable[..., DataFrame], tmp_path: Path
) -> None:
    (problem,) = ParquetSink(str(tmp_path / "out")).problems(rows(schema="id long, Batch long").schema, None)
    assert problem == "a column 'Batch' would be hidden by that of the directories (batch=0, batch=1, ...): rename it"


@pytest.mark.parametrize("is_local", [True, False])
def test_of_two_drivers_that_write_a_batch_one_is_seen(
    spark: SparkSession, rows: Callable[..., DataFrame], tmp_path: Path, is_local: bool
) -> None:
    """The one that was given up, and is still at work, while its successor writes the same."""
    directory = str(tmp_path / "out")
    if not is_local:
        hadoop: Any = spark
        hadoop._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.test.link./data", tmp_path.as_uri())
        directory = "viewfs://test/data/out"
    batch = MicroBatch("q", 0)
    published = tmp_path / "out" / "batch=0"

    def overtaken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        give_up_at = time.monotonic() + 30
        while not published.exists():
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
        yield from batches

    # One task, as Spark has two cores here.
    slow = rows((1, "slow", 1, "x")).coalesce(1).mapInArrow(overtaken, SCHEMA)
    written: list[str] = []

    def write_slowly() -> None:
        ParquetSink(directory).write(slow, batch, Control())
        written.append("slow")

    writing = threading.Thread(target=write_slowly)
    writing.start()
    staging = tmp_path / "out" / STAGING
    wait_until(lambda: staging.exists() and any(staging.iterdir()))
    ParquetSink(directory).write(rows((1, "quick", 1, "x")), batch, Control())
    writing.join(60)
    assert written == ["slow"]
    assert [row.name for row in spark.read.parquet(directory).collect()] == ["quick"]
    assert list(staging.iterdir()) == []
