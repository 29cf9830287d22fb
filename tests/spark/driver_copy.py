"""Copies a topic to another with a streaming query, in a process that tests kill; the job is its argument, in JSON."""

import json
import sys

from pyspark.sql import functions

from levada.spark import session
from tests.spark.driver_faults import FaultySource


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job["master"], bootstrap=job["bootstrap"], settings=job["settings"])
    spark.dataSource.register(FaultySource)
    rows = (
        spark.readStream.format("levada")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("subscribe", job["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job["rows_per_batch"])
        .load()
    )
    if job["partitions"]:
        rows = rows.repartition(job["partitions"], functions.col("offset"))
    query = (
        rows.select("key", "value")
        .writeStream.format("levada-faults")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("topic", job["target"])
        .option("transactionTimeout", job["transaction_timeout"])
        .option("checkpointLocation", job["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
