"""What our consumer does in groups, alone and beside others: told once, for Levada's broker and Apache's.

A case takes the bootstrap address of a broker with `BROKER_SETTINGS`.
"""

import asyncio
import re
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from levada import Consumer as BlockingConsumer
from levada.client.consumer.consumer import Consumer
from levada.client.errors import CommitFailed, InconsistentGroup
from levada.client.types import OffsetAndMetadata, TopicPartition
from tests.clients.dying_consumer import INSTANCE
from tests.clients.groups import (
    HEARTBEAT_MS,
    WAIT_SECONDS,
    Ledger,
    Member,
    OurMember,
    add_partitions,
    create_topic,
    produce,
    run_members,
    unique,
    until,
)

MIXED_WAIT_SECONDS = 60.0
"""For groups with other people's clients, whose default session is 45 s."""

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "group.consumer.heartbeat.interval.ms": 150,
    "group.consumer.min.heartbeat.interval.ms": 150,
    "group.consumer.assignment.interval.ms": 0,
}
"""Members hear of changes soon, and do not wait for others that may come."""

Protocol = dict[str, Any]
CLASSIC: Protocol = {}
NEXT: Protocol = {"group_protocol": "consumer"}


async def members_share_and_the_last_one_has_all(bootstrap: str, protocol: Protocol) -> None:
    topic, ledger = unique("shared"), Ledger()
    sent = create_topic(bootstrap, topic, 6, 20)
    first, second = (OurMember(bootstrap, topic, topic, ledger, **protocol) for _ in range(2))

    async def inside() -> None:
        await until(lambda: first.owned == 6, first.task)
        await second.start()
        await until(lambda: first.owned == second.owned == 3, first.task, second.task)
        more = produce(bootstrap, topic, 6, 20, "more-")
        await until(lambda: len(first.values) + len(second.values) >= len(sent) + len(more), first.task, second.task)
        await second.stop()
        await until(lambda: first.owned == 6, first.task)
        assert sorted(first.values + second.values) == sorted(sent + more)

    await run_members([first], inside)
    assert ledger.conflicts == []
    assert ledger.owners == {}


async def a_cooperative_member_keeps_what_it_has(bootstrap: str) -> None:
    topic, ledger = unique("kept"), Ledger()
    create_topic(bootstrap, topic, 6)
    first, second = (OurMember(bootstrap, topic, topic, ledger, "cooperative-sticky") for _ in range(2))

    async def inside() -> None:
        await until(lambda: first.owned == 6, first.task)
        states = dict(first.consumer._engine.subscriptions.states())
        await second.start()
        await until(lambda: first.owned == second.owned == 3, first.task, second.task)
        assert [count for what, count in first.told if what == "revoked"] == [sorted(second.partitions)]
        for partition, state in first.consumer._engine.subscriptions.states():
            assert states[partition] is state, "a partition that stays keeps its position"
        await second.stop()

    await run_members([first], inside)
    assert ledger.conflicts == []


async def a_group_moves_from_eager_to_cooperative_one_by_one(bootstrap: str) -> None:
    """KIP-429: first all members know both, then the old assignor goes."""
    topic, ledger = unique("moving"), Ledger()
    sent = create_topic(bootstrap, topic, 6, 10)
    members: list[Member] = []
    everybody: list[OurMember] = []

    async def restart(index: int, strategy: str) -> None:
        if index < len(members):
            await members[index].stop()
        new = OurMember(bootstrap, topic, topic, ledger, strategy)
        members[index : index + 1] = [new]
        everybody.append(new)
        await new.start()
        share = 6 // len(members)
        await until(lambda: all(member.owned == share for member in members), *(one.task for one in everybody[-1:]))

    async def inside() -> None:
        for strategy in ("range", "cooperative-sticky,range", "cooperative-sticky"):
            for index in range(2):
                await restart(index, strategy)
        await until(lambda: sum(len(one.values) for one in everybody) >= len(sent))

    try:
        await inside()
    finally:
        for member in members:
            await member.stop()
    assert ledger.conflicts == []
    assert {value for one in everybody for value in one.values} == set(sent)


async def a_static_member_restarts_without_a_rebalance(bootstrap: str, protocol: Protocol) -> None:
    topic, ledger = unique("static"), Ledger()
    create_topic(bootstrap, topic, 4)

    def member(name: str) -> OurMember:
        return OurMember(bootstrap, topic, topic, ledger, group_instance_id=name, **protocol)

    staying, leaving, returning = member("one"), member("two"), member("two")

    async def inside() -> None:
        await leaving.start()
        await until(lambda: staying.owned == leaving.owned == 2, staying.task, leaving.task)
        told, had = list(staying.told), leaving.partitions
        await leaving.stop()
        await returning.start()
        await until(lambda: returning.owned == 2, returning.task)
        assert returning.partitions == had
        beats = staying.consumer.group_metadata()
        await asyncio.sleep(4 * HEARTBEAT_MS / 1_000)
        assert staying.told == told
        assert staying.consumer.group_metadata() == beats
        await returning.stop()

    await run_members([staying], inside)
    assert ledger.conflicts == []


