"""A program of Spark Connect, in a process of its own: one with a Java of its own cannot have both."""

import json
import sys
from typing import Any

from pyspark.sql import functions as sf

from levada.spark import in_range, quality, quality_counts, read, session, write


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job["server"], bootstrap=job["bootstrap"])
    orders = read(job["source"], "id string, amount double", stream=False).good
    report: dict[str, object] = {"read": sorted(row.id for row in orders.collect())}
    write(orders.where("amount > 1"), job["batch"], key="id")

    stream = read(job["source"], "id string, amount double", dead_letters=job["dead"], startingOffsets="earliest")
    checked = quality(stream, [in_range("amount", 0, 10)])
    for _ in range(2):
        query = write(
            checked, job["stream"], key="id", checkpoint=f"{job['directory']}/stream", trigger="available-now"
        )
        assert query is not None
        query.awaitTermination()
        report.setdefault("counts", quality_counts(query))

    totals = stream.good.groupBy("id").agg(sf.sum("amount").alias("amount"))
    arguments: dict[str, Any] = {
        "output_mode": "update",
        "checkpoint": f"{job['directory']}/totals",
        "trigger": "available-now",
    }
    try:
        write(totals, job["totals"], **arguments)
    except ValueError as error:
        report["refused"] = str(error)
    query = write(totals, job["totals"], delivery="at-least-once", **arguments)
    assert query is not None
    query.awaitTermination()
    print(json.dumps(report))
    spark.stop()


if __name__ == "__main__":
    main()
