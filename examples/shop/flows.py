"""The steps of the shop's pipeline, each written once: streams take them, and so does the check in batch."""

from typing import Any, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from examples.shop.events import CENTS_PER_POINT, CLICKS, CUSTOMERS, ORDERS, PAYMENTS
from levada.spark import Rows, check

DEAD_LETTERS = "dead-letters"
CLEAN = {topic: f"{topic}.clean" for topic in (ORDERS, PAYMENTS, CLICKS)}
PAID, LOYALTY, REVENUE, ALERTS = "orders.paid", "loyalty", "revenue", "fraud.alerts"
PARTITIONS = 2

SCHEMAS = {
    ORDERS: "id string not null, user string not null, cents bigint not null, at_ms bigint not null",
    PAYMENTS: (
        "id string not null, order string not null, user string not null, cents bigint not null, "
        "country string not null, at_ms bigint not null"
    ),
    CLICKS: (
        "id string not null, user string not null, page string not null, country string not null, at_ms bigint not null"
    ),
    CUSTOMERS: "op string not null, user string not null, city string, version bigint not null, at_ms bigint not null",
    PAID: "id string, user string, cents bigint, at_ms bigint",
    LOYALTY: "user string, points bigint, orders bigint",
    REVENUE: "minute string, cents bigint, orders bigint",
    ALERTS: "payment string, user string, card string, seen_in string, click string, page string",
}

TOO_LATE_MS = 10 * 60_000
"""What happened so long before it was recorded is not counted by any query: it goes to the dead letters."""

WATERMARK = "2 minutes"
"""How long the streams wait for what is late; nothing that is not a dead letter is later than that."""

JOIN_WINDOW = "10 minutes"
FRAUD_WINDOW = "30 seconds"


class Source(Protocol):
    """Where rows come from: a pipeline's context, whose rows are streams, or everything there is as one batch."""

    def read(self, topic: str, schema: Any = None, **options: Any) -> Rows: ...

    def quality(self, rows: Rows, rules: Any) -> Rows: ...


def clean(source: Source, topic: str, **options: Any) -> Rows:
    """What can be read and is in time; the rest is rejected."""
    rows = source.read(topic, SCHEMAS[topic], dead_letters=DEAD_LETTERS, **options)
    in_time = f"at_ms >= unix_millis(_source.timestamp) - {TOO_LATE_MS}"
    return source.quality(rows, [check("not hopelessly late", in_time)])


def paid_orders(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Each order that a payment of the same amount came in for, with the records of both."""
    o, p = with_time(orders).alias("o"), with_time(payments).alias("p")
    span = f.expr(f"interval {JOIN_WINDOW}")
    matches = (
        (f.col("o.id") == f.col("p.order"))
        & (f.col("o.cents") == f.col("p.cents"))
        & f.col("p.at").between(f.col("o.at") - span, f.col("o.at") + span)
    )
    paid = {"id": "o.id", "user": "o.user", "cents": "o.cents", "at_ms": "p.at_ms"}
    return o.join(p, matches).select(*_named(paid), *_named({"_order": "o._source", "_payment": "p._source"}))


def loyalty(paid: DataFrame, *more: Column) -> DataFrame:
    """A point for each whole unit of money that a user has paid."""
    points = f.floor(f.col("cents") / CENTS_PER_POINT)
    return paid.groupBy("user").agg(f.sum(points).alias("points"), f.count("*").alias("orders"), *more)


def revenue(paid: DataFrame) -> DataFrame:
    """What was paid in each minute."""
    minutes = with_time(paid).groupBy(f.window("at", "1 minute"))
    sums = minutes.agg(f.sum("cents").alias("cents"), f.count("*").alias("orders"))
    return sums.select(f.date_format("window.start", "yyyy-MM-dd HH:mm").alias("minute"), "cents", "orders")


def fraud(payments: DataFrame, clicks: DataFrame) -> DataFrame:
    """Payments with a card of one country, while the user was clicking in another just before."""
    p, c = with_time(payments).alias("p"), with_time(clicks).alias("c")
    matches = (
        (f.col("p.user") == f.col("c.user"))
        & (f.col("p.country") != f.col("c.country"))
        & f.col("c.at").between(f.col("p.at") - f.expr(f"interval {FRAUD_WINDOW}"), f.col("p.at"))
    )
    alert = {"payment": "p.id", "user": "p.user", "card": "p.country", "seen_in": "c.country"}
    return p.join(c, matches).select(*_named(alert), *_named({"click": "c.id", "page": "c.page"}))


def with_time(rows: DataFrame) -> DataFrame:
    timed = rows.withColumn("at", f.timestamp_millis("at_ms"))
    return timed.withWatermark("at", WATERMARK) if rows.isStreaming else timed


def _named(columns: dict[str, str]) -> list[Column]:
    return [f.col(column).alias(name) for name, column in columns.items()]
