"""Rows that are too old to be worth processing."""

from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from levada.spark.rows.durations import Duration, milliseconds, spoken
from levada.spark.rows.kept import Kind, default_timestamp, frame_of, untouched
from levada.spark.rows.problems import column_of, one_of

STAGE = "expire"
ACTIONS = ("dead-letter", "drop")


def expire_after(
    rows: Kind,
    ttl: Duration,
    *,
    timestamp: str | None = None,
    action: Literal["dead-letter", "drop"] = "dead-letter",
) -> Kind:
    """Reject rows that are older than `ttl` when they are processed; with `action="drop"`, leave them out.

    `timestamp` is the column with a row's time, by default that of its record (`_source.timestamp`). Rows without one
    do not expire. "Now" is the time at which the micro-batch began: all rows of a batch are measured alike, and a batch
    that is repeated after a crash comes to the same result. A plain DataFrame has no dead letters, so that expired
    rows are left out of it.
    """
    frame = frame_of(rows)
    ttl_ms = milliseconds(ttl, "the ttl of expire_after")
    one_of("the action of expire_after", action, ACTIONS)
    time = column_of(frame, default_timestamp(frame, timestamp, "expire_after"), "expire_after").cast("timestamp")
    age_ms = sf.unix_millis(sf.current_timestamp()) - sf.unix_millis(time)
    is_expired = sf.coalesce(age_ms > ttl_ms, sf.lit(False))
    if isinstance(rows, DataFrame):
        return rows.where(~is_expired)
    if action == "drop":
        return rows.unrepeatable().with_frame(frame.where(untouched(rows) | ~is_expired))
    seconds = (age_ms / 1_000).cast("decimal(20,1)").cast("string")
    reason = sf.concat(sf.lit("it is "), seconds, sf.lit(f" seconds old; {spoken(ttl_ms)} are allowed"))
    return rows.unrepeatable().reject(is_expired, reason, STAGE)
