"""The sink: rows of Spark to topics, a batch as one transaction."""

from penstock.spark.sink.writers import TopicStreamWriter, TopicWriter

__all__ = [
    "TopicStreamWriter",  # of a streaming query
    "TopicWriter",  # of a batch
]
