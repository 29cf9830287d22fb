"""The shop's pipeline, in three hops: `levada pipeline run examples/shop/pipeline.py --checkpoint DIR`.

Records that cannot be used go to the dead letters, those that can to clean topics; orders and payments meet in paid
orders; from these come points and revenue. The changes of customers keep a table of a database, which the variable
DATABASE of the environment names.
"""

import os
from typing import Any

from pyspark.sql import DataFrame

from examples.shop.events import CLICKS, CUSTOMERS, ORDERS, PAYMENTS
from examples.shop.flows import (
    ALERTS,
    CLEAN,
    LOYALTY,
    PAID,
    PARTITIONS,
    REVENUE,
    SCHEMAS,
    clean,
    fraud,
    loyalty,
    paid_orders,
    revenue,
)
from levada.spark import read, trace, traced
from levada.spark.pipeline import Context

KEYS = {ORDERS: "id", PAYMENTS: "order", CLICKS: "user"}

HOPS = (
    {**{f"clean-{topic}": [topic] for topic in CLEAN}, "customers": [CUSTOMERS]},
    {"paid": [CLEAN[ORDERS], CLEAN[PAYMENTS]], "fraud": [CLEAN[PAYMENTS], CLEAN[CLICKS]]},
    {"loyalty": [PAID], "revenue": [PAID]},
)
"""The queries of each hop and what they read: a query's reads of a topic are the consumer group `shop-QUERY-TOPIC`."""


def pipeline(context: Context) -> None:
    for topic, cleaned in CLEAN.items():
        query = f"clean-{topic}"
        rows = clean(context, topic, **group(query, topic))
        context.write(trace(rows, query), name=query, topic=cleaned, key=KEYS[topic])

    paid = paid_orders(cleaned_rows(context, "paid", ORDERS), cleaned_rows(context, "paid", PAYMENTS))
    context.write(trace(paid, "paid", sources=["_order", "_payment"]), name="paid", topic=PAID, key="user")

    alerts = fraud(cleaned_rows(context, "fraud", PAYMENTS), cleaned_rows(context, "fraud", CLICKS))
    context.write(alerts, name="fraud", topic=ALERTS, key="user")

    points = loyalty(paid_rows(context, "loyalty"), traced(partitions={PAID: PARTITIONS}))
    context.write(trace(points, "loyalty"), name="loyalty", topic=LOYALTY, key="user", mode="update")
    context.write(revenue(paid_rows(context, "revenue")), name="revenue", topic=REVENUE, key="minute", mode="update")

    context.write(
        clean(context, CUSTOMERS, **group("customers", CUSTOMERS)),
        name="customers",
        database=os.environ["DATABASE"],
        table="customers",
        key=["user"],
        order="version",
        delete_when="op = 'DELETE'",
        create=True,
    )


def cleaned_rows(context: Context, query: str, topic: str) -> DataFrame:
    return rows_of(context, query, CLEAN[topic], SCHEMAS[topic])


def paid_rows(context: Context, query: str) -> DataFrame:
    return rows_of(context, query, PAID, SCHEMAS[PAID])


def rows_of(context: Context, query: str, topic: str, schema: str) -> DataFrame:
    """A topic that this pipeline writes: all of it can be read, so there are no dead letters to care for."""
    return read(topic, schema, spark=context.spark, startingOffsets="earliest", **group(query, topic)).good


def group(query: str, topic: str) -> dict[str, Any]:
    return {"kafka.group.id": f"shop-{query}-{topic}"}
