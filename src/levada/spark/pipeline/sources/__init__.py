"""Sources besides topics."""

from levada.spark.pipeline.sources.files import read_files
from levada.spark.pipeline.sources.table import read_table

__all__ = ["read_files", "read_table"]
