"""The sink: rows of Spark to topics, a batch as one transaction.

- `writers.TopicStreamWriter`: of a streaming query.
- `writers.TopicWriter`: of a batch.
"""
