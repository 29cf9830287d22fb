"""Measures the compiled record units against their pure twins: `python -m benchmarks.records [--json FILE]`."""

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa

from levada.records import BatchView, _kernel, _writer, build_batch, parse_produced, pure, pure_writer
from levada.records.arrow import PartitionBatches, decode_arrow_partitions, to_record_batch
from levada.records.arrow_writer import arrow_records
from levada.records.record import RecordInput, RecordSection

RECORD_COUNT = 10_000
VALUE_SIZE = 100
ROUNDS = 15
# The compiled kernel is so much faster that one run of it is lost in noise; several make a sample of similar length.
COMPILED_RUNS = 10
NOW_MS = 1_700_000_000_000

# Room for all records in one batch, and the default of Kafka's producers.
WHOLE = 4 << 20
SMALL_BATCH = 16 << 10
PARTITION_COUNT = 6

GOALS = {"encode": 5.0, "decode": 5.0, "decode to Arrow": 30.0}


class Result(NamedTuple):
    """Median records per second of both, and how many times faster the compiled kernel is."""

    compiled: float
    twin: float
    ratio: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    results = measure_all() | measure_writer()
    consumed = measure_consumer_arrow()
    produced_us = measure_parse_produced()
    print(f"{RECORD_COUNT} records with values of {VALUE_SIZE} bytes, medians of {ROUNDS} interleaved rounds")
    print(f"{'':24}{'compiled M/s':>14}{'twin M/s':>10}{'ratio':>8}{'goal':>7}")
    for name, result in results.items():
        goal = f"{GOALS[name]:.0f}x" if name in GOALS else ""
        print(f"{name:24}{result.compiled / 1e6:14.1f}{result.twin / 1e6:10.2f}{result.ratio:7.1f}x{goal:>7}")
    print(f"decode_arrow_partitions of batches of 16 KiB: {consumed / 1e6:.1f} M/s")
    print(f"parse_produced of a batch of 1 KiB: {produced_us:.2f} µs")
    if arguments.json:
        report = {
            "python": platform.python_version(),
            "records": RECORD_COUNT,
            "value_size": VALUE_SIZE,
            "results": {name: result._asdict() for name, result in results.items()},
            "decode_arrow_partitions": consumed,
            "parse_produced_1kib_us": produced_us,
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(results[name].ratio >= goal for name, goal in GOALS.items()) else 1


def measure_all() -> dict[str, Result]:
    records: list[RecordInput] = [
        (NOW_MS + index // 10, b"key-%06d" % index, bytes([index % 256]) * VALUE_SIZE, ())
        for index in range(RECORD_COUNT)
    ]
    body = _kernel.encode(records, NOW_MS)
    assert body == pure.encode(records, NOW_MS)
    part = RecordSection(body, RECORD_COUNT, 0, NOW_MS, None)
    tasks: dict[str, Callable[[ModuleType], object]] = {
        "encode": lambda kernel: kernel.encode(records, NOW_MS),
        "decode": lambda kernel: kernel.decode(*part),
        "decode for consumers": lambda kernel: kernel.decode_for_consumer(*part, "topic", 0, None),
        "decode to Arrow": lambda kernel: to_record_batch(kernel.decode_columns([part])),
        "scan": lambda kernel: kernel.scan(body, RECORD_COUNT),
    }
    return {name: compare(task) for name, task in tasks.items()}


def measure_writer() -> dict[str, Result]:
    keys = [b"key-%06d" % index for index in range(RECORD_COUNT)]
    values = [bytes([index % 256]) * VALUE_SIZE for index in range(RECORD_COUNT)]
    source = arrow_records(pa.record_batch({"key": pa.array(keys), "value": pa.array(values)}), NOW_MS).source
    columns = {twin: twin.RecordColumns(source) for twin in (_writer, pure_writer)}
    partitions = _writer.partitions_of_list(keys, PARTITION_COUNT)

    def append(twin: ModuleType) -> None:
        write = twin.BatchWriter(WHOLE).append
        for value in values:
            write(NOW_MS, None, value)

    def write_lists(twin: ModuleType, writers: list[Any], row: int) -> int:
        written: int = twin.write_lists(writers, partitions, NOW_MS, keys, values, row, RECORD_COUNT)
        return written

    def write_columns(twin: ModuleType, writers: list[Any], row: int) -> int:
        written: int = twin.write_columns(writers, partitions, columns[twin], row, RECORD_COUNT)
        return written

    def fill(twin: ModuleType, write: Callable[[ModuleType, list[Any], int], int], capacity: int) -> None:
        """Write all rows to the partitions of their keys, with a new batch wherever one is full."""
        writers = [twin.BatchWriter(capacity) for _ in range(PARTITION_COUNT)]
        row = write(twin, writers, 0)
        while row < RECORD_COUNT:
            writers[partitions[row]] = twin.BatchWriter(capacity)
            row = write(twin, writers, row)

    tasks: dict[str, Callable[[ModuleType], object]] = {
        "append one by one": append,
        "write lists": lambda twin: fill(twin, write_lists, WHOLE),
        "write lists, 16 KiB": lambda twin: fill(twin, write_lists, SMALL_BATCH),
        "write columns": lambda twin: fill(twin, write_columns, WHOLE),
        "write columns, 16 KiB": lambda twin: fill(twin, write_columns, SMALL_BATCH),
        "partitions of keys": lambda twin: twin.partitions_of_list(keys, PARTITION_COUNT),
    }
    return {name: compare(task, _writer, pure_writer) for name, task in tasks.items()}


def measure_consumer_arrow() -> float:
    """Records per second from fetched batches to the table that a consumer returns."""
    batch = build_batch([(NOW_MS, None, bytes(VALUE_SIZE), ())] * (SMALL_BATCH // (VALUE_SIZE + 9)))
    views = [BatchView(batch)] * (RECORD_COUNT // BatchView(batch).record_count)
    fetched = [PartitionBatches("topic", 0, 0, views)]
    rows: int = decode_arrow_partitions(fetched).num_rows
    return rows / statistics.median(seconds(lambda: decode_arrow_partitions(fetched), 10) for _ in range(ROUNDS))


def compare(task: Callable[[ModuleType], object], unit: ModuleType = _kernel, pure_unit: ModuleType = pure) -> Result:
    """Both in turn, so that whatever else the machine does hits both alike."""
    compiled: list[float] = []
    twin: list[float] = []
    for _ in range(ROUNDS):
        compiled.append(seconds(lambda: task(unit), COMPILED_RUNS))
        twin.append(seconds(lambda: task(pure_unit), 1))
    fast, slow = statistics.median(compiled), statistics.median(twin)
    return Result(RECORD_COUNT / fast, RECORD_COUNT / slow, slow / fast)


def measure_parse_produced() -> float:
    batch = memoryview(build_batch([(NOW_MS, None, bytes(1024 - 61 - 12), ())]))
    return statistics.median(seconds(lambda: parse_produced(batch), 1000) for _ in range(ROUNDS)) * 1e6


def seconds(run: Callable[[], object], times: int) -> float:
    start = perf_counter()
    for _ in range(times):
        run()
    return (perf_counter() - start) / times


if __name__ == "__main__":
    sys.exit(main())