async def a_second_instance_fences_the_first(bootstrap: str) -> None:
    topic, ledger = unique("fenced"), Ledger()
    create_topic(bootstrap, topic, 2)
    first, second = (OurMember(bootstrap, topic, topic, ledger, group_instance_id="one") for _ in range(2))
    await first.start()
    await until(lambda: first.owned == 2, first.task)
    await second.start()
    await until(first.task.done)
    error = first.task.exception()
    assert error is not None
    assert "group.instance.id" in str(error)
    await first.consumer.close()
    await until(lambda: second.partitions == {0, 1}, second.task)
    await second.stop()


# Scenarios by their numbers


async def scenario_13_range_and_round_robin(bootstrap: str) -> None:
    shares = {
        "range": [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}],
        "roundrobin": [{0, 3, 6}, {1, 4, 7}, {2, 5, 8}],
    }
    for strategy, expected in shares.items():
        topic, ledger = unique(strategy), Ledger()
        create_topic(bootstrap, topic, 9)
        # Assignors go by the names of static members, where there are any.
        members = [
            OurMember(bootstrap, topic, topic, ledger, strategy, group_instance_id=name) for name in ("a", "b", "c")
        ]

        async def inside(members: list[OurMember] = members, expected: list[set[int]] = expected) -> None:
            await until(lambda: [member.partitions for member in members] == expected, *(one.task for one in members))

        await run_members(members, inside)


async def scenario_13_sticky_keeps_what_members_had(bootstrap: str) -> None:
    topic, ledger = unique("sticky"), Ledger()
    create_topic(bootstrap, topic, 9)
    members = [OurMember(bootstrap, topic, topic, ledger, "sticky") for _ in range(3)]

    async def inside() -> None:
        await members[2].start()
        await until(lambda: all(member.owned == 3 for member in members), *(one.task for one in members))
        before = [member.partitions for member in members[:2]]
        await members[2].stop()
        await until(lambda: sorted(member.owned for member in members[:2]) == [4, 5], *(one.task for one in members))
        assert all(had < member.partitions for had, member in zip(before, members[:2]))

    await run_members(members[:2], inside)
    assert ledger.conflicts == []


async def scenario_14_what_a_commit_before_and_after_processing_costs(bootstrap: str) -> None:
    """Committed first, records are lost; processed first, they are repeated; members that commit see no more."""
    topic = unique("dying")
    create_topic(bootstrap, topic, 1, 65_533)
    partition = TopicPartition(topic, 0)

    async def die(how: str) -> tuple[str, int]:
        """What a process printed that died, and where its successor begins."""
        group = unique(how)
        async with Consumer(bootstrap, group_id=group) as before:
            before.assign([partition])
            await before.commit({partition: 65_510})
        command = [sys.executable, "-m", "tests.clients.dying_consumer", bootstrap, topic, group, how]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        printed, _ = await process.communicate()
        async with Consumer(bootstrap, group_id=group, group_instance_id=INSTANCE) as successor:
            successor.subscribe([topic])
            records = []
            while not successor.assignment():
                records += await successor.poll(0.05)
            begin = records[0].offset if records else await successor.position(partition)
            return " ".join(printed.decode().split()), begin

    died = await asyncio.gather(*(die(how) for how in ("auto-committed", "auto", "manual", "manual-committed")))
    assert died == [
        ("65510 65532", 65_533),
        ("65510 65532 processed", 65_510),
        ("65510 65532 processed", 65_510),
        ("65510 65532 processed", 65_533),
    ], died


async def scenario_15_who_polls_too_rarely_leaves(bootstrap: str, protocol: Protocol) -> None:
    topic, ledger = unique("slow"), Ledger()
    create_topic(bootstrap, topic, 2, 10)
    slow = OurMember(bootstrap, topic, topic, ledger, max_poll_interval_ms=1_000, **protocol)
    other = OurMember(bootstrap, topic, topic, ledger, **protocol)
    while not await slow.consumer.poll(WAIT_SECONDS):
        pass

    async def inside() -> None:
        # Heartbeats go on all the time, and are not enough.
        await until(lambda: other.partitions == {0, 1}, other.task)
        with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
            await slow.consumer.commit()
        assert slow.partitions == {0, 1}, "it hears of it in its next poll"
        await slow.start()
        await until(lambda: slow.owned == other.owned == 1, slow.task, other.task)
        assert ("lost", [0, 1]) in slow.told
        await slow.stop()

    await run_members([other], inside)


