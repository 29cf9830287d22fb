"""The sink's tasks and commits without Spark around them, in a process that starts fast and is killed often."""

import json
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from levada.spark.sink.commit import BatchCommit
from levada.spark.sink.names import BatchMarker, WriteName
from levada.spark.sink.options import read_options
from levada.spark.sink.report import TaskReport
from levada.spark.sink.task import WriteAttempt, write_rows
from tests.spark.driver_faults import with_header

ROWS_PER_SEND = 500


def main() -> None:
    job = json.loads(sys.argv[1])
    options = read_options({"kafka.bootstrap.servers": job["bootstrap"], "topic": job["target"]}, is_stream=True)
    name, run = WriteName.of_query(job["query"]), str(uuid.uuid4())
    notes = Path(job["notes"])

    def write(batch: int, partition: int) -> TaskReport:
        first, size, tasks = batch * job["rows_per_batch"], job["rows_per_batch"], job["tasks"]
        numbers = range(first + partition, first + size, tasks)
        parts = [numbers[at : at + ROWS_PER_SEND] for at in range(0, len(numbers), ROWS_PER_SEND)]
        stamp = str(batch).encode()
        values = ([str(each) for each in part] for part in parts)
        rows = (with_header(pa.RecordBatch.from_pydict({"value": each}), "batch", stamp) for each in values)
        return write_rows(options, WriteAttempt(name, batch, partition, 0, run), rows)

    with ThreadPoolExecutor(job["tasks"]) as pool:
        # As Spark does: the batch that was not noted as committed is run again, cut into other tasks perhaps.
        for batch in range(len(list(notes.iterdir())), job["batches"]):
            reports = list(pool.map(write, [batch] * job["tasks"], range(job["tasks"])))
            BatchCommit(options, name, BatchMarker(batch, is_exact=True), reports).run()
            (notes / str(batch)).touch()


if __name__ == "__main__":
    main()
