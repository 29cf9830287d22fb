"""Topics as Spark reads them, in batches and as streams.

- `batch.TopicReader`: a part of a topic as a table.
- `stream.TopicStreamReader`: a topic as a stream.
- `schema.schema_for`: the columns.
- `loss.DataLoss`: records that were to be read are gone.

Spark has short-lived processes for each of these: each is loaded by itself, and clients only by those that talk to
brokers.
"""
