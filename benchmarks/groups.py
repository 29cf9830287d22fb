"""Group coordinators under load: `python -m benchmarks.groups [--json FILE] [--seconds 10]`.

10,000 groups with one member each commit ten partitions each; a restart loads them; then heartbeats and commits come at
a steady rate. CPU time is the broker's own. Ends with 1 when a figure is beyond what is allowed.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.broker import machine
from benchmarks.figures import Check
from benchmarks.servers import Server, broker_command, running
from levada.net.channel import Channel
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from levada.world.real import real_world

GROUPS = 10_000
TOPIC, PARTITIONS = "committed", 10
HEARTBEATS_PER_SECOND, COMMITS_PER_SECOND = 2_000, 1_000
CHANNELS = 20
SLICE_SECONDS = 0.02
HOST = "127.0.0.1"

LOAD_SECONDS_ALLOWED = 10.0
CORES_ALLOWED = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long heartbeats and commits come")
    parser.add_argument("--groups", type=int, default=GROUPS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        report = {"machine": machine(), **measure(Path(directory), arguments.groups, arguments.seconds)}
    checks = [
        Check(f"seconds to load {arguments.groups:,} groups", report["load_seconds"], LOAD_SECONDS_ALLOWED),
        Check("cores for 2,000 heartbeats/s and 1,000 commits/s", report["cores"], CORES_ALLOWED),
    ]
    report["checks"] = [check.as_json() for check in checks]
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(check.is_met for check in checks) else 1


def measure(directory: Path, groups: int, seconds: float) -> dict[str, Any]:
    command = broker_command(directory, "group.initial.rebalance.delay.ms=0")
    with running(command) as broker:
        members = asyncio.run(fill(broker, groups))
    with running(command) as broker:
        begun = time.perf_counter()
        asyncio.run(until_loaded(broker, groups))
        load_seconds = broker.start_seconds + time.perf_counter() - begun
        cores, rate = asyncio.run(load_steadily(broker, members, seconds))
        return {
            "groups": groups,
            "committed_partitions": groups * PARTITIONS,
            "load_seconds": round(load_seconds, 2),
            "cores": round(cores, 3),
            "requests_per_second": round(rate),
            "resident_mb": round(broker.resident_bytes() / 1e6),
        }


async def connect(broker: Server) -> list[Channel]:
    net = real_world().net
    return [await Channel.connect(net, HOST, broker.port) for _ in range(CHANNELS)]


async def fill(broker: Server, groups: int) -> list[str]:
    """Every group gets its member and commits all partitions of the topic; the ids of the members."""
    channels = await connect(broker)
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
    await channels[0].call(CreateTopicsRequest(topics=[topic]), 7)
    await channels[0].call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    parts = [range(first, groups, CHANNELS) for first in range(CHANNELS)]
    filled = await asyncio.gather(*(fill_part(channel, part) for channel, part in zip(channels, parts)))
    members = {number: member for part in filled for number, member in part}
    for channel in channels:
        channel.close()
    return [members[number] for number in range(groups)]


async def fill_part(channel: Channel, numbers: range) -> list[tuple[int, str]]:
    members = []
    for number in numbers:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id=f"g{number}",
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=1_800_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = await channel.call(join, 3)
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        sync = SyncGroupRequest(
            group_id=f"g{number}", generation_id=1, member_id=joined.member_id, assignments=[assignment]
        )
        synced = await channel.call(sync, 3)
        assert synced.error_code == 0, synced
        committed = await channel.call(commit(number, joined.member_id, range(PARTITIONS)), 9)
        assert committed.topics[0].partitions[0].error_code == 0, committed
        members.append((number, joined.member_id))
    return members


def commit(number: int, member: str, partitions: range) -> OffsetCommitRequest:
    offsets = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=number, committed_metadata="")
        for index in partitions
    ]
    return OffsetCommitRequest(
        group_id=f"g{number}",
        generation_id_or_member_epoch=1,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
    )


async def until_loaded(broker: Server, groups: int) -> None:
    channel = await Channel.connect(real_world().net, HOST, broker.port)
    listed = await channel.call(ListGroupsRequest(), 4)
    while listed.error_code:
        await asyncio.sleep(0.05)
        listed = await channel.call(ListGroupsRequest(), 4)
    assert len(listed.groups) == groups, len(listed.groups)
    channel.close()


async def load_steadily(broker: Server, members: list[str], seconds: float) -> tuple[float, float]:
    """Cores used by the broker, and the requests per second it had; all of them must succeed."""
    channels = await connect(broker)
    heartbeats, commits = int(HEARTBEATS_PER_SECOND * SLICE_SECONDS), int(COMMITS_PER_SECOND * SLICE_SECONDS)
    slices = int(seconds / SLICE_SECONDS)
    begun, cpu_ns = time.perf_counter(), broker.cpu_ns()
    number = 0
    answers: list[asyncio.Future[OffsetCommitResponse | HeartbeatResponse]] = []
    for turn in range(slices):
        for index in range(heartbeats + commits):
            number = (number + 7) % len(members)
            channel = channels[number % CHANNELS]
            if index < commits:
                answers.append(channel.send(commit(number, members[number], range(1)), 9))
            else:
                beat = HeartbeatRequest(group_id=f"g{number}", generation_id=1, member_id=members[number])
                answers.append(channel.send(beat, 4))
        await asyncio.sleep(max(begun + (turn + 1) * SLICE_SECONDS - time.perf_counter(), 0))
    replies = await asyncio.gather(*answers)
    elapsed = time.perf_counter() - begun
    used = (broker.cpu_ns() - cpu_ns) / 1e9
    for reply in replies:
        code = reply.topics[0].partitions[0].error_code if hasattr(reply, "topics") else reply.error_code
        assert code == 0, reply
    for channel in channels:
        channel.close()
    return used / elapsed, len(replies) / elapsed


if __name__ == "__main__":
    sys.exit(main())
