"""Our clients beside the ones in use: `python -m benchmarks.clients [--json FILE] [--rounds 9] [--only send]`.

One broker, equal settings, rounds that take turns. Each ratio is ours over the peer's records per second of the same
round; its lower bound is that of a 90 % interval for the median. Ends with 1 when a figure is below what is wanted.
Beside them what the bytes alone take, with no client that encodes or decodes them (`benchmarks.client_ceilings`).
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.broker import machine
from benchmarks.client_ceilings import BareFetch, BareProduce
from benchmarks.client_contenders import CONTENDERS, Contender, Settings
from benchmarks.figures import Check, spread
from benchmarks.servers import broker_command, running
from levada import Admin
from levada.client.admin import NewTopic

HOST = "127.0.0.1"
SIZES = (100, 1_024)
BYTES_A_ROUND = {100: 240_000_000, 1_024: 400_000_000}
"""A round of the fastest takes a quarter of a second, so that its beginning does not count for much."""
FORGETFUL = {"retention.bytes": str(1 << 20), "segment.bytes": str(128 << 20), "file.delete.delay.ms": "0"}
"""What is written is soon deleted again: else the disk, to which all goes in the end, would be what is measured."""
PARTITIONS = 4
RESAMPLES = 2_000
SLACK = 0.9
"""The lower bound of a ratio may be so much of what is wanted."""

WANTED = {
    "send": ("confluent produce", 1.0),
    "send_many": ("confluent produce", 3.0),
    "send_arrow": ("confluent produce", 8.0),
    "poll": ("confluent consume", 1.0),
    "poll_arrow": ("confluent consume", 8.0),
    "aio send": ("aiokafka send", 5.0),
    "aio poll": ("aiokafka getmany", 5.0),
}

CEILINGS: dict[str, tuple[Callable[[Settings], Contender], str]] = {
    "bare produce": (BareProduce, "confluent produce"),
    "bare fetch": (BareFetch, "confluent consume"),
}
"""The same bytes and no client that looks at them, and the peer that they are compared with."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=sorted(WANTED), help="one pair instead of all")
    arguments = parser.parse_args()
    pairs = {arguments.only: WANTED[arguments.only]} if arguments.only else WANTED
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        command = broker_command(Path(directory) / "data", "log.retention.check.interval.ms=500")
        with running(command) as server:
            bootstrap = f"{HOST}:{server.port}"
            report: dict[str, Any] = {"machine": machine(), "rounds": arguments.rounds, "partitions": PARTITIONS}
            for size in SIZES:
                report[str(size)] = measure(bootstrap, size, pairs, arguments.rounds)
    checks = checks_of(report, pairs)
    report["checks"] = [check.as_json() for check in checks]
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


def measure(bootstrap: str, size: int, pairs: dict[str, tuple[str, float]], rounds: int) -> dict[str, Any]:
    """Records per second and CPU per record of each contender, all in turns."""
    topic = f"bench-{size}"
    with Admin(bootstrap) as admin:
        topics = [NewTopic(topic, PARTITIONS, configs=FORGETFUL), NewTopic(f"{topic}-in", PARTITIONS)]
        admin.create_topics(topics).raise_any()
    count = BYTES_A_ROUND[size] // size
    settings = Settings(bootstrap, topic, PARTITIONS, bytes(random.randbytes(size)), count)
    names = list(dict.fromkeys(name for ours, (theirs, _) in pairs.items() for name in (ours, theirs)))
    ceilings = {name: peer for name, (_, peer) in CEILINGS.items() if peer in names}
    contenders: dict[str, Contender] = {name: CONTENDERS[name](settings) for name in names}
    contenders |= {name: CEILINGS[name][0](settings) for name in ceilings}
    names += ceilings
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(-1, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            result = contenders[name].timed_round()
            if number >= 0:
                samples[name].append(result)
    for contender in contenders.values():
        contender.close()
    figures: dict[str, Any] = {}
    for name in names:
        rate, cpu = (spread(column) for column in zip(*samples[name]))
        print(f"{size:5} B  {name:20}{rate} records/s   {cpu} CPU us a record")
        figures[name] = {"records_per_second": rate.as_json(), "cpu_us_per_record": cpu.as_json()}
    for ours, theirs in {**{name: peer for name, (peer, _) in pairs.items()}, **ceilings}.items():
        ratios = [one[0] / other[0] for one, other in zip(samples[ours], samples[theirs])]
        figures[ours]["ratio"] = {"median": statistics.median(ratios), "low_90": lower_bound(ratios)}
    for name, peer in ceilings.items():
        print(f"{size:5} B  the bytes alone are {figures[name]['ratio']['median']:.2f} times {peer}")
    return figures


def lower_bound(sample: Sequence[float]) -> float:
    """The fifth percentile of the medians of samples drawn from this one."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(sample, k=len(sample))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 20]


def checks_of(report: dict[str, Any], pairs: dict[str, tuple[str, float]]) -> list[Check]:
    checks = []
    for size in SIZES:
        for ours, (theirs, wanted) in pairs.items():
            ratio = report[str(size)][ours]["ratio"]
            name = f"{size} B: {ours}, times {theirs}"
            checks.append(Check(name, ratio["median"], wanted, is_floor=True))
            checks.append(Check(f"{name}, lower bound", ratio["low_90"], wanted * SLACK, is_floor=True))
    return checks


if __name__ == "__main__":
    sys.exit(main())
