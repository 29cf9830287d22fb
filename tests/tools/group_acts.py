"""What clients do between commands about groups: topics with records, offsets, members of every kind."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from levada import Admin, Consumer, Producer
from levada.client.admin import GroupState, NewTopic
from levada.client.types import TopicPartition
from levada.net.channel import Channel
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from levada.world.real_net import RealNet
from tests.tools.scenario import Act, Stage
from tests.tools.stages import wait_until

START_MS = 1_704_067_200_000
"""2024-01-01T00:00:00Z, when the first record of each partition was made; one follows every second."""

RETENTION = {"retention.ms": "-1"}
"""The records are older than a week."""


def topics(**records: Collection[int]) -> Act:
    """Topics, each given by how many records its partitions hold: `topics(orders=[5, 3])`."""

    def do(stage: Stage) -> None:
        with Admin(stage.bootstrap) as admin:
            made = [NewTopic(topic, len(counts), configs=RETENTION) for topic, counts in records.items()]
            admin.create_topics(made).raise_any()
        with Producer(stage.bootstrap) as producer:
            for topic, counts in records.items():
                for partition, count in enumerate(counts):
                    for number in range(count):
                        at_ms = START_MS + 1_000 * number
                        producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=at_ms)
            producer.flush()

    return Act(do)


def committed(group: str, offsets: Mapping[tuple[str, int], int]) -> Act:
    """A group without members."""

    def do(stage: Stage) -> None:
        with Admin(stage.bootstrap) as admin:
            wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
            admin.alter_group_offsets(group, wanted).raise_any()

    return Act(do)


def members(
    group: str,
    *each: Mapping[str, Any],
    topics: Collection[str] | Mapping[str, Collection[str]] = (),
    pattern: str | None = None,
) -> Act:
    """Consumers that stay until the scenario is over, each with partitions, of which it has committed offset 2.

    Topics may be given by the client's id, for members that do not read the same.
    """

    def do(stage: Stage) -> None:
        consumers: list[Consumer] = []
        if any("group_instance_id" in settings for settings in each):
            # Those do not leave when they are closed.
            stage.open.callback(_remove_members, stage.bootstrap, group)
        for settings in each:
            options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
            consumer = stage.open.enter_context(Consumer(stage.bootstrap, **options))
            consumers.append(consumer)
            wanted = topics[settings["client_id"]] if isinstance(topics, Mapping) else topics
            consumer.subscribe(None if pattern else wanted, pattern=pattern)
            wait_until(lambda: _all_have_partitions(consumers))
        wait_until(lambda: _is_stable(stage.bootstrap, group, consumers))
        for consumer in consumers:
            consumer.commit(dict.fromkeys(consumer.assignment(), 2))

    return Act(do)


def _all_have_partitions(consumers: Collection[Consumer]) -> bool:
    for consumer in consumers:
        consumer.poll(0.1)
    return all(consumer.assignment() for consumer in consumers)


def _is_stable(bootstrap: str, group: str, consumers: Collection[Consumer]) -> bool:
    _all_have_partitions(consumers)
    with Admin(bootstrap) as admin:
        return admin.describe_consumer_groups([group])[group].state == GroupState.STABLE


def _remove_members(bootstrap: str, group: str) -> None:
    with Admin(bootstrap) as admin:
        admin.remove_members_from_group(group).raise_any()


def workers(group: str, protocol_type: str) -> Act:
    """A group of the classic protocol whose one member is no consumer."""

    async def join(channel: Channel) -> None:
        protocol = JoinGroupRequestProtocol(name="work", metadata=b"")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type=protocol_type,
            protocols=[protocol],
        )
        request.member_id = (await channel.call(request, 9)).member_id
        joined = await channel.call(request, 9)
        assert joined.error_code == 0
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        synced = await channel.call(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type=protocol_type,
                protocol_name="work",
                assignments=[assignment],
            ),
            5,
        )
        assert synced.error_code == 0

    async def session(port: int) -> None:
        channel = await Channel.connect(RealNet(), "localhost", port)
        try:
            await join(channel)
        finally:
            channel.close()

    def do(stage: Stage) -> None:
        asyncio.run(session(int(stage.bootstrap.rpartition(":")[2])))
        stage.open.callback(_remove_members, stage.bootstrap, group)

    return Act(do)