def a_blocking_consumer_computes(bootstrap: str) -> None:
    topic, session_ms = unique("computing"), 600
    create_topic(bootstrap, topic, 2, 1)
    options: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    options |= {"session_timeout_ms": session_ms, "heartbeat_interval_ms": HEARTBEAT_MS}
    with BlockingConsumer(bootstrap, max_poll_interval_ms=3_000, **options) as slow:
        slow.subscribe([topic])
        assert slow.poll(WAIT_SECONDS)
        before = slow.group_metadata()
        compute(3 * session_ms / 1_000)
        slow.commit()
        assert slow.group_metadata() == before
        with BlockingConsumer(bootstrap, **options) as other:
            other.subscribe([topic])
            # Meanwhile the first one is not polled.
            deadline = time.monotonic() + WAIT_SECONDS
            while len(other.assignment()) < 2:
                assert time.monotonic() < deadline, "it keeps its partitions"
                other.poll(0.05)
            with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms"):
                slow.commit()


def compute(seconds: float) -> None:
    """What a user's code does that never lets go of its thread."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10_000))


async def scenario_16_one_member_of_each_group_gets_a_record(bootstrap: str, protocol: Protocol) -> None:
    topic, ledger = unique("spread"), Ledger()
    sent = create_topic(bootstrap, topic, 4, 25)
    groups = [[unique("same")] * 2, [unique("other")], [unique("random")]]
    members = [[OurMember(bootstrap, topic, name, Ledger(), **protocol) for name in names] for names in groups]
    flat = [member for group in members for member in group]

    async def inside() -> None:
        for group in members:
            await until(lambda group=group: sum(len(one.values) for one in group) >= len(sent))  # type: ignore[misc]
            assert sorted(value for one in group for value in one.values) == sorted(sent)

    await run_members(flat, inside)
    assert ledger.conflicts == []


# Topics that come and grow


async def a_pattern_finds_new_topics(bootstrap: str, protocol: Protocol) -> None:
    stem = unique("found")
    create_topic(bootstrap, f"{stem}-a", 2)
    create_topic(bootstrap, f"not-{stem}", 1)
    options = protocol or {"heartbeat_interval_ms": HEARTBEAT_MS}
    async with Consumer(bootstrap, group_id=stem, metadata_max_age_ms=300, **options) as consumer:
        consumer.subscribe(re.compile(f"{stem}-.*"))
        await assigned(consumer, {(f"{stem}-a", 0), (f"{stem}-a", 1)})
        create_topic(bootstrap, f"{stem}-b", 1)
        await assigned(consumer, {(f"{stem}-a", 0), (f"{stem}-a", 1), (f"{stem}-b", 0)})


async def the_coordinator_knows_what_a_pattern_means(bootstrap: str) -> None:
    """What comes later it finds every `group.consumer.regex.refresh.interval.ms`, which is 10 s at least."""
    stem = unique("meant")
    create_topic(bootstrap, f"{stem}-a", 2)
    create_topic(bootstrap, f"not-{stem}", 1)
    async with Consumer(bootstrap, group_id=stem, **NEXT) as consumer:
        consumer.subscribe(pattern=f"{stem}-.*")
        await assigned(consumer, {(f"{stem}-a", 0), (f"{stem}-a", 1)})
        await consumer.unsubscribe()
        consumer.subscribe([f"not-{stem}"])
        await assigned(consumer, {(f"not-{stem}", 0)})


async def new_partitions_are_picked_up(bootstrap: str, protocol: Protocol) -> None:
    topic = unique("growing")
    create_topic(bootstrap, topic, 1)
    options = protocol or {"heartbeat_interval_ms": HEARTBEAT_MS}
    async with Consumer(bootstrap, group_id=topic, metadata_max_age_ms=300, **options) as consumer:
        consumer.subscribe([topic])
        await assigned(consumer, {(topic, 0)})
        add_partitions(bootstrap, topic, 3)
        await assigned(consumer, {(topic, index) for index in range(3)})


async def assigned(consumer: Consumer, partitions: set[tuple[str, int]]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while consumer.assignment() != partitions:
            await consumer.poll(0.05)


# Commits


async def a_listener_commits_before_it_loses_partitions(bootstrap: str, protocol: Protocol) -> None:
    topic, ledger = unique("last-moment"), Ledger()
    sent = create_topic(bootstrap, topic, 2, 10)

    class Listener:
        def __init__(self, consumer: Consumer) -> None:
            self.consumer = consumer

        async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            await self.consumer.commit()

        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

        def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None: ...

    options = protocol or {"heartbeat_interval_ms": HEARTBEAT_MS}
    values: list[bytes] = []
    first = Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False, **options)
    first.subscribe([topic], listener=Listener(first))
    second = OurMember(bootstrap, topic, topic, ledger, **protocol)
    async with first:
        while len(values) < len(sent):
            values += [record.value or b"" for record in await first.poll(1.0)]
        await second.start()
        while len(first.assignment()) != 1 or second.owned != 1:
            assert await first.poll(0.05) == []
    await until(lambda: second.owned == 2, second.task)
    await second.stop()
    assert second.values == []


async def commits_keep_their_order(bootstrap: str, protocol: Protocol) -> None:
    topic = unique("ordered")
    create_topic(bootstrap, topic, 1, 100)
    heard: list[tuple[int, object]] = []
    partition = TopicPartition(topic, 0)
    async with Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest", **protocol) as consumer:
        consumer.subscribe([topic])
        while not await consumer.poll(1.0):
            pass
        for offset in range(1, 51):
            consumer.commit_async(
                {partition: OffsetAndMetadata(offset, f"note {offset}", 0)},
                lambda offsets, error: heard.append((offsets[partition].offset, error)),
            )
        assert heard == [], "callbacks are called inside other calls"
        await consumer.commit({partition: OffsetAndMetadata(60, "done", 0)})
        assert heard == [(offset, None) for offset in range(1, 51)]
        assert await consumer.committed([partition]) == {partition: OffsetAndMetadata(60, "done", 0)}


async def a_consumer_goes_on_where_the_last_one_was_closed(bootstrap: str, protocol: Protocol) -> None:
    topic = unique("continued")
    sent = create_topic(bootstrap, topic, 1, 40)
    values: list[bytes] = []
    for _ in range(2):
        async with Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest", **protocol) as consumer:
            consumer.subscribe([topic])
            for _ in range(2):
                values += [record.value or b"" for record in await consumer.poll(WAIT_SECONDS, max_records=10)]
    assert values == sent


async def who_unsubscribes_leaves_and_may_come_back(bootstrap: str, protocol: Protocol) -> None:
    topic, other, ledger = unique("one"), unique("two"), Ledger()
    create_topic(bootstrap, topic, 2)
    create_topic(bootstrap, other, 1)
    first, second = (OurMember(bootstrap, topic, topic, ledger, **protocol) for _ in range(2))

    async def inside() -> None:
        await second.start()
        await until(lambda: first.owned == second.owned == 1, first.task, second.task)
        await second.stop(closes=False)
        await second.consumer.unsubscribe()
        await until(lambda: first.owned == 2, first.task)
        second.consumer.subscribe([other])
        await assigned(second.consumer, {(other, 0)})
        await second.consumer.close()

    await run_members([first], inside)
    assert ledger.conflicts == []


async def members_without_a_common_assignor_are_told_so(bootstrap: str) -> None:
    topic, ledger = unique("disagree"), Ledger()
    create_topic(bootstrap, topic, 2)
    first = OurMember(bootstrap, topic, topic, ledger, "range")

    async def inside() -> None:
        await until(lambda: first.owned == 2, first.task)
        async with Consumer(bootstrap, group_id=topic, partition_assignment_strategy="roundrobin") as second:
            second.subscribe([topic])
            with pytest.raises(InconsistentGroup, match=r"partition\.assignment\.strategy"):
                await second.poll(WAIT_SECONDS)

    await run_members([first], inside)


# Beside other clients


async def members_of_many_kinds_share_a_group(bootstrap: str, kinds: Sequence[type[Member]], strategy: str) -> None:
    """Each is started again, one after another, while records come: nothing is lost, nothing is owned twice."""
    topic, ledger = unique(f"mixed-{strategy or 'next'}"), Ledger()
    sent = create_topic(bootstrap, topic, 2 * len(kinds), 10)
    members = [kind(bootstrap, topic, topic, ledger, strategy) for kind in kinds]
    everybody = list(members)

    def are_balanced() -> bool:
        return all(member.owned == 2 for member in members)

    async def balance() -> None:
        await until(
            are_balanced,
            seconds=MIXED_WAIT_SECONDS,
            found=lambda: [(type(member).__name__, member.owned) for member in members],
        )

    try:
        for member in members:
            await member.start()
        await balance()
        for index, kind in enumerate(kinds):
            await members[index].stop()
            members[index] = kind(bootstrap, topic, topic, ledger, strategy)
            everybody.append(members[index])
            await members[index].start()
            sent += produce(bootstrap, topic, 2 * len(kinds), 5, f"{index}-")
            await balance()
        await until(lambda: {value for one in everybody for value in one.values} == set(sent))
    finally:
        for member in members:
            await member.stop()
    assert ledger.conflicts == []


class OurNextMember(OurMember):
    def __init__(self, bootstrap: str, topic: str, group: str, ledger: Ledger, strategy: str) -> None:
        super().__init__(bootstrap, topic, group, ledger, strategy, group_protocol="consumer")
