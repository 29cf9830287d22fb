"""Two commits side by side: `make bench-ab BASE=ref`, or `python -m benchmarks.ab --base ref [--rounds 15]`.

A broker of each runs at the same time; slices of the same requests go to one and the other in turns, and a slice's CPU
time is the broker's own. The ratio is this tree's over the base's, slice by slice. Ends with 1 only where the lower
edge of the 90 % interval for its median is above what is allowed: "as fast as before" means that it is not.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import Connection, Plan, drive
from benchmarks.servers import Server, allow_many_files, broker_command, running
from benchmarks.wire import Layout, check_created, create_topic_frame, fetched_records, layout

ROOT = Path(__file__).parents[1]
ALLOWED = 1.05
RESAMPLES = 2_000
PARTITIONS = (1, 1_000)
PRODUCE, FETCH = "produce", "fetch"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    batch_bytes: int
    requests: int
    """In a slice."""
    in_flight: int
    passes: int
    """How often a slice fetches what was produced: few requests alone take too short a time to be told from noise."""


CASES = (
    Case("1 KiB", 1 << 10, requests=4_000, in_flight=5, passes=1),
    Case("16 KB", 16_000, requests=2_000, in_flight=5, passes=2),
    Case("1 MB", 1_000_000, requests=60, in_flight=2, passes=5),
)


@dataclass(slots=True)
class Side:
    """One of the two brokers."""

    server: Server
    connection: Connection


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    allow_many_files()
    is_fine = True
    with tempfile.TemporaryDirectory(prefix="levada-ab-") as directory, checked_out(arguments.base, directory) as base:
        for case in CASES:
            for partitions in PARTITIONS:
                is_fine &= measure(case, partitions, base, arguments.rounds)
    return 0 if is_fine else 1


@contextmanager
def checked_out(ref: str, directory: str) -> Iterator[Path]:
    """The other commit's tree, with its compiled parts."""
    tree = Path(directory, "base")
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), ref], cwd=ROOT, check=True)
    try:
        build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        subprocess.run(build, cwd=tree, check=True, capture_output=True)
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def measure(case: Case, partitions: int, base: Path, rounds: int) -> bool:
    """Print a line for each operation; whether none is slower."""
    wire = layout(case.batch_bytes)
    samples: dict[tuple[str, Path], list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="levada-ab-") as data,
        side(base, Path(data, "base"), partitions) as before,
        side(ROOT, Path(data, "head"), partitions) as after,
    ):
        sides = [(base, before), (ROOT, after)]
        for number in range(-1, rounds):
            for tree, one in sides if number % 2 else sides[::-1]:
                for operation, cpu_us in slice_of(one, case, wire, partitions).items():
                    if number >= 0:
                        samples.setdefault((operation, tree), []).append(cpu_us)
    verdicts = [_tell(case, partitions, operation, samples, base) for operation in (PRODUCE, FETCH)]
    return all(verdicts)


@contextmanager
def side(tree: Path, data: Path, partitions: int) -> Iterator[Side]:
    with running(["env", f"PYTHONPATH={tree / 'src'}", *broker_command(data)]) as server:
        connection = Connection(server.port)
        check_created(connection.call(create_topic_frame(partitions)))
        yield Side(server, connection)
        connection.close()


def slice_of(one: Side, case: Case, wire: Layout, partitions: int) -> dict[str, float]:
    """Microseconds of CPU per request."""
    produce = Plan(wire.produce, case.requests, case.in_flight, len(wire.produce_reply), partitions)
    begun_ns = one.server.cpu_ns()
    drive(one.connection, produce)
    produced_ns = one.server.cpu_ns()
    reply_size = len(wire.fetch_head) + len(wire.batch) + len(wire.fetch_tail)
    fetch = Plan(wire.fetch, case.requests, case.in_flight, reply_size, partitions)
    assert fetched_records(one.connection.call(wire.fetch.numbered(0)))[16:] == wire.batch[16:]
    fetching_ns = one.server.cpu_ns()
    for _ in range(case.passes):
        drive(one.connection, fetch)
    fetched_ns = one.server.cpu_ns()
    return {
        PRODUCE: (produced_ns - begun_ns) / 1_000 / case.requests,
        FETCH: (fetched_ns - fetching_ns) / 1_000 / case.requests / case.passes,
    }


def _tell(
    case: Case, partitions: int, operation: str, samples: dict[tuple[str, Path], list[float]], base: Path
) -> bool:
    before, after = samples[operation, base], samples[operation, ROOT]
    ratios = [new / old for old, new in zip(before, after)]
    low, high = interval(ratios)
    is_fine = low <= ALLOWED
    print(
        f"{operation:8}{case.name:>6} {partitions:5} partitions {statistics.median(before):9.1f} ->"
        f"{statistics.median(after):9.1f} µs  x{statistics.median(ratios):.3f} [{low:.3f}-{high:.3f}]"
        f"  {'ok' if is_fine else 'SLOWER'}",
        flush=True,
    )
    return is_fine


def interval(sample: Sequence[float]) -> tuple[float, float]:
    """Of 90 %, for the median: percentiles of the medians of samples drawn from this one."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(sample, k=len(sample))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 20], medians[-RESAMPLES // 20]


if __name__ == "__main__":
    sys.exit(main())
