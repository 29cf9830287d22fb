"""Topics as Spark reads them, in batches and as streams."""

from penstock.spark.source.batch import TopicReader
from penstock.spark.source.loss import DataLoss
from penstock.spark.source.schema import schema_for
from penstock.spark.source.stream import TopicStreamReader

__all__ = [
    "DataLoss",  # records that were to be read are gone
    "TopicReader",  # a part of a topic as a table
    "TopicStreamReader",  # a topic as a stream
    "schema_for",  # the columns
]
