"""Sources of pipelines besides topics: files of a directory, and a database's table."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from levada.spark.pipeline.problems import PipelineError
from levada.spark.pipeline.sources import read_files, read_table
from levada.spark.pipeline.sources.table import BEGINNING, TableStreamReader, table_settings
from levada.spark.rows import Rows, check
from levada.spark.rows.writing import outgoing
from tests.spark.databases import SqliteFile, TestDatabase


@pytest.fixture
def drained(tmp_path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """What a query from the test's checkpoint reads until nothing is left."""

    def drain(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        writer = frame.writeStream.foreachBatch(
            lambda rows, _: found.extend(map(tuple, rows.select(*columns).collect()))
        )
        query = writer.option("checkpointLocation", str(tmp_path / "progress")).trigger(availableNow=True).start()
        query.awaitTermination()
        return found

    return drain


def test_a_tables_rows_and_then_its_changes_are_read_once(
    spark: SparkSession, database: TestDatabase, drained: Callable[..., list[tuple[Any, ...]]]
) -> None:
    database.execute("CREATE TABLE users (id BIGINT, name VARCHAR(20), changed BIGINT, is_gone BOOLEAN)")
    database.execute("INSERT INTO users VALUES (1, 'a', 10, false), (2, 'b', 10, false), (3, 'c', 11, false)")
    database.execute("INSERT INTO users VALUES (4, 'not seen', NULL, false)")

    def users() -> DataFrame:
        return read_table(spark, database.address, "users", cursor="changed", max_rows=1)

    assert [field.dataType.simpleString() for field in users().schema] == ["bigint", "string", "bigint", "boolean"]
    first = drained(users(), "id", "name", "is_gone")
    assert sorted(first) == [(1, "a", False), (2, "b", False), (3, "c", False)]
    database.execute("UPDATE users SET is_gone = true, changed = 12 WHERE id = 2")
    database.execute("INSERT INTO users VALUES (5, 'e', 9, false), (6, NULL, 100, NULL)")
    assert sorted(drained(users(), "id", "name", "is_gone")) == [(2, "b", True), (6, None, None)]
    assert drained(users(), "id") == []


def test_times_are_cursors_too(
    spark: SparkSession, database: TestDatabase, drained: Callable[..., list[tuple[Any, ...]]]
) -> None:
    kind = "TEXT" if isinstance(database, SqliteFile) else "timestamptz"
    database.execute(f"CREATE TABLE users (id BIGINT, at {kind})")
    database.execute("INSERT INTO users VALUES (1, '2026-01-01 09:00:00.5+00'), (2, '2026-01-01 09:00:01+00')")
    users = read_table(spark, database.address, "users", cursor="at", max_rows=1)
    assert [row[0] for row in drained(users, "id")] == [1, 2]
    database.execute("INSERT INTO users VALUES (3, '2026-01-01 10:00:00+00')")
    assert drained(users, "id") == [(3,)]


def table_reader(path: Path, **options: str) -> TableStreamReader:
    given = {"database": f"sqlite:///{path}", "table": "t", "cursor": "n", **options}
    schema = StructType([StructField("n", LongType()), StructField("s", StringType())])
    return TableStreamReader(table_settings(given), schema)


def test_rows_are_not_taken_before_they_have_settled(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    connection.execute("CREATE TABLE t (n INTEGER, s TEXT)")
    connection.execute("INSERT INTO t VALUES (5, 'x')")
    slow = table_reader(tmp_path / "a.db", settleMs="3600000", pollMs="1")
    assert slow.latestOffset(BEGINNING, ReadMaxRows(10)) == BEGINNING
    at_once = table_reader(tmp_path / "a.db", pollMs="1")
    assert at_once.latestOffset(BEGINNING, ReadMaxRows(10)) == {"cursor": 5}
    # A transaction that took its number earlier and commits later.
    connection.execute("INSERT INTO t VALUES (4, 'late')")
    slow._look(slow._seen[0][0] + 3601)
    end = slow.latestOffset(BEGINNING, ReadMaxRows(10))
    assert end == {"cursor": 5}
    (partition,) = slow.partitions(BEGINNING, end)
    assert [row["s"] for batch in slow.read(partition) for row in batch.to_pylist()] == ["late", "x"]
    connection.close()


def test_an_idle_table_is_asked_once_in_a_poll_interval(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    connection.execute("CREATE TABLE t (n INTEGER, s TEXT)")
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    reader = table_reader(tmp_path / "a.db", pollMs="3600000")
    end = reader.latestOffset(BEGINNING, ReadMaxRows(10))
    connection.execute("INSERT INTO t VALUES (2, 'y')")
    assert reader.latestOffset(end, ReadMaxRows(10)) == end == {"cursor": 1}
    connection.close()


def test_a_database_that_is_away_gives_no_rows_and_no_error(tmp_path: Path) -> None:
    reader = table_reader(tmp_path / "not" / "there.db", pollMs="1")
    assert reader.latestOffset({"cursor": 3}, ReadMaxRows(10)) == {"cursor": 3}


def test_lines_of_files_come_once_with_their_place(
    spark: SparkSession, tmp_path: Path, drained: Callable[..., list[tuple[Any, ...]]]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_text("one\ntwo\n")
    lines = read_files(spark, str(logs), max_files=1)
    assert isinstance(lines, DataFrame)
    found = drained(lines, "value", "_file", "_modified")
    assert sorted(row[0] for row in found) == ["one", "two"]
    assert found[0][1].endswith("/logs/a.log")
    assert found[0][2] is not None
    (logs / "b.log").write_text("three\n")
    assert [row[0] for row in drained(lines, "value")] == ["three"]


def test_a_line_of_a_file_that_does_not_fit_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path, drained: Callable[..., list[tuple[Any, ...]]]
) -> None:
    logs = tmp_path / "the logs"
    logs.mkdir()
    broken = [
        b'{"id": "x"}',
        b'{"id": 2}{"id": 3}',
        b'{"id": 4},"x":1',
        b"no",
        b'{"name": "n"}',
        b'{"id":5,"name":"\xff"}',
    ]
    (logs / "a.json").write_bytes(b"\n".join([b'{"id": 1, "name": "n"}', b"", *broken, b'{"id": 6}\r\n']))
    rows = read_files(spark, str(logs), format="json", schema="id long not null, name string")
    assert isinstance(rows, Rows)
    assert rows.dead_letters == "the-logs.dead-letters"
    written = outgoing(rows, "out", key="id").selectExpr("topic", "value", "headers", "timestamp")
    found = drained(written, "topic", "value", "headers", "timestamp")
    good = [bytes(value) for topic, value, *_ in found if topic == "out"]
    assert sorted(good) == [b'{"id":1,"name":"n"}', b'{"id":6}']
    letters = {bytes(value): headers for topic, value, headers, _ in found if topic != "out"}
    assert sorted(letters) == sorted(broken)
    headers = {header["key"]: bytes(header["value"]).decode() for header in letters[broken[1]]}
    assert headers.pop("levada-file").endswith("/the%20logs/a.json")
    assert headers.pop("levada-dead-letter-timestamp").isdigit()
    assert headers == {
        "levada-dead-letter-reason": "there is something after the JSON object",
        "levada-dead-letter-stage": "parse",
    }


def test_lines_of_csv_that_no_schema_fits_are_dead_letters(
    spark: SparkSession, tmp_path: Path, drained: Callable[..., list[tuple[Any, ...]]]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    wide = b"," * 30_000
    lines = [b"1,a", wide, b"2,\xff", b"\xfe,c", "3,\N{SNOWMAN}".encode(), b"4,d"]
    (logs / "a.csv").write_bytes(b"\n".join(lines))
    rows = read_files(spark, str(logs), format="csv", schema="id long not null, name string")
    assert isinstance(rows, Rows)
    found = drained(rows.frame, "id", "name", "_rejected.reason")
    good = sorted((number, name) for number, name, reason in found if reason is None)
    assert good == [(1, "a"), (3, "\N{SNOWMAN}"), (4, "d")]
    reasons = sorted(reason[:32] for _, _, reason in found if reason is not None)
    assert reasons == ["the line does not fit the schema", "the line is not UTF-8", "the line is not UTF-8"]


def test_a_line_of_csv_that_does_not_fit_is_a_dead_letter_with_its_text(
    spark: SparkSession, tmp_path: Path, drained: Callable[..., list[tuple[Any, ...]]]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.csv").write_text('id;name\n1;"a;\nb"\nx;c\n2\n3;d;e\n;f\n4;later\n')
    rows = read_files(
        spark,
        str(logs),
        format="csv",
        schema="id long not null, name string",
        dead_letters="dead",
        options={"header": "true", "sep": ";", "multiLine": "true"},
    )
    assert isinstance(rows, Rows)
    checked = rows.quality([check("sooner", "name <> 'later'")])
    found = drained(outgoing(checked, "out"), "topic", "value")
    assert sorted((topic, bytes(value)) for topic, value in found) == [
        ("dead", b"2"),
        ("dead", b"3;d;e"),
        ("dead", b"4;later"),
        ("dead", b";f"),
        ("dead", b"x;c"),
        ("out", b'{"id":1,"name":"a;\\nb"}'),
    ]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"format": "json"}, "json files need a schema"),
        ({"schema": "id long"}, "text files have no schema and no dead letters"),
        ({"format": "xml"}, "files are read as text, json, csv, not 'xml'"),
        (
            {"format": "json", "schema": "id long", "options": {"multiLine": "true"}},
            "JSON files have one object on each",
        ),
        ({"format": "csv", "schema": "id long", "options": {"mode": "FAILFAST"}}, "option 'mode' is set already"),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any], line: str
) -> None:
    with pytest.raises(PipelineError, match=line) as raised:
        read_files(spark, str(tmp_path), **given)
    assert "\n" not in str(raised.value)
