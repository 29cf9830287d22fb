"""Topics in Spark: sessions, streams of rows, pipelines."""

from penstock.spark.session import session

__all__ = ["session"]
