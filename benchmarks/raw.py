"""Raw pipelined Produce and Fetch: the broker beside a bare uvloop sink and a plain C sink, interleaved."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Check, spread
from benchmarks.load import Connection, Outcome, Plan, drive
from benchmarks.servers import Server, broker_command, build_c_sink, c_sink_command, running, uvloop_sink_command
from benchmarks.wire import (
    Layout,
    check_created,
    create_topic_frame,
    fetched_records,
    layout,
    produced_offset,
)
from levada.records import BatchView

BROKER, UVLOOP, C = "broker", "uvloop", "c"
PRODUCE, FETCH = "produce", "fetch"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    batch_bytes: int
    requests: int
    in_flight: int
    passes: int
    """How often all is fetched: few requests alone would take too short a time to be told from noise."""
    allowed: float
    """How many times the CPU of the bare uvloop sink a request may cost the broker."""


CASES = (
    Case("1 KiB", 1 << 10, requests=20_000, in_flight=5, passes=1, allowed=1.8),
    Case("16 KB", 16_000, requests=6_000, in_flight=5, passes=3, allowed=1.5),
    Case("1 MB", 1_000_000, requests=200, in_flight=2, passes=10, allowed=1.15),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One server in one round."""

    cpu_us: float
    """Of the server, per request."""
    burst: float
    """How many requests came together: servers that are asked alike can be compared."""


def measure(rounds: int, operations: tuple[str, ...]) -> list[dict[str, Any]]:
    """A row for each operation and size; each round starts every server anew and another one goes first."""
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        sink = build_c_sink(Path(directory))
        if sink is None:
            print("no C compiler: the C sink is left out")
        return [row for case in CASES for row in measure_case(case, rounds, operations, sink)]


def measure_case(case: Case, rounds: int, operations: tuple[str, ...], c_sink: Path | None) -> list[dict[str, Any]]:
    wire = layout(case.batch_bytes)
    names = [BROKER, UVLOOP, *([C] if c_sink is not None else [])]
    samples: dict[tuple[str, str], list[Sample]] = {}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            for operation, sample in measure_server(name, case, wire, c_sink).items():
                samples.setdefault((operation, name), []).append(sample)
    rows = [_row(case, operation, {name: samples[operation, name] for name in names}) for operation in operations]
    for row in rows:
        print(describe(row))
    return rows


def measure_server(name: str, case: Case, wire: Layout, c_sink: Path | None) -> dict[str, Sample]:
    """Produce and then fetch what was produced, on a fresh server with a fresh log."""
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        log = Path(directory) / "log"
        if name == BROKER:
            command = broker_command(log)
        elif name == UVLOOP:
            command = uvloop_sink_command(log, wire)
        else:
            assert c_sink is not None
            command = c_sink_command(c_sink, log, wire)
        with running(command) as server:
            connection = Connection(server.port)
            if name == BROKER:
                check_created(connection.call(create_topic_frame(1)))
            warm = _check_server(connection, wire, case.requests // 20)
            produce = Plan(wire.produce, case.requests, case.in_flight, len(wire.produce_reply), keeps_replies=True)
            produced, outcome = _timed(server, connection, produce)
            outcome.check(produce, lambda number, reply: _check_offset(reply, warm + number))
            last = connection.call(wire.fetch.numbered(0, offset=warm + case.requests - 1))
            assert fetched_records(last)[16:] == wire.batch[16:]
            fetch = Plan(wire.fetch, case.requests, case.in_flight, _fetch_reply_size(wire))
            fetched, _ = _timed(server, connection, fetch, case.passes)
            connection.close()
    return {PRODUCE: produced, FETCH: fetched}


def _check_server(connection: Connection, wire: Layout, count: int) -> int:
    """Ask one by one until the server is warm, and see that it does its job; returns how often."""
    for number in range(count):
        produce_reply = connection.call(wire.produce.numbered(number))
        _check_offset(produce_reply, number)
        assert len(produce_reply) + 4 == len(wire.produce_reply)
        fetch_reply = connection.call(wire.fetch.numbered(number, offset=number))
        assert len(fetch_reply) + 4 == _fetch_reply_size(wire)
        records = fetched_records(fetch_reply)
        assert records[16:] == wire.batch[16:]
        assert BatchView(records).base_offset == number
    return count


def _timed(server: Server, connection: Connection, plan: Plan, passes: int = 1) -> tuple[Sample, Outcome]:
    before = server.cpu_ns()
    for _ in range(passes):
        outcome = drive(connection, plan)
    cpu_us = (server.cpu_ns() - before) / 1000 / plan.count / passes
    return Sample(cpu_us, plan.count / outcome.bursts), outcome


def _check_offset(reply: bytes, offset: int) -> None:
    assert produced_offset(reply) == offset


def _fetch_reply_size(wire: Layout) -> int:
    return len(wire.fetch_head) + len(wire.batch) + len(wire.fetch_tail)


def _row(case: Case, operation: str, samples: dict[str, list[Sample]]) -> dict[str, Any]:
    """Ratios are taken round by round, so that a machine that slows down slows both sides of them."""
    bare = [sample.cpu_us for sample in samples[UVLOOP]]
    return {
        "operation": operation,
        "size": case.name,
        "requests": case.requests,
        "in_flight": case.in_flight,
        "allowed": case.allowed,
        "servers": {
            name: {
                "cpu_us": spread([sample.cpu_us for sample in taken]).as_json(),
                "ratio": spread([sample.cpu_us / other for sample, other in zip(taken, bare)]).as_json(),
                "burst": spread([sample.burst for sample in taken]).median,
                "rounds": [round(sample.cpu_us, 3) for sample in taken],
            }
            for name, taken in samples.items()
        },
    }


def describe(row: dict[str, Any]) -> str:
    figures = [
        f"{name} {server['cpu_us']['median']:8.1f} µs x{server['ratio']['median']:.2f}"
        f" [{server['ratio']['low']:.2f}-{server['ratio']['high']:.2f}] ({server['burst']:.1f})"
        for name, server in row["servers"].items()
    ]
    return f"{row['operation']:8}{row['size']:>6}   " + "   ".join(figures)


def checks(rows: list[dict[str, Any]]) -> list[Check]:
    return [
        Check(
            f"{row['operation']} {row['size']}: CPU of the broker / of the bare uvloop sink",
            row["servers"][BROKER]["ratio"]["median"],
            row["allowed"],
        )
        for row in rows
    ]
