"""What a micro-batch takes: `python -m benchmarks.micro_batches [--json FILE] [--rounds 3] [--seconds 20]`.

One Spark on two cores, one broker, a producer at a fixed rate. Queries take turns, each for some seconds, the first of
which do not count: topic to topic and a count by key, exactly once and at least once, beside Spark's own connector (if
Maven Central can be reached): as Spark runs it, and with the checkpoint's files written in the way that our queries
have. The times are those that Spark reports of each batch; of one query more, exactly once, tasks and commits are
timed from inside. Ends with 1 when a median is beyond what is wanted.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.broker import machine
from benchmarks.figures import Check
from benchmarks.micro_batch_parts import COMMIT, DIRECTORY, SOURCE, WRITE, TimedSource, noted
from benchmarks.servers import broker_command, running
from levada import Admin, Producer
from levada.client.admin import NewTopic
from levada.spark import session, write
from levada.spark.checkpoints import quick_files
from tests.interop.spark_connector import jars

MASTER = "local[2]"
PARTITIONS = 3
RATES = (100, 1_000)
SENDS_A_SECOND = 20
KEYS = 100
WARM_UP_SECONDS = 6
WARM_UP_BATCHES = 5
PATIENCE_SECONDS = 120
COPY, COUNT = "copy", "count"
EXACTLY_ONCE, AT_LEAST_ONCE, CONNECTOR = "exactly-once", "at-least-once", "Spark's connector"
QUICK_CONNECTOR = "Spark's connector, our checkpoint files"
TIMED = "copy exactly-once, timed from inside"
REST = "Spark and its Pythons"
"""What is left of addBatch: plans, tasks on their way, Pythons that take up a task, rows between Java and them."""
PARTS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")
WANTED = {EXACTLY_ONCE: 1.5, AT_LEAST_ONCE: 1.2}
"""Of copying 1,000 records a second: at most so many times what Spark's own connector takes."""

