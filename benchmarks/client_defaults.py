"""Producers as they come, without a single setting: `python -m benchmarks.client_defaults [--json FILE] [--rounds 9]`.

Each round is a process of its own, ours and the peer's in turns, and its time runs from before the client is made to
the end of its flush, so that set-up counts. Beside that the latency of one record at a time, twenty a second, with our
defaults and with batches that may not grow: to let them grow must cost a record that is alone nothing.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.broker import machine
from benchmarks.clients import FORGETFUL, HOST, PARTITIONS, SLACK, lower_bound
from benchmarks.figures import Check, spread
from benchmarks.servers import broker_command, running
from levada import Admin, Producer
from levada.client.admin import NewTopic

TOPIC = "defaults"
VALUE = bytes(range(100))
COUNT = 1_000_000
SINGLE_RECORDS = 100
PAUSE_SECONDS = 0.05
WAIT_SECONDS = 120.0
PEER = "confluent produce"
WANTED = {"send": 1.0, "send_many": 3.0}
LATENCY_RATIO = 1.1
"""One record at a time, our defaults over batches of a fixed size: the noise of a median of a hundred."""


def send(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:
        for _ in range(COUNT):
            producer.send(TOPIC, VALUE)


def send_many(bootstrap: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(TOPIC, [VALUE] * COUNT)


def confluent_produce(bootstrap: str) -> None:
    from confluent_kafka import Producer as ConfluentProducer

    producer = ConfluentProducer({"bootstrap.servers": bootstrap})
    left = COUNT
    while left:
        try:
            for _ in range(left):
                producer.produce(TOPIC, VALUE)
                left -= 1
        except BufferError:
            producer.poll(0.01)
    assert producer.flush(WAIT_SECONDS) == 0


JOBS: dict[str, Callable[[str], None]] = {"send": send, "send_many": send_many, PEER: confluent_produce}


def timed(job: str, bootstrap: str) -> float:
    """Seconds of one round, in a process that has done nothing else."""
    command = [sys.executable, "-m", "benchmarks.client_defaults", "--job", job, "--bootstrap-server", bootstrap]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def latencies(bootstrap: str, **settings: Any) -> list[float]:
    """Milliseconds from the call to the acknowledgement, one record after the other."""
    found = []
    with Producer(bootstrap, **settings) as producer:
        producer.send(TOPIC, VALUE).result()
        for _ in range(SINGLE_RECORDS):
            time.sleep(PAUSE_SECONDS)
            begun = time.perf_counter()
            producer.send(TOPIC, VALUE).result()
            found.append((time.perf_counter() - begun) * 1e3)
    return found


def measure(bootstrap: str, rounds: int) -> tuple[dict[str, Any], list[Check]]:
    samples: dict[str, list[float]] = {job: [] for job in JOBS}
    for number in range(rounds):
        turn = number % len(JOBS)
        for job in [*JOBS][turn:] + [*JOBS][:turn]:
            samples[job].append(COUNT / timed(job, bootstrap))
    report: dict[str, Any] = {}
    checks = []
    for job, rates in samples.items():
        print(f"{job:20}{spread(rates)} records/s")
        report[job] = {"records_per_second": spread(rates).as_json()}
    for job, wanted in WANTED.items():
        ratios = [ours / theirs for ours, theirs in zip(samples[job], samples[PEER])]
        name = f"{len(VALUE)} B, defaults: {job}, times {PEER}"
        report[job]["ratio"] = {"median": statistics.median(ratios), "low_90": lower_bound(ratios)}
        checks.append(Check(name, report[job]["ratio"]["median"], wanted, is_floor=True))
        checks.append(Check(f"{name}, lower bound", report[job]["ratio"]["low_90"], wanted * SLACK, is_floor=True))
    alone = {"defaults": latencies(bootstrap), "fixed": latencies(bootstrap, batch_size=16_384)}
    for name, sample in alone.items():
        print(f"one record, {name:10}{spread(sample)} ms")
        report[f"one record, {name}"] = spread(sample).as_json()
    ratio = statistics.median(alone["defaults"]) / statistics.median(alone["fixed"])
    checks.append(Check("one record alone: defaults, times a fixed batch.size", ratio, LATENCY_RATIO))
    return report, checks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--job", choices=sorted(JOBS), help="one round of one of them; prints its seconds")
    parser.add_argument("--bootstrap-server", default="")
    arguments = parser.parse_args()
    if arguments.job:
        begun = time.perf_counter()
        JOBS[arguments.job](arguments.bootstrap_server)
        print(time.perf_counter() - begun)
        return 0
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        command = broker_command(Path(directory) / "data", "log.retention.check.interval.ms=500")
        with running(command) as server:
            bootstrap = f"{HOST}:{server.port}"
            with Admin(bootstrap) as admin:
                admin.create_topics([NewTopic(TOPIC, PARTITIONS, configs=FORGETFUL)]).raise_any()
            figures, checks = measure(bootstrap, arguments.rounds)
    for check in checks:
        print(check)
    if arguments.json:
        report = {"machine": machine(), "rounds": arguments.rounds, **figures}
        report["checks"] = [check.as_json() for check in checks]
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
