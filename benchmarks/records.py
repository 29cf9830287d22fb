"""Measures the compiled record kernel against its pure twin: `python -m benchmarks.records [--json FILE]`."""

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import NamedTuple

from penstock.records import _kernel, build_batch, parse_produced, pure
from penstock.records.arrow import to_record_batch
from penstock.records.record import Part, RecordInput

RECORD_COUNT = 10_000
VALUE_SIZE = 100
ROUNDS = 15
# The compiled kernel is so much faster that one run of it is lost in noise; several make a sample of similar length.
COMPILED_RUNS = 10
NOW_MS = 1_700_000_000_000

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
    results = measure_all()
    produced_us = measure_parse_produced()
    print(f"{RECORD_COUNT} records with values of {VALUE_SIZE} bytes, medians of {ROUNDS} interleaved rounds")
    print(f"{'':18}{'compiled M/s':>14}{'twin M/s':>10}{'ratio':>8}{'goal':>7}")
    for name, result in results.items():
        goal = f"{GOALS[name]:.0f}x" if name in GOALS else ""
        print(f"{name:18}{result.compiled / 1e6:14.1f}{result.twin / 1e6:10.2f}{result.ratio:7.1f}x{goal:>7}")
    print(f"parse_produced of a batch of 1 KiB: {produced_us:.2f} µs")
    if arguments.json:
        report = {
            "python": platform.python_version(),
            "records": RECORD_COUNT,
            "value_size": VALUE_SIZE,
            "results": {name: result._asdict() for name, result in results.items()},
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
    part = Part(body, RECORD_COUNT, 0, NOW_MS, None)
    tasks: dict[str, Callable[[ModuleType], object]] = {
        "encode": lambda kernel: kernel.encode(records, NOW_MS),
        "decode": lambda kernel: kernel.decode(*part),
        "decode to Arrow": lambda kernel: to_record_batch(kernel.decode_columns([part])),
        "scan": lambda kernel: kernel.scan(body, RECORD_COUNT),
    }
    return {name: compare(task) for name, task in tasks.items()}


def compare(task: Callable[[ModuleType], object]) -> Result:
    """Both in turn, so that whatever else the machine does hits both alike."""
    compiled: list[float] = []
    twin: list[float] = []
    for _ in range(ROUNDS):
        compiled.append(seconds(lambda: task(_kernel), COMPILED_RUNS))
        twin.append(seconds(lambda: task(pure), 1))
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
