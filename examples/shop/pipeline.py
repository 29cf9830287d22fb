"""The shop's pipeline, in three hops: `levada pipeline run examples/shop/pipeline.py --checkpoint DIR`.

Records that cannot be used go to the dead letters, those that can to clean topics; orders and payments meet in paid
orders; from these come points and revenue. The changes of customers keep a table of a database, which the variable
DATABASE of the environment names.
"""

import os

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from examples.shop.events import CLICKS, CUSTOMERS, ORDERS, PAYMENTS
from examples.shop.flows import (
    ALERTS,
    CLEAN,
    LOYALTY,
    PAID,
    PARTITIONS,
    REVENUE,
    SCHEMAS,
    clean_customers,
    clean_events,
    fraud,
    loyalty,
    paid_orders,
    revenue,
)
from levada.spark import read, trace, traced
from levada.spark.pipeline import Context

HOPS: tuple[dict[str, list[str]], ...] = (
    {"clean": [ORDERS, PAYMENTS, CLICKS], "customers": [CUSTOMERS]},
    {"paid": [CLEAN[ORDERS], CLEAN[PAYMENTS]], "fraud": [CLEAN[PAYMENTS], CLEAN[CLICKS]]},
    {"loyalty": [PAID], "revenue": [PAID]},
)
"""The queries of each hop and the topics that they read: a query is the consumer group `pipeline.QUERY`."""


def pipeline(context: Context) -> None:
    cleaned = context.route(clean_events(context), "_source.topic", CLEAN)
    # Payments go to their orders, clicks to their users.
    keyed = cleaned.transform(
        lambda frame: frame.withColumn("_key", f.coalesce("order", f.when(_is_order(), "id"), "user"))
    )
    context.write(trace(keyed, "clean"), name="clean", routed=True, key="_key")

    context.write(
        clean_customers(context),
        name="customers",
        database=os.environ["DATABASE"],
        table="customers",
        key=["user"],
        order="version",
        delete_when="op = 'DELETE'",
        create=True,
    )

    paid = paid_orders(rows_of(context, CLEAN[ORDERS], ORDERS), rows_of(context, CLEAN[PAYMENTS], PAYMENTS))
    context.write(trace(paid, "paid", sources=["_order", "_payment"]), name="paid", topic=PAID, key="user")

    alerts = fraud(rows_of(context, CLEAN[PAYMENTS], PAYMENTS), rows_of(context, CLEAN[CLICKS], CLICKS))
    context.write(alerts, name="fraud", topic=ALERTS, key="user")

    points = loyalty(rows_of(context, PAID, PAID), traced(partitions={PAID: PARTITIONS}))
    context.write(trace(points, "loyalty"), name="loyalty", topic=LOYALTY, key="user", mode="update")
    context.write(revenue(rows_of(context, PAID, PAID)), name="revenue", topic=REVENUE, key="minute", mode="update")


def rows_of(context: Context, topic: str, schema: str) -> DataFrame:
    """A topic that this pipeline writes: all of it can be read, so there are no dead letters to care for."""
    rows = read(topic, SCHEMAS[schema], spark=context.spark, startingOffsets="earliest", commitOffsets=False)
    return rows.good


def _is_order() -> Column:
    return f.col("_source.topic") == ORDERS
