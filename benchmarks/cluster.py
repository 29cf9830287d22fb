"""How fast a cluster takes notice: `python -m benchmarks.cluster [--json FILE] [--changes 300] [--topics 2000]`.

Three brokers share a coordinator. A topic is created at one of them, and the others are asked for it until they have
it: from the request to the moment when the last one does, beside what one append to such a coordinator takes by itself
in the same minute. Then a cluster of many partitions is started, stopped and killed; and the controller is killed, and
is stopped. Ends with 1 when a figure is beyond its limit.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.broker import machine
from benchmarks.figures import Check, spread
from levada import Admin, NewTopic
from levada.doors.local import LocalDoor
from levada.metadata.door import Token
from levada.metadata.image import TOPIC
from levada.metadata.records import ConfigRecord
from levada.net.channel import Channel
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.world.real import real_world
from tests.clusters import SESSION_MS, ClusterProcesses

BROKERS = 3
WRITE_BYTES = 300
"""About what one topic is in the metadata log."""
PARTITIONS_EACH = 5
TOPICS_AT_ONCE = 200
WRITES_ALLOWED = 4.0
P99_ALLOWED_MS = 100.0
START_ALLOWED_SECONDS = 20.0
SUCCESSION_ALLOWED_SECONDS = SESSION_MS / 1000 + 3.0
CLEAN_ALLOWED_SECONDS = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--topics", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="levada-bench-") as directory:
        report: dict[str, Any] = {"machine": machine()}
        report |= notice(Path(directory), arguments.changes)
        report |= start_many(Path(directory), arguments.topics)
        report |= succession(Path(directory))
    checks = [
        Check("a change at all brokers, median, to one append", report["writes"], WRITES_ALLOWED),
        Check("a change at all brokers, p99, ms", report["p99_ms"], P99_ALLOWED_MS),
        Check(
            f"start of {arguments.topics} x {PARTITIONS_EACH} partitions, s", report["start_s"], START_ALLOWED_SECONDS
        ),
        Check("the same after SIGKILL, s", report["start_after_kill_s"], START_ALLOWED_SECONDS),
        Check("a decision after the controller was killed, s", report["killed_s"], SUCCESSION_ALLOWED_SECONDS),
        Check("a decision after the controller was stopped, s", report["stopped_s"], CLEAN_ALLOWED_SECONDS),
    ]
    report["checks"] = [check.as_json() for check in checks]
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


def notice(directory: Path, changes: int) -> dict[str, Any]:
    """Changes and durable writes in turns, so that both meet the same disk."""
    cluster = ClusterProcesses(directory / "notice", BROKERS).start()
    try:
        changed, written = asyncio.run(_notice(cluster, directory, changes))
    finally:
        cluster.stop()
    ratios = [one / other for one, other in zip(changed, written)]
    return {
        "change_ms": spread(changed).as_json(),
        "append_ms": spread(written).as_json(),
        "writes": statistics.median(ratios),
        "p99_ms": statistics.quantiles(changed, n=100)[98],
    }


async def _notice(cluster: ClusterProcesses, directory: Path, changes: int) -> tuple[list[float], list[float]]:
    channels = [
        await Channel.connect(real_world().net, "localhost", broker.port) for broker in cluster.brokers.values()
    ]
    changed, written = [], []
    door, token = await _a_door(directory)
    for number in range(changes):
        begun = time.perf_counter()
        await door.append(token, number, [_record(number)])
        written.append((time.perf_counter() - begun) * 1000)
        name = f"noticed-{number}"
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        begun = time.perf_counter()
        reply = await channels[number % BROKERS].call(CreateTopicsRequest(topics=[topic]), 7)
        assert reply.topics[0].error_code == 0, reply
        for channel in channels:
            await _until_known(channel, name)
        changed.append((time.perf_counter() - begun) * 1000)
    await door.close()
    for channel in channels:
        channel.close()
    return changed, written


async def _until_known(channel: Channel, name: str) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=NO_UUID, name=name)], allow_auto_topic_creation=False)
    while (await channel.call(asked, 12)).topics[0].error_code:
        pass


async def _a_door(directory: Path) -> tuple[LocalDoor, Token]:
    """What brokers keep their metadata in, with no broker around it."""
    door = LocalDoor(real_world(), str(directory / "alone"), 1, "alone", SESSION_MS)
    door.open()
    await door.register()
    token = await door.campaign()
    assert token is not None
    return door, token


def _record(number: int) -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC, resource_name="t", name=f"{number:0{WRITE_BYTES}}", value="")


def _milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def start_many(directory: Path, topics: int) -> dict[str, Any]:
    cluster = ClusterProcesses(directory / "many", BROKERS).start()
    with Admin(cluster.bootstrap) as admin:
        for first in range(0, topics, TOPICS_AT_ONCE):
            wanted = [NewTopic(f"many-{number}", PARTITIONS_EACH) for number in range(first, first + TOPICS_AT_ONCE)]
            admin.create_topics(wanted).raise_any()
    cluster.stop()
    started = _milliseconds(cluster.start) / 1000
    cluster.kill()
    again = _milliseconds(cluster.start) / 1000
    cluster.kill()
    return {"start_s": started, "start_after_kill_s": again}


def succession(directory: Path) -> dict[str, Any]:
    """Until another broker decides."""
    cluster = ClusterProcesses(directory / "succession", BROKERS).start()
    try:
        return {"killed_s": _succeed(cluster, "kill"), "stopped_s": _succeed(cluster, "stop")}
    finally:
        cluster.kill()


def _succeed(cluster: ClusterProcesses, how: str) -> float:
    with Admin(cluster.bootstrap) as admin:
        controller = admin.describe_quorum().leader_id
    end = cluster.brokers[controller]
    others = [broker for node_id, broker in cluster.brokers.items() if node_id != controller]
    with Admin(others[0].bootstrap) as admin:
        admin.create_topics([NewTopic(f"before-{how}", 1)]).raise_any()
        # To stop takes a moment of its own, and the clock is to run from when it begins.
        begun = time.perf_counter()
        if how == "kill":
            end.kill()
        else:
            end.begin_to_stop()
        while admin.describe_quorum().leader_id == controller:
            time.sleep(0.005)
        admin.create_topics([NewTopic(f"after-{how}", 1)]).raise_any()
        seconds = time.perf_counter() - begun
    end.kill()
    end.start()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