Batch = dict[str, int]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the queries of a run read and write."""

    spark: SparkSession
    bootstrap: str
    directory: Path
    source: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each query in each round, after its warm-up")
    parser.add_argument("--only", help="queries with this in their names")
    arguments = parser.parse_args()
    connector = jars()
    if not connector:
        print("Spark's own connector is left out: Maven Central cannot be reached")
    parts_directory = tempfile.mkdtemp(prefix="levada-bench-parts-")
    # Workers have the environment that Java was started with.
    os.environ[DIRECTORY] = parts_directory
    spark = session(MASTER, settings={"spark.jars": ",".join(map(str, connector)), "spark.driver.memory": "2g"})
    spark.dataSource.register(TimedSource)
    samples: dict[str, list[Batch]] = defaultdict(list)
    insides: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        with running(broker_command(Path(directory) / "data", "log.retention.bytes=-1")) as server:
            for rate in RATES:
                stage = Stage(spark, f"127.0.0.1:{server.port}", Path(directory), f"in-{rate}")
                create(stage.bootstrap, stage.source)
                with writing(stage.bootstrap, stage.source, rate):
                    for number in range(arguments.rounds):
                        for name, start in queries(has_connector=bool(connector)):
                            if arguments.only is None or arguments.only in name:
                                samples[f"{name}, {rate}/s"] += run(stage, name, number, start, arguments.seconds)
                    if arguments.only is None or arguments.only in TIMED:
                        batches = run(stage, TIMED, 0, _timed, arguments.seconds)
                        insides[f"{rate}/s"] = inside(Path(parts_directory), batches)
        spark.stop()
    shutil.rmtree(parts_directory)
    report: dict[str, Any] = {"machine": machine(), "rounds": arguments.rounds, "master": MASTER}
    report["milliseconds"] = {name: described(batches) for name, batches in samples.items()}
    for name, figures in report["milliseconds"].items():
        print(
            f"{name:56}"
            + "  ".join(f"{part} {figures[part]['median']:.0f}/{figures[part]['p95']:.0f}" for part in PARTS)
        )
    report["inside addBatch"] = insides
    for rate_name, figures in insides.items():
        print(f"{TIMED}, {rate_name}: " + "  ".join(f"{part} {length:.1f}" for part, length in figures.items()))
    checks = checks_of(report["milliseconds"])
    report["checks"] = [check.as_json() for check in checks]
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


Start = Callable[[Stage, str], StreamingQuery]


def queries(*, has_connector: bool) -> Iterator[tuple[str, Start]]:
    for kind in (COPY, COUNT):
        for delivery in (EXACTLY_ONCE, AT_LEAST_ONCE):
            yield f"{kind} {delivery}", _ours(kind, delivery)
        if has_connector:
            yield f"{kind} {CONNECTOR}", _theirs(kind, has_quick_files=False)
            yield f"{kind} {QUICK_CONNECTOR}", _theirs(kind, has_quick_files=True)


def _ours(kind: str, delivery: str) -> Start:
    def start(stage: Stage, name: str) -> StreamingQuery:
        rows = computed(read(stage, "levada"), kind)
        query = write(
            rows,
            name,
            key="key",
            format="string",
            output_mode="append" if kind == COPY else "update",
            checkpoint=str(stage.directory / name),
            bootstrap=stage.bootstrap,
            delivery=delivery,
        )
        assert query is not None
        return query

    return start


def _theirs(kind: str, *, has_quick_files: bool) -> Start:
    def start(stage: Stage, name: str) -> StreamingQuery:
        writer = (
            computed(read(stage, "kafka"), kind)
            .writeStream.format("kafka")
            .outputMode("append" if kind == COPY else "update")
        )
        writer = writer.option("kafka.bootstrap.servers", stage.bootstrap).option("topic", name)
        checkpoint = str(stage.directory / name)
        with quick_files(stage.spark, checkpoint) if has_quick_files else nullcontext():
            return writer.option("checkpointLocation", checkpoint).start()

    return start


def _timed(stage: Stage, name: str) -> StreamingQuery:
    checkpoint = str(stage.directory / name)
    writer = computed(read(stage, TimedSource.name()), COPY).writeStream.format(TimedSource.name())
    writer = writer.option("kafka.bootstrap.servers", stage.bootstrap).option("topic", name)
    with quick_files(stage.spark, checkpoint):
        return writer.option("delivery", EXACTLY_ONCE).option("checkpointLocation", checkpoint).start()


def inside(directory: Path, batches: list[Batch]) -> dict[str, float]:
    """Medians of what addBatch consists of. A task reads in one Python and writes in another, at the same time."""
    whole = statistics.median(batch["addBatch"] for batch in batches)
    found = {part: statistics.median(times) for part, times in noted(directory, len(batches)).items()}
    return {"addBatch": whole, **found, REST: max(whole - found[SOURCE] - found[WRITE] - found[COMMIT], 0.0)}


def read(stage: Stage, source: str) -> DataFrame:
    reader = stage.spark.readStream.format(source).option("kafka.bootstrap.servers", stage.bootstrap)
    return reader.option("subscribe", stage.source).option("startingOffsets", "latest").load()


def computed(rows: DataFrame, kind: str) -> DataFrame:
    texts = rows.select(f.col("key").cast("string").alias("key"), f.col("value").cast("string").alias("value"))
    if kind == COPY:
        return texts
    return texts.groupBy("key").count().select("key", f.col("count").cast("string").alias("value"))


def run(stage: Stage, name: str, number: int, start: Start, seconds: float) -> list[Batch]:
    """The times of the batches of one query, but for those of its warm-up."""
    topic = f"{name}-{stage.source}-{number}".translate(str.maketrans(" ", "-", "',"))
    create(stage.bootstrap, topic)
    query = start(stage, topic)
    warm_at = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < warm_at or not (query.lastProgress and query.lastProgress["batchId"] >= WARM_UP_BATCHES):
        if not query.isActive or time.monotonic() > warm_at + PATIENCE_SECONDS:
            raise RuntimeError(f"{name} does not come to its batches: {query.exception() or query.lastProgress}")
        time.sleep(0.1)
    first = query.lastProgress["batchId"] + 1
    time.sleep(seconds)
    query.stop()
    failure = query.exception()
    if failure is not None:
        raise failure
    found = [
        dict(progress["durationMs"])
        for progress in query.recentProgress
        if progress["batchId"] >= first and progress["numInputRows"]
    ]
    if not found:
        raise RuntimeError(f"{name} had no batch in {seconds} s: {query.lastProgress}")
    return found


@contextmanager
def writing(bootstrap: str, topic: str, rate: int) -> Iterator[None]:
    """A producer that writes so many records a second, evenly."""
    is_over = threading.Event()

    def write_on() -> None:
        number, begun = 0, time.monotonic()
        with Producer(bootstrap) as producer:
            while not is_over.wait(max(begun + number / rate - time.monotonic(), 0)):
                for _ in range(max(rate // SENDS_A_SECOND, 1)):
                    producer.send(topic, b"%d" % number, key=b"key-%d" % (number % KEYS), partition=number % PARTITIONS)
                    number += 1

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()


def create(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)]).raise_any()


def described(batches: list[Batch]) -> dict[str, Any]:
    figures: dict[str, Any] = {"batches": len(batches)}
    for part in PARTS:
        times = [batch.get(part, 0) for batch in batches]
        figures[part] = {"median": statistics.median(times), "p95": statistics.quantiles(times, n=20)[-1]}
    return figures


def checks_of(figures: dict[str, Any]) -> list[Check]:
    theirs = figures.get(f"{COPY} {CONNECTOR}, 1000/s")
    if theirs is None:
        return []
    whole = theirs["triggerExecution"]["median"]
    return [
        Check(
            f"a batch of 1,000 records/s: {ours}, times {CONNECTOR}",
            figures[f"{COPY} {ours}, 1000/s"]["triggerExecution"]["median"] / whole,
            wanted,
        )
        for ours, wanted in WANTED.items()
        if f"{COPY} {ours}, 1000/s" in figures
    ]


if __name__ == "__main__":
    sys.exit(main())
