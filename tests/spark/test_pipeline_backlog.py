"""The backlog drill: a real pipeline whose database is down while records pile up, and what becomes of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from tests.spark.databases import PostgresServer, SqliteFile, TestDatabase, server_programs, wait_until

IS_SOAK = os.environ.get("LEVADA_SOAK") == "1"
RECORDS = 2_000_000 if IS_SOAK else 20_000
RATE_LIMIT = 200_000 if IS_SOAK else 4_000
DRAIN_SECONDS = 1_800 if IS_SOAK else 240
TTL_S = 3_600
MARGIN_S = 4
"""Some records are so much younger than the time to live when they are written: they expire while they wait."""

OLD, ENDING, FRESH = "old", "ending", "fresh"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[TestDatabase]:
    """PostgreSQL where it is installed, else a SQLite file that another process holds."""
    found: TestDatabase = PostgresServer() if server_programs() is not None else SqliteFile(tmp_path / "a.db")
    found.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, kind VARCHAR(10))")
    yield found
    found.remove()


@pytest.mark.timeout(3_600 if IS_SOAK else 400)
def test_a_backlog_is_drained_when_the_database_returns_and_nothing_is_lost(
    bootstrap: str, new_topic: Callable[..., str], database: TestDatabase, tmp_path: Path
) -> None:
    topic = new_topic(partitions=2)
    file = tmp_path / "drill.yaml"
    file.write_text(yaml.safe_dump(pipeline(topic, bootstrap, database.address, tmp_path), sort_keys=False))
    letters = Letters(bootstrap, topic)
    output = tmp_path / "output"
    process = started(file, output)
    try:
        send(bootstrap, topic, range(100), lambda number: FRESH)
        wait_until(lambda: count(database) == 100, 200)

        database.stop()
        began = time.monotonic()
        send(bootstrap, topic, range(100, 100 + RECORDS), kind_of)
        wait_until(lambda: "waiting for " in output.read_text() and time.monotonic() > began + MARGIN_S, 120)
        assert process.poll() is None, "it waits for its database"
        database.start()
        wait_until(lambda: count(database) + len(letters.look()) >= 100 + RECORDS, DRAIN_SECONDS)

        os.kill(process.pid, signal.SIGTERM)
        process.wait(60)
        refused = letters.look()
    finally:
        process.kill()
        process.wait()
        letters.close()
    said = output.read_text()
    assert process.returncode == 0, said
    assert f"levada: stopped; kept {100 + RECORDS} rows in " in said

    kept = dict(database.execute("SELECT id, kind FROM orders"))
    assert len(refused) == len(set(refused)), "each dead letter once"
    assert not kept.keys() & set(refused), "none in both places"
    assert kept.keys() | set(refused) == set(range(100 + RECORDS)), "none lost"
    kinds = {number: kind_of(number) if number >= 100 else FRESH for number in range(100 + RECORDS)}
    assert OLD not in kept.values()
    assert all(kinds[number] != FRESH for number in refused)
    # Only the one batch that was read, and measured, while the database was down may have such in it.
    assert sum(kind == ENDING for kind in kept.values()) <= RATE_LIMIT / 5
    assert max(batch_sizes(tmp_path / "progress" / "kept")) <= RATE_LIMIT


def pipeline(topic: str, bootstrap: str, address: str, directory: Path) -> dict[str, object]:
    return {
        "bootstrap": bootstrap,
        "checkpoint": str(directory / "progress"),
        "sources": {
            "orders": {
                "topic": topic,
                "schema": "id long not null, kind string",
                "options": {"maxOffsetsPerTrigger": RATE_LIMIT},
            }
        },
        "steps": {"fresh": {"from": "orders", "expire_after": f"{TTL_S} seconds"}},
        "sinks": {"kept": {"from": "fresh", "database": address, "table": "orders", "key": "id", "retry_for": "10m"}},
    }


def started(file: Path, output: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "levada", "pipeline", "run", str(file), "--interval", "1"]
    with output.open("w") as said:
        return subprocess.Popen(command, stdout=said, stderr=said)


def kind_of(number: int) -> str:
    return {0: OLD, 1: ENDING}.get(number % 10, FRESH)


def send(bootstrap: str, topic: str, numbers: range, kind: Callable[[int], str]) -> None:
    now_ms = time.time_ns() // 1_000_000
    timestamps = {OLD: now_ms - 2 * TTL_S * 1_000, ENDING: now_ms - (TTL_S - MARGIN_S) * 1_000, FRESH: now_ms}
    with Producer(bootstrap, linger_ms=20) as producer:
        for number in numbers:
            value = json.dumps({"id": number, "kind": kind(number)}).encode()
            producer.send(topic, value, key=b"%d" % number, timestamp_ms=timestamps[kind(number)])


def count(database: TestDatabase) -> int:
    number: int = database.execute("SELECT count(*) FROM orders")[0][0]
    return number


class Letters:
    """The ids in the dead-letter topic, as a reader of committed records sees them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._partition = TopicPartition(f"{topic}.dead-letters", 0)
        with Admin(bootstrap) as admin:
            admin.create_topics([NewTopic(self._partition.topic, 1)]).raise_any()
        self._consumer = Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
        self._consumer.assign([self._partition])
        self._found: list[int] = []

    def look(self) -> list[int]:
        end = self._consumer.end_offsets([self._partition])[self._partition]
        while self._consumer.position(self._partition) < end:
            records = self._consumer.poll(1.0)
            self._found += [json.loads(record.value)["id"] for record in records if record.value is not None]
        return self._found

    def close(self) -> None:
        self._consumer.close()


def batch_sizes(checkpoint: Path) -> list[int]:
    """From the offsets that Spark keeps of each batch."""
    ends: dict[int, dict[str, int]] = {}
    for file in (checkpoint / "offsets").iterdir():
        if file.name.isdigit():
            progress = json.loads(file.read_text().splitlines()[2])
            ends[int(file.name)] = next(value for key, value in progress.items() if not key.startswith("~"))
    sums = [sum(ends[number].values()) for number in sorted(ends)]
    return [after - before for before, after in zip([0, *sums], sums)]
