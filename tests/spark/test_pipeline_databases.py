"""What sources and sinks need of databases, asked of real ones without Spark."""

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.spark.pipeline.databases import CursorRange, Database, DatabaseAway, connect
from levada.spark.pipeline.problems import PipelineError
from levada.spark.pipeline.sinks import DatabaseSink
from levada.spark.pipeline.sources.table import BEGINNING, TableSource, TableStreamReader, table_settings
from levada.spark.pipeline.tables import TableWriter
from tests.spark.databases import PostgresServer, TestDatabase, wait_until

EVERYTHING = CursorRange(None, None)


@contextmanager
def running(work: Any) -> Iterator[list[Any]]:
    """What the work gives is in the list when the block is over; or the error it has raised."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield found
    thread.join(60)
    assert found


def read(
    address: str, table: str, cursor: str, *, schema: Mapping[str, DataType] | None = None, **options: str
) -> list[dict[str, Any]]:
    """All rows of a table, as its source gives them."""
    reader = reader_of(address, table, cursor, schema=schema, **options)
    end = reader.latestOffset(BEGINNING, ReadMaxRows(100))
    return [
        row for each in reader.partitions(BEGINNING, end) for batch in reader.read(each) for row in batch.to_pylist()
    ]


def reader_of(
    address: str, table: str, cursor: str, *, schema: Mapping[str, DataType] | None = None, **options: str
) -> TableStreamReader:
    given = {"database": address, "table": table, "cursor": cursor, "pollMs": "1", **options}
    asked = StructType([StructField(name, kind) for name, kind in (schema or {}).items()])
    types = asked if schema else TableSource(given).schema()
    return TableStreamReader(table_settings(given), types)


def insert(database: Database, table: str, **values: Any) -> None:
    columns = [column for column in database.columns(table) if column.name in values]
    database.insert_many(table, columns, "", [tuple(values[column.name] for column in columns)])


def test_values_of_any_kind_in_columns_of_sqlite_are_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db", isolation_level=None) as connection:
        connection.execute("CREATE TABLE t (n INTEGER, at DATETIME, any_value, flag BOOLEAN, price DECIMAL(10,2))")
        connection.execute(
            "INSERT INTO t VALUES (1, '2026-01-01 10:00:00', 'x', 'false', 1.5), (2, 1767225600, 2.5, 1, 2)"
        )
    connection.close()
    address = f"sqlite:///{tmp_path}/a.db"
    assert read(address, "t", "n") == [
        {"n": 1, "at": "2026-01-01 10:00:00", "any_value": "x", "flag": False, "price": 1.5},
        {"n": 2, "at": "1767225600", "any_value": "2.5", "flag": True, "price": 2.0},
    ]
    asked = read(address, "t", "n", schema={"n": LongType(), "price": DecimalType(10, 2)})
    assert [str(row["price"]) for row in asked] == ["1.50", "2.00"]
    with pytest.raises(
        PipelineError, match=r"column 'at' has 1767225600, which is no timestamp: give the source a schema"
    ):
        read(address, "t", "n", schema={"at": TimestampType()})
    with pytest.raises(PipelineError, match=r"column 'any_value' has 'x', which is no bigint"):
        read(address, "t", "n", schema={"any_value": LongType()})
    with pytest.raises(PipelineError, match=r"table 't': column 'at' has a value \(.*\), which is no double"):
        read(address, "t", "n", schema={"at": DoubleType()})


def test_times_of_sqlite_are_those_of_a_schema(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db", isolation_level=None) as connection:
        connection.execute("CREATE TABLE t (at DATETIME)")
        connection.execute("INSERT INTO t VALUES ('2026-01-01 10:00:00'), ('2026-01-01T12:00:00.5+01:00')")
    connection.close()
    rows = read(f"sqlite:///{tmp_path}/a.db", "t", "at", schema={"at": TimestampType()})
    assert [str(row["at"]) for row in rows] == ["2026-01-01 10:00:00+00:00", "2026-01-01 11:00:00.500000+00:00"]


def test_a_row_whose_transaction_commits_later_is_in_a_run_that_ends(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute("CREATE TABLE t (n BIGINT)")
    with psycopg.connect(empty_postgres.address) as late:
        late.execute("INSERT INTO t VALUES (4)")
        empty_postgres.execute("INSERT INTO t VALUES (5)")
        reader = reader_of(empty_postgres.address, "t", "n", settleMs="1500")
        reader.prepareForTriggerAvailableNow()

        def all_rows() -> list[int]:
            end = reader.latestOffset(BEGINNING, ReadMaxRows(10))
            empty_postgres.execute("INSERT INTO t VALUES (6)")
            assert reader.latestOffset(end, ReadMaxRows(10)) == end, "what comes later is for the next run"
            return [
                row["n"]
                for each in reader.partitions(BEGINNING, end)
                for b in reader.read(each)
                for row in b.to_pylist()
            ]

        with running(all_rows) as found:
            wait_until(lambda: reader._seen)
            late.commit()
    assert found == [[4, 5]]


def test_a_run_that_ends_waits_for_a_database_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with sqlite3.connect(tmp_path / "made" / "a.db", isolation_level=None) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
        connection.execute("INSERT INTO t VALUES (5)")
    connection.close()
    reader = reader_of(f"sqlite:///{tmp_path}/there/a.db", "t", "n", schema={"n": LongType()})
    reader.prepareForTriggerAvailableNow()
    with running(lambda: reader.latestOffset(BEGINNING, ReadMaxRows(10))) as found:
        (tmp_path / "made").rename(tmp_path / "there")
    assert found == [{"cursor": 5}]


def test_what_an_insert_refuses_is_not_cut_to_fit(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute("CREATE TABLE t (v varchar(5), c char(3), b bit(2), d numeric(4,2))")
    with connect(empty_postgres.address) as database:
        insert(database, "t", v="abcde", c="ab", b="01", d="1.005")
        for wrong in ({"v": "abcdef"}, {"c": "abcd"}, {"b": "011"}):
            with pytest.raises(psycopg.DataError):
                insert(database, "t", **wrong)
    assert [(v, c, b, str(d)) for v, c, b, d in empty_postgres.execute("SELECT * FROM t")] == [
        ("abcde", "ab ", "01", "1.01")
    ]


def test_only_unique_keys_count_that_a_conflict_can_name(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute(
        "CREATE TABLE t (a INT, b INT, c INT, d INT, UNIQUE (a, b) INCLUDE (c), UNIQUE (c) DEFERRABLE, UNIQUE (d))"
    )
    with connect(empty_postgres.address) as database:
        assert sorted(map(sorted, database.unique_keys("t"))) == [["a", "b"], ["d"]]


def test_errors_that_pass_are_told_from_those_that_stay(empty_postgres: PostgresServer) -> None:
    passing = ["08006", "25006", "25P03", "40001", "40P01", "53100", "53300", "55P03", "57014", "57P01", "58030"]
    staying = ["22001", "42501", "42P01", "54000", "55000", "0A000", "XX000"]
    found = {}
    with connect(empty_postgres.address) as database:
        for state in (*passing, *staying):
            try:
                database.execute(f"DO $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '{state}'; END $$")
            except Exception as error:
                found[state] = isinstance(error, DatabaseAway)
    assert found == {**dict.fromkeys(passing, True), **dict.fromkeys(staying, False)}


def test_the_options_of_an_address_are_kept(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute("CREATE SCHEMA other")
    address = (
        f"{empty_postgres.address}?options=-c%20search_path%3Dother%20-c%20timezone%3DAsia/Tokyo&connect_timeout=7"
    )
    with connect(address) as database:
        assert database.execute("SHOW search_path") == [("other",)]
        assert database.execute("SHOW timezone") == [("UTC",)]
        assert database._connection.info.get_parameters()["connect_timeout"] == "7"  # type: ignore[attr-defined]
    empty_postgres.execute("DROP SCHEMA other")


@pytest.mark.parametrize(
    ("user", "name", "said"),
    [
        ("tester", "nothing", 'database "nothing" does not exist'),
        ("stranger", "postgres", 'role "stranger" does not exist'),
        ("known:wrong", "postgres", 'password authentication failed for user "known"'),
        ("known", "postgres", "no password supplied"),
        ("barred", "postgres", "is not permitted to log in"),
        ("rejected", "postgres", "pg_hba.conf rejects connection"),
    ],
)
def test_an_address_that_a_server_refuses_is_told_at_once(
    empty_postgres: PostgresServer, user: str, name: str, said: str
) -> None:
    server = empty_postgres
    server.execute("CREATE ROLE known LOGIN PASSWORD 'right'")
    server.execute("CREATE ROLE barred")
    server.allow("host all known all scram-sha-256\nhost all rejected all reject")
    try:
        address = f"postgresql://{user}@127.0.0.1:{server.port}/{name}"
        wait_until(lambda: said in refusal_of(address))
        with connect(f"postgresql://known:right@127.0.0.1:{server.port}/postgres") as database:
            assert database.user == "known"
    finally:
        server.allow("")
        server.execute("DROP ROLE known, barred")


def refusal_of(address: str) -> str:
    try:
        connect(address).close()
    except PipelineError as error:
        return str(error)
    return ""


def test_a_server_that_is_away_or_full_is_waited_for(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 0")
    try:
        for address in (
            "postgresql://tester@127.0.0.1:1/postgres",
            f"postgresql://few@127.0.0.1:{empty_postgres.port}/postgres",
            f"postgresql://stranger@127.0.0.1:1,127.0.0.1:{empty_postgres.port}/postgres",
        ):
            with pytest.raises(DatabaseAway):
                connect(address)
    finally:
        empty_postgres.execute("DROP ROLE few")


def test_an_address_that_is_none_is_refused_without_its_password() -> None:
    for address in ("postgresql://me:sec/ret@host:5/db", "postgresql://me:secret@host:5/db?nothing=known"):
        with pytest.raises(PipelineError) as refused:
            connect(address)
        shown = address.replace("sec/ret", "***").replace("secret", "***")
        assert str(refused.value).startswith(f"{shown!r} is no address: write postgresql://USER:PASSWORD@")


def test_two_who_make_a_table_at_once_both_have_it(empty_postgres: PostgresServer) -> None:
    with psycopg.connect(empty_postgres.address) as first, connect(empty_postgres.address) as second:
        first.execute("CREATE TABLE t (n INT)")
        with running(lambda: second.create_table("t", "n INT")) as found:
            wait_until(lambda: empty_postgres.execute("SELECT 1 FROM pg_locks WHERE NOT granted"))
            first.commit()
        assert found == [None]
        assert [column.name for column in second.columns("t")] == ["n"]


def test_text_that_cannot_be_kept_is_refused_by_its_column(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute("CREATE TABLE t (name TEXT)")
    with (
        connect(empty_postgres.address) as database,
        pytest.raises(PipelineError, match=r"column 'name': .* NUL .*: replace\(name, char\(0\), ''\) takes it out"),
    ):
        insert(database, "t", name="a\0b")


def test_times_without_an_end_are_refused_or_read_as_text(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute("CREATE TABLE t (n INT, until TIMESTAMPTZ, day DATE)")
    empty_postgres.execute(
        "INSERT INTO t VALUES (1, 'infinity', '2026-01-01'), (2, '2026-01-01 00:00+00', '-infinity')"
    )
    with pytest.raises(
        PipelineError, match=r"table 't': .*; give the source a schema in which until or day is a string"
    ):
        read(empty_postgres.address, "t", "n")
    rows = read(empty_postgres.address, "t", "n", schema={"until": StringType(), "day": StringType()})
    assert [tuple(row.values()) for row in rows] == [
        ("infinity", "2026-01-01"),
        ("2026-01-01 00:00:00+00", "-infinity"),
    ]


@pytest.mark.parametrize("kind", ["TIMESTAMPTZ", "DATE", "DOUBLE PRECISION"])
def test_no_row_is_behind_an_infinite_cursor(empty_postgres: PostgresServer, kind: str) -> None:
    first, last = ("1", "2") if kind == "DOUBLE PRECISION" else ("2026-01-01", "2026-01-02")
    empty_postgres.execute(f"CREATE TABLE t (n INT, at {kind})")
    empty_postgres.execute(f"INSERT INTO t VALUES (1, '{first}'), (2, 'infinity'), (3, NULL), (4, '{last}')")
    assert [row["n"] for row in read(empty_postgres.address, "t", "at")] == [1, 4]


SCHEMA = StructType([StructField("id", LongType()), StructField("name", StringType())])


def test_a_role_without_rights_is_told_of_before_anything_runs(empty_postgres: PostgresServer) -> None:
    empty_postgres.execute("CREATE TABLE users (id BIGINT PRIMARY KEY, name TEXT)")
    empty_postgres.execute("CREATE ROLE reader LOGIN")
    empty_postgres.execute("GRANT USAGE ON SCHEMA public TO reader")
    empty_postgres.execute("GRANT SELECT, UPDATE (id) ON users TO reader")
    address = empty_postgres.address.replace("tester@", "reader@")
    try:
        sink = DatabaseSink(address, "users", ("id",), delete_when="name IS NULL")
        users, batches = sink.problems(SCHEMA, None)
        assert users.startswith("table 'users': 'reader' has no right to INSERT, UPDATE, DELETE: GRANT INSERT, ")
        assert batches == (
            "table 'levada_batches' is not there, and 'reader' may not create it: let its owner run: "
            'CREATE TABLE IF NOT EXISTS "levada_batches" (query VARCHAR(200) PRIMARY KEY, batch BIGINT NOT NULL); '
            "GRANT SELECT, INSERT, UPDATE ON levada_batches TO reader"
        )
        (problem,) = DatabaseSink(address, "new", ("id",), create=True).problems(SCHEMA, None)
        assert problem.startswith("table 'new' is not there, and 'reader' may not create it")
    finally:
        empty_postgres.execute("DROP OWNED BY reader")
        empty_postgres.execute("DROP ROLE reader")


def test_columns_that_delete_when_names_are_made_with_the_table(database: TestDatabase) -> None:
    sink = DatabaseSink(database.address, "t", ("id",), delete_when="id < 0 OR op = 'name'", create=True)
    with connect(database.address) as opened:
        made = sink._table_definition(opened, StructType([*SCHEMA.fields, StructField("op", StringType())]))
        opened.create_table("t", made)
        assert [column.name for column in opened.columns("t")] == ["id", "name", "op"]


def test_a_word_in_a_text_of_delete_when_is_no_column(database: TestDatabase) -> None:
    database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    given = StructType([*SCHEMA.fields, StructField("op", StringType())])
    sink = DatabaseSink(database.address, "t", ("id",), delete_when="OP = 'name'")
    assert sink.problems(given, None) == ["table 't': unknown column 'name'"]


def written_at_once(database: TestDatabase, *rows: tuple[int, str], **options: Any) -> None:
    """As one batch of a sink for the table `t`."""
    sink = DatabaseSink(database.address, "t", ("id",), **options)
    columns = list(zip(*rows))
    batch = pa.RecordBatch.from_pydict(
        {"id": list(columns[0]), "name": list(columns[1]), "_deleted": [False] * len(rows)}
    )
    half = len(rows) // 2
    with connect(database.address) as opened:
        writer = TableWriter(opened, sink._table(opened, SCHEMA), [*SCHEMA.names, "_deleted"], "_deleted")
        opened.begin()
        writer.upsert([batch.slice(0, half), batch.slice(half)])
        opened.commit()


UNIQUE_NAMES = {
    "nullable": "name VARCHAR(9) UNIQUE, more INTEGER DEFAULT 5",
    "not null": "name VARCHAR(9) NOT NULL UNIQUE, more INTEGER DEFAULT 5",
    "with another": "name VARCHAR(9) NOT NULL, more INTEGER DEFAULT 5, UNIQUE (name, more)",
}


@pytest.mark.parametrize("columns", UNIQUE_NAMES.values(), ids=UNIQUE_NAMES)
def test_rows_of_a_batch_exchange_unique_values(database: TestDatabase, columns: str) -> None:
    database.execute(f"CREATE TABLE t (id BIGINT PRIMARY KEY, {columns})")
    database.execute("INSERT INTO t VALUES (1, 'a', 5), (2, 'b', 5), (3, 'c', 5), (9, 'z', 5)")
    database.execute("UPDATE t SET more = 5")
    written_at_once(database, (4, "a"), (1, "b"), (2, "c"), (3, "d"))
    written_at_once(database, (1, "c"), (2, "b"))
    expected = [(1, "c", 5), (2, "b", 5), (3, "d", 5), (4, "a", 5), (9, "z", 5)]
    assert database.execute("SELECT * FROM t ORDER BY id") == expected
    with pytest.raises(PipelineError, match=r"(?i)table 't': .*unique"):
        written_at_once(database, (1, "z"), (5, "c"))
    assert database.execute("SELECT * FROM t ORDER BY id") == expected


def test_a_null_frees_a_value_only_of_plain_indexes(database: TestDatabase) -> None:
    """A column of an index's condition, or one that it only includes, would be made null for nothing."""
    database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(9), more INTEGER)")
    indexes = ["(name)", "(more) WHERE name IS NULL", "(lower(name))"]
    if isinstance(database, PostgresServer):
        indexes += ["(name) INCLUDE (more)", "(name, more) NULLS NOT DISTINCT"]
    for number, index in enumerate(indexes):
        database.execute(f"CREATE UNIQUE INDEX u{number} ON t {index}")
    with connect(database.address) as opened:
        found = opened.unique_indexes("t")
    assert {index.columns for index in found if index.is_plain} == {("id",), ("name",)}
    assert len([index for index in found if not index.is_plain]) == len(indexes) - 1


