"""Sinks besides topics: each takes a micro-batch at a time and has it exactly once."""

from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, Stopped
from levada.spark.pipeline.sinks.console import ConsoleSink
from levada.spark.pipeline.sinks.database import DatabaseSink
from levada.spark.pipeline.sinks.delta import DeltaSink
from levada.spark.pipeline.sinks.parquet import ParquetSink

__all__ = ["BatchSink", "ConsoleSink", "Control", "DatabaseSink", "DeltaSink", "MicroBatch", "ParquetSink", "Stopped"]
