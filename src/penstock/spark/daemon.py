"""Spark's daemon for Python workers, with what our source and sink need loaded before it forks them.

A worker that has to load that by itself takes most of a second for it, and each micro-batch has several workers.
"""

from pyspark.daemon import manager

import penstock.spark.sink
import penstock.spark.source
import pyspark_penstock  # noqa: F401

if __name__ == "__main__":
    manager()
