"""Topics in Spark: `python -m benchmarks.spark [--json FILE] [--rounds 7]`.

One Spark on two cores, one broker, rounds that take turns: reading into nothing, ours beside Spark's own connector
(if Maven Central can be reached), and the exactly-once sink beside the at-least-once one. Rates are rows per second of
whole jobs; ratios are those of the same round. Ends with 1 when a figure is below what is wanted.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.broker import machine
from benchmarks.figures import Check, spread
from benchmarks.servers import broker_command, running
from levada import Admin, Producer
from levada.client.admin import NewTopic
from levada.spark import session
from tests.interop.spark_connector import jars

MASTER = "local[2]"
SIZES = (100, 1_024)
ROWS = {100: 3_000_000, 1_024: 600_000}
WRITTEN_ROWS = {100: 1_000_000, 1_024: 300_000}
PARTITIONS = 4
SENT_AT_ONCE = 50_000

READ, CONNECTOR = "read", "Spark's connector"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
WANTED = {READ: (CONNECTOR, 1.0), EXACTLY_ONCE: (AT_LEAST_ONCE, 0.7)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    connector = jars()
    if not connector:
        print("Spark's own connector is left out: Maven Central cannot be reached")
    spark = session(
        MASTER, settings={"spark.jars": ",".join(str(jar) for jar in connector), "spark.driver.memory": "2g"}
    )
    report: dict[str, Any] = {"machine": machine(), "rounds": arguments.rounds, "master": MASTER}
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        command = broker_command(Path(directory) / "data", "log.retention.bytes=-1")
        with running(command) as server:
            for size in SIZES:
                report[str(size)] = measure(
                    spark, f"127.0.0.1:{server.port}", size, arguments.rounds, has_connector=bool(connector)
                )
    spark.stop()
    checks = checks_of(report)
    report["checks"] = [check.as_json() for check in checks]
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


def measure(spark: SparkSession, bootstrap: str, size: int, rounds: int, *, has_connector: bool) -> dict[str, Any]:
    topic = f"bench-{size}"
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS), NewTopic(f"{topic}-out", PARTITIONS)]).raise_any()
    fill(bootstrap, topic, size)
    rows = spark.range(WRITTEN_ROWS[size], numPartitions=PARTITIONS).select(
        f.lit(random.randbytes(size)).alias("value")
    )
    jobs: dict[str, tuple[int, Callable[[], None]]] = {
        READ: (ROWS[size], lambda: read(spark, "levada", bootstrap, topic)),
        EXACTLY_ONCE: (WRITTEN_ROWS[size], lambda: write(rows, bootstrap, f"{topic}-out", EXACTLY_ONCE)),
        AT_LEAST_ONCE: (WRITTEN_ROWS[size], lambda: write(rows, bootstrap, f"{topic}-out", AT_LEAST_ONCE)),
    }
    if has_connector:
        jobs[CONNECTOR] = (ROWS[size], lambda: read(spark, "kafka", bootstrap, topic))
    samples: dict[str, list[float]] = {name: [] for name in jobs}
    names = list(jobs)
    for number in range(-1, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            count, job = jobs[name]
            start = time.perf_counter()
            job()
            if number >= 0:
                samples[name].append(count / (time.perf_counter() - start))
    figures: dict[str, Any] = {}
    for name, rates in samples.items():
        print(f"{size:5} B  {name:20}{spread(rates)} rows/s")
        figures[name] = {"rows_per_second": spread(rates).as_json()}
    for ours, (theirs, _) in WANTED.items():
        if theirs in samples:
            ratios = [one / other for one, other in zip(samples[ours], samples[theirs])]
            figures[ours]["ratio"] = {"to": theirs, "median": statistics.median(ratios), "all": ratios}
    return figures


def fill(bootstrap: str, topic: str, size: int) -> None:
    with Producer(bootstrap, batch_size=1 << 20, linger_ms=20) as producer:
        value = random.randbytes(size)
        for number in range(ROWS[size] // SENT_AT_ONCE):
            producer.send_many(topic, [value] * SENT_AT_ONCE, partition=number % PARTITIONS)


def read(spark: SparkSession, source: str, bootstrap: str, topic: str) -> None:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader.load().write.format("noop").mode("overwrite").save()


def write(rows: DataFrame, bootstrap: str, topic: str, delivery: str) -> None:
    writer = rows.write.format("levada").mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).option("delivery", delivery).save()


def checks_of(report: dict[str, Any]) -> list[Check]:
    return [
        Check(f"{size} B: {ours}, times {theirs}", figures[ours]["ratio"]["median"], wanted, is_floor=True)
        for size in SIZES
        for ours, (theirs, wanted) in WANTED.items()
        if "ratio" in (figures := report[str(size)])[ours]
    ]


if __name__ == "__main__":
    sys.exit(main())
