"""Sinks besides topics: each takes a micro-batch at a time and has it exactly once."""

from penstock.spark.pipeline.sinks.batches import Batch, BatchSink, Control, Stopped
from penstock.spark.pipeline.sinks.console import ConsoleSink
from penstock.spark.pipeline.sinks.database import DatabaseSink
from penstock.spark.pipeline.sinks.delta import DeltaSink
from penstock.spark.pipeline.sinks.parquet import ParquetSink

__all__ = ["Batch", "BatchSink", "ConsoleSink", "Control", "DatabaseSink", "DeltaSink", "ParquetSink", "Stopped"]