@pytest.mark.parametrize("columns", UNIQUE_NAMES.values(), ids=UNIQUE_NAMES)
def test_many_rows_that_pass_unique_values_on_take_little_longer_than_others(
    database: TestDatabase, columns: str
) -> None:
    count = 1_000
    database.execute(f"CREATE TABLE t (id BIGINT PRIMARY KEY, {columns})")
    written_at_once(database, *((number, f"n{number}") for number in range(count)))
    began = time.monotonic()
    written_at_once(database, *((number, f"n{number + 1}") for number in range(count)))
    assert time.monotonic() - began < 5
    assert database.execute("SELECT count(*), min(id), max(id) FROM t WHERE name = 'n' || (id + 1)") == [
        (count, 0, count - 1)
    ]


def test_an_older_row_keeps_its_unique_value(database: TestDatabase) -> None:
    """It changes nothing, so it gives nothing up: the row that wants its value is refused."""
    database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(9) UNIQUE)")
    database.execute("INSERT INTO t VALUES (1, 'm'), (2, 'k')")
    with pytest.raises(PipelineError, match=r"(?i)table 't': .*unique"):
        written_at_once(database, (1, "a"), (2, "m"), order="name")
    assert database.execute("SELECT * FROM t ORDER BY id") == [(1, "m"), (2, "k")]


