"""Rows to topics, by the value of a column."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from levada.spark.rows.kept import TOPIC, Kind, frame_of
from levada.spark.rows.problems import RowsError, column_of, refuse_unusable

STAGE = "route"


def route(rows: Kind, by: str | Column, topics: Mapping[Any, str], *, default: str | None = None) -> Kind:
    """Give each row the topic that `topics` has for its value of `by`, in the column `_topic`, where `write` looks.

    A value without a topic goes to `default`. Without one it is rejected; a plain DataFrame has no dead letters, so
    that its query fails with that value in the message.
    """
    frame = frame_of(rows)
    tag = column_of(frame, by, "route")
    if not topics:
        raise RowsError("route: name at least one value and its topic, such as {'vip': 'orders.vip'}")
    chosen = _chosen(tag, topics, default)
    refuse_unusable(frame, chosen, "route")
    said = sf.concat(sf.lit("no topic for "), sf.coalesce(tag.cast("string"), sf.lit("null")))
    if isinstance(rows, DataFrame):
        strict = chosen if default is not None else sf.coalesce(chosen, sf.raise_error(said).cast("string"))
        return rows.withColumn(TOPIC, strict)
    routed = rows.with_frame(frame.withColumn(TOPIC, chosen))
    return routed.reject(sf.col(TOPIC).isNull(), said, STAGE)


def _chosen(tag: Column, topics: Mapping[Any, str], default: str | None) -> Column:
    chosen = sf.lit(default).cast("string")
    for value, topic in topics.items():
        chosen = sf.when(tag.eqNullSafe(sf.lit(value)), sf.lit(topic)).otherwise(chosen)
    return chosen
