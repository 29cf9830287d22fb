"""Sources besides topics."""

from penstock.spark.pipeline.sources.files import read_files
from penstock.spark.pipeline.sources.table import read_table

__all__ = ["read_files", "read_table"]
