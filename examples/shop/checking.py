"""Computes in one batch what the streams have computed as the records came, and compares."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from examples.shop.events import CLICKS, ORDERS, PAYMENTS, Books
from examples.shop.flows import (
    ALERTS,
    CLEAN,
    DEAD_LETTERS,
    LOYALTY,
    REVENUE,
    SCHEMAS,
    clean_customers,
    clean_events,
    fraud,
    loyalty,
    paid_orders,
    revenue,
)
from levada.spark import Rows, changes, quality, read, reconcile


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer, from the streams and from the batch."""

    name: str
    agrees: bool
    text: str


class Everything:
    """All there is in the topics, as one batch."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, topic: str | Sequence[str], schema: Any = None, **options: Any) -> Rows:
        return read(topic, schema, stream=False, spark=self._spark, **options)

    def quality(self, rows: Rows, rules: Iterable[Any]) -> Rows:
        return quality(rows, rules)


def check_all(spark: SparkSession, database: Path, books: Books) -> list[Finding]:
    everything = Everything(spark)
    rows = [each.transform(DataFrame.cache) for each in (clean_events(everything), clean_customers(everything))]
    events, good_customers = (each.good for each in rows)
    good = {topic: events.where(f.col("_source.topic") == topic) for topic in CLEAN}
    paid = paid_orders(good[ORDERS], good[PAYMENTS]).cache()
    points = loyalty(paid).cache()
    table = changes(good_customers, key="user", order="version").select("user", "city", "version")
    return [
        compare("loyalty points", latest(everything, LOYALTY, "user"), points, ["user"]),
        compare("revenue per minute", latest(everything, REVENUE, "minute"), revenue(paid), ["minute"]),
        compare(
            "fraud alerts",
            everything.read(ALERTS, SCHEMAS[ALERTS]).good.drop("_source"),
            fraud(good[PAYMENTS], good[CLICKS]),
            ["payment", "click"],
        ),
        compare("customer table", customers(spark, database), table, ["user"]),
        count_dead_letters(everything, rows, books),
        count_clean(everything, good),
        balance("points in the shop's own books", sum_of(points, "points"), books.points.total()),
        balance("customers in the shop's own books", table.count(), len(books.customers)),
    ]


def compare(name: str, streamed: DataFrame, computed: DataFrame, keys: list[str]) -> Finding:
    report = reconcile(streamed, computed, keys=keys)
    return Finding(name, report.agrees, str(report))


def latest(everything: Everything, topic: str, key: str) -> DataFrame:
    """The last word of a topic on each key."""
    rows = everything.read(topic, SCHEMAS[topic]).good
    newest_first = Window.partitionBy(key).orderBy(f.col("_source.offset").desc())
    ranked = rows.withColumn("_rank", f.row_number().over(newest_first))
    return ranked.where("_rank = 1").drop("_rank", "_source")


def customers(spark: SparkSession, database: Path) -> DataFrame:
    with sqlite3.connect(database) as connection:
        found = connection.execute("SELECT user, city, version FROM customers").fetchall()
    return spark.createDataFrame(found, "user string, city string, version bigint")


def count_dead_letters(everything: Everything, rows: Sequence[Rows], books: Books) -> Finding:
    """As many as the shop has broken, as the batch rejects, and as there are in the topic: each once."""
    letters = everything.read(DEAD_LETTERS, format="binary", tombstones="keep").good
    headers = f.map_from_entries("_source.headers")
    places = letters.select(
        *(headers[f"levada-dead-letter-{name}"].alias(name) for name in ("topic", "partition", "offset"))
    )
    found, distinct = places.count(), places.distinct().count()
    rejected = sum(each.rejected.count() for each in rows)
    agrees = found == distinct == rejected == books.refused.total()
    return Finding(
        "dead letters",
        agrees,
        f"{found} in the topic ({distinct} different), {rejected} rejected in batch, {books.refused.total()} made",
    )


def count_clean(everything: Everything, good: dict[str, DataFrame]) -> Finding:
    pairs = [(everything.read(CLEAN[topic], SCHEMAS[topic]).good.count(), good[topic].count()) for topic in CLEAN]
    text = ", ".join(f"{topic} {streamed}/{computed}" for topic, (streamed, computed) in zip(CLEAN, pairs))
    return Finding("clean records", all(streamed == computed for streamed, computed in pairs), text)


def balance(name: str, computed: int, known: int) -> Finding:
    return Finding(name, computed == known, f"{computed} computed, {known} known")


def sum_of(frame: DataFrame, column: str) -> int:
    [row] = frame.agg(f.coalesce(f.sum(column), f.lit(0)).alias("sum")).collect()
    return int(row["sum"])
