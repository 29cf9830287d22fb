"""What partitions and connections cost: throughput, memory and start at 1, 10, 100 and 1,000 of them."""

import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Check, spread
from benchmarks.load import Connection, Plan, drive_many
from benchmarks.servers import Server, broker_command, launch, running
from benchmarks.wire import Layout, check_created, create_topic_frame, layout, produced_offset

STEPS = (1, 10, 100, 1_000)
USUAL = 10
"""Where one is varied, there are so many of the other."""

MOST = STEPS[-1]
BATCH_BYTES = 1 << 10
REQUESTS = 10_000
IN_FLIGHT = 5
MB = 1_000_000
KILL_EVERY = 4
"""Recovery after a kill takes long, so not every round has one."""


ALLOWED_IDLE_MB, ALLOWED_PARTITIONS_MB = 80, 200
ALLOWED_START_SECONDS, ALLOWED_PARTITIONS_START_SECONDS = 1.0, 3.0
LEAST_SHARE = 0.7
"""Of the throughput at ten that must be left at a thousand."""


def measure_throughput(rounds: int) -> dict[str, Any]:
    """Requests per second of the broker's CPU, which a busy neighbour does not change, and of wall time.

    One broker has all topics and serves all rounds, so that figures differ by nothing else.
    """
    wires = {count: layout(BATCH_BYTES, f"partitions-{count:04d}") for count in STEPS}
    samples: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="levada-bench-") as directory,
        running(broker_command(Path(directory) / "data")) as server,
    ):
        for partitions, wire in wires.items():
            _create_topic(server, partitions, wire)
        for number in range(rounds):
            for count in STEPS if number % 2 else reversed(STEPS):
                for kind, partitions, connections in (("partitions", count, USUAL), ("connections", USUAL, count)):
                    taken = _throughput(server, wires[partitions], partitions, connections)
                    samples.setdefault((kind, count), []).append(taken)
        resident_mb = server.resident_bytes() / MB
    rows = {
        kind: [_row(count, samples[kind, count], samples[kind, USUAL]) for count in STEPS]
        for kind in ("partitions", "connections")
    }
    for kind, kind_rows in rows.items():
        for row in kind_rows:
            per_cpu, wall, share = (row[figure]["median"] for figure in ("per_cpu_second", "per_second", "share"))
            print(f"{row['count']:>6} {kind:12}{per_cpu:9.0f} requests/CPU s{wall:9.0f} /s{share:7.2f}")
    return {"resident_mb": resident_mb, **rows}


def _create_topic(server: Server, partitions: int, wire: Layout) -> None:
    """With a first batch in each partition, which costs more than those that follow."""
    client = Connection(server.port)
    check_created(client.call(create_topic_frame(partitions, wire.topic)))
    for number in range(partitions):
        assert produced_offset(client.call(wire.produce.numbered(0, partition=number))) == 0
    client.close()


def _throughput(server: Server, wire: Layout, partitions: int, connections: int) -> tuple[float, float]:
    clients = [Connection(server.port) for _ in range(connections)]
    plan = Plan(wire.produce, REQUESTS, IN_FLIGHT, len(wire.produce_reply), partitions=partitions)
    cpu_ns, begun = server.cpu_ns(), time.perf_counter()
    drive_many(clients, plan)
    seconds, cpu_seconds = time.perf_counter() - begun, (server.cpu_ns() - cpu_ns) / 1e9
    for client in clients:
        client.close()
    return REQUESTS / cpu_seconds, REQUESTS / seconds


def _row(count: int, taken: list[tuple[float, float]], usual: list[tuple[float, float]]) -> dict[str, Any]:
    """The share is that of what the same round found for the usual number: a slow minute of the machine meets both."""
    return {
        "count": count,
        "share": spread([one[0] / other[0] for one, other in zip(taken, usual, strict=True)]).as_json(),
        "per_cpu_second": spread([per_cpu_second for per_cpu_second, _ in taken]).as_json(),
        "per_second": spread([per_second for _, per_second in taken]).as_json(),
    }


def measure_start(rounds: int) -> dict[str, Any]:
    """Start to listening, and memory then: empty, with many partitions, and with those after a kill.

    Time in the queue for a CPU that a neighbour has is told apart: `seconds` is without it, `wall_seconds` with it.
    """
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        empty, full = Path(directory) / "empty", Path(directory) / "full"
        _fill(full)
        kinds = {
            "empty": (empty, signal.SIGTERM),
            "partitions": (full, signal.SIGTERM),
            "partitions after SIGKILL": (full, signal.SIGKILL),
        }
        samples: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in kinds}
        for number in range(rounds):
            for kind, (data, ending) in kinds.items():
                if ending is signal.SIGKILL and number % KILL_EVERY:
                    continue
                _end_before(data, ending)
                with running(broker_command(data)) as server:
                    own_seconds = server.start_seconds - server.queued_seconds
                    samples[kind].append((own_seconds, server.start_seconds, server.resident_bytes() / MB))
    result = {}
    for kind, taken in samples.items():
        seconds, wall_seconds, resident = (spread(column) for column in zip(*taken))
        print(f"start {kind:26}{seconds} s, {wall_seconds} s of wall time   {resident.median:.1f} MB resident")
        result[kind] = {
            "seconds": seconds.as_json(),
            "wall_seconds": wall_seconds.as_json(),
            "resident_mb": resident.median,
        }
    return {"partitions": MOST, "starts": result}


def _fill(data: Path) -> None:
    """Make a topic of many partitions with a batch in each."""
    with running(broker_command(data)) as server:
        _create_topic(server, MOST, layout(BATCH_BYTES))


def _end_before(data: Path, ending: signal.Signals) -> None:
    """The broker before the one that is measured ends in this way."""
    if ending is signal.SIGKILL:
        server: Server = launch(broker_command(data))
        server.stop(ending)


def checks(throughput: dict[str, Any] | None, start: dict[str, Any] | None) -> list[Check]:
    found = []
    if throughput is not None:
        for kind in ("partitions", "connections"):
            share = next(row["share"]["median"] for row in throughput[kind] if row["count"] == MOST)
            found.append(Check(f"throughput at {MOST} {kind} / at {USUAL}", share, LEAST_SHARE, is_floor=True))
        resident_mb = throughput["resident_mb"]
        found.append(Check(f"MB resident with {MOST} partitions in use", resident_mb, ALLOWED_PARTITIONS_MB))
    if start is not None:
        empty, full = start["starts"]["empty"], start["starts"]["partitions"]
        found += [
            Check("MB resident, idle", empty["resident_mb"], ALLOWED_IDLE_MB),
            Check(f"MB resident after a start with {MOST} partitions", full["resident_mb"], ALLOWED_PARTITIONS_MB),
            Check("seconds from start to listening", empty["seconds"]["median"], ALLOWED_START_SECONDS),
            Check(
                f"seconds from start to listening, {MOST} partitions",
                full["seconds"]["median"],
                ALLOWED_PARTITIONS_START_SECONDS,
            ),
        ]
    return found