def test_rows_that_others_refer_to_are_not_deleted_to_exchange_values(empty_postgres: PostgresServer) -> None:
    server = empty_postgres
    server.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
    server.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    server.execute("CREATE TABLE other (id BIGINT REFERENCES t ON DELETE CASCADE)")
    server.execute("INSERT INTO other VALUES (1), (2)")
    # One after the other it can be done.
    written_at_once(server, (1, "b"), (2, "c"), (3, "d"))
    assert server.execute("SELECT * FROM t ORDER BY id") == [(1, "b"), (2, "c"), (3, "d")]
    with pytest.raises(
        PipelineError, match=r"DEFERRABLE INITIALLY DEFERRED; they .* inserted again, as table other refers to it"
    ):
        written_at_once(server, (1, "c"), (2, "b"))
    server.execute("ALTER TABLE t DROP CONSTRAINT t_name_key, ADD UNIQUE (name) DEFERRABLE INITIALLY DEFERRED")
    written_at_once(server, (1, "c"), (2, "b"))
    assert server.execute("SELECT * FROM t ORDER BY id") == [(1, "c"), (2, "b"), (3, "d")]
    assert server.execute("SELECT count(*) FROM other") == [(2,)]


def test_columns_of_every_kind_are_as_they_were_when_rows_exchange_values(empty_postgres: PostgresServer) -> None:
    server = empty_postgres
    server.execute(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE, n INT GENERATED ALWAYS AS IDENTITY,"
        " twice TEXT GENERATED ALWAYS AS (name || name) STORED, at TIMESTAMPTZ DEFAULT now(), list FLOAT[])"
    )
    server.execute("INSERT INTO t (id, name, list) VALUES (1, 'a', '{1e-300,NaN}'), (2, 'b', NULL)")
    before = server.execute("SELECT id, n, at, list::text FROM t ORDER BY id")
    written_at_once(server, (1, "b"), (2, "a"))
    assert server.execute("SELECT id, n, at, list::text FROM t ORDER BY id") == before
    assert server.execute("SELECT name, twice FROM t ORDER BY id") == [("b", "bb"), ("a", "aa")]


def test_a_row_that_no_statement_can_take_is_refused(database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end the connection to PostgreSQL, and pass for a database that is away."""
    database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
    monkeypatch.setattr("levada.spark.pipeline.tables.MOST_ROW_BYTES", 3 << 20)
    sink = DatabaseSink(database.address, "t", ("id",))
    rows = [
        pa.RecordBatch.from_pydict({"id": [number], "name": ["x" * size], "_deleted": [False]})
        for number, size in enumerate([2 << 20, 4 << 20])
    ]
    with connect(database.address) as opened:
        writer = TableWriter(opened, sink._table(opened, SCHEMA), [*SCHEMA.names, "_deleted"], "_deleted")
        opened.begin()
        writer.upsert(rows[:1])
        with pytest.raises(PipelineError, match="table 't': a row of 4 MiB is more than a statement takes"):
            writer.upsert(rows[1:])
        opened.commit()
    assert database.execute("SELECT id FROM t") == [(0,)]
