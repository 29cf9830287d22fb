"""The log beside the bare system calls it is made of, in one run; and what an idle partition costs."""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from levada.records import BatchView, build_batch, parse_produced
from levada.storage.loading import LogState, open_log
from levada.storage.log_config import LogConfig
from levada.storage.log_directory import LogDirectory
from levada.storage.producers import Origin
from levada.world.real_disk import RealDisk

SIZES = {"1 KiB": 1 << 10, "16 KB": 16_000, "1 MB": 1_000_000}
ALLOWED = {"16 KB": 3.0, "1 MB": 1.2}
BYTES_PER_ROUND = 128_000_000
PARTITIONS = 1_000
ALLOWED_BYTES_PER_PARTITION = 20_000
ALLOWED_OPEN_SECONDS = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    rows = [row for name, size in SIZES.items() for row in measure(name, size, arguments.rounds)]
    print(f"{'':16}{'log µs':>10}{'bare µs':>10}{'ratio':>8}{'allowed':>9}")
    for row in rows:
        allowed = f"{row['allowed']:9.1f}" if row["allowed"] else ""
        print(f"{row['name']:16}{row['log_us']:10.1f}{row['bare_us']:10.1f}{row['ratio']:8.2f}{allowed}")
    partitions = measure_partitions()
    print(
        f"{PARTITIONS} idle partitions: {partitions['bytes_each']} bytes each, opened after a clean stop in "
        f"{partitions['open_seconds']:.2f} s"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps({"operations": rows, "partitions": partitions}, indent=2) + "\n")
    within = all(not row["allowed"] or row["ratio"] <= row["allowed"] for row in rows)
    within &= partitions["bytes_each"] < ALLOWED_BYTES_PER_PARTITION
    return 0 if within and partitions["open_seconds"] < ALLOWED_OPEN_SECONDS else 1


def measure(name: str, size: int, rounds: int) -> list[dict[str, Any]]:
    """Interleaved rounds, so that a busy neighbour disturbs both alike."""
    batch = build_batch([(1_700_000_000_000, None, os.urandom(size - 75), ())])
    figures = [measure_round(batch, bare_first=bool(number % 2)) for number in range(rounds)]
    appends, bare_appends, reads, bare_reads = (list(column) for column in zip(*figures))
    return [_row(f"append {name}", appends, bare_appends, name), _row(f"read {name}", reads, bare_reads, name)]


def measure_round(batch: bytes, *, bare_first: bool) -> tuple[float, float, float, float]:
    """CPU microseconds of an append and a read and of the bare ones; neither side always goes first."""
    count = max(BYTES_PER_ROUND // len(batch), 20)
    checked, view = parse_produced(batch), memoryview(batch)
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        log, _ = open_log(RealDisk(), f"{directory}/log", LogConfig(), now_ms=0)
        fd = os.open(f"{directory}/bare", os.O_CREAT | os.O_RDWR | os.O_APPEND)
        offsets, positions = iter(range(count)), iter(range(0, count * len(batch), len(batch)))

        def append() -> None:
            log.append(checked, leader_epoch=0, origin=Origin.CLIENT, now_ms=0)

        def append_bare() -> None:
            os.writev(fd, (view[:16], view[16:]))

        def read() -> None:
            found = log.read(next(offsets), len(batch), at_least_one_batch=True, upper_offset=count)
            assert found is not None
            assert found.file.read_warm(found.position, found.size) is not None

        def read_bare() -> None:
            os.preadv(fd, [bytearray(len(batch))], next(positions))

        calls = {append: 0.0, append_bare: 0.0, read: 0.0, read_bare: 0.0}
        order = (append_bare, append, read_bare, read) if bare_first else tuple(calls)
        for call in order:
            calls[call] = cpu_us(call, count)
        os.close(fd)
        log.close()
    return calls[append], calls[append_bare], calls[read], calls[read_bare]


def _row(title: str, ours: list[float], bare: list[float], name: str) -> dict[str, Any]:
    mine, other = statistics.median(ours), statistics.median(bare)
    return {"name": title, "log_us": mine, "bare_us": other, "ratio": mine / other, "allowed": ALLOWED.get(name)}


def cpu_us(call: Callable[[], None], count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count * 1e6


def measure_partitions() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        batch = BatchView(build_batch([(0, None, b"v", ())]))
        logs = LogDirectory(RealDisk(), directory, LogConfig(), lambda _: 0)
        logs.begin()
        for number in range(PARTITIONS):
            log, _ = logs.open("t", number, 0, LogState())
            log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=0)
        logs.close(0)
        before = resident_bytes()
        start = time.perf_counter()
        again = LogDirectory(RealDisk(), directory, LogConfig(), lambda _: 0)
        again.begin()
        for number in range(PARTITIONS):
            again.open("t", number, 0)
        seconds = time.perf_counter() - start
        used = resident_bytes() - before
        again.close(0)
    return {"count": PARTITIONS, "bytes_each": used // PARTITIONS, "open_seconds": seconds}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main())
