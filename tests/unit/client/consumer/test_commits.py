"""Commits: the bytes' worth of it pure, the order and the retries in a simulation."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from levada.client.cluster import ClusterView, Deadline, TopicView
from levada.client.consumer.offsets_wire import (
    commit_codes,
    commit_request,
    fetch_request,
    fetched_offsets,
    newest_version,
)
from levada.client.errors import CommitFailed, IllegalState, KafkaError, TimedOut
from levada.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.clients.simulated import Town, simulate, until

ID = bytes(range(16))
AT = TopicPartition("t", 3)
VIEW = ClusterView(topics=MappingProxyType({"t": TopicView("t", ID, False, (), 0)}), names=MappingProxyType({ID: "t"}))
WHO = GroupMetadata("g", 7, "m", None)


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_can_be_said_in_every_version(version: int) -> None:
    request = commit_request(WHO, {AT: OffsetAndMetadata(5, "note", 2)}, VIEW)
    heard, _ = decode_prefix(OffsetCommitRequest, version, encode_bytes(request, version))
    (topic,) = heard.topics
    (partition,) = topic.partitions
    assert (heard.group_id, heard.generation_id_or_member_epoch, heard.member_id) == ("g", 7, "m")
    assert (topic.name or topic.topic_id) == ("t" if version < 10 else ID)
    assert (partition.partition_index, partition.committed_offset, partition.committed_metadata) == (3, 5, "note")
    assert partition.committed_leader_epoch == (2 if version >= 6 else -1)


@pytest.mark.parametrize("version", range(1, 11))
def test_committed_offsets_can_be_asked_for_in_every_version(version: int) -> None:
    request = fetch_request(WHO, [AT], VIEW, version, require_stable=True)
    heard, _ = decode_prefix(OffsetFetchRequest, version, encode_bytes(request, version))
    assert heard.require_stable == (version >= 7)
    asked = heard.groups[0] if version >= 8 else heard
    assert asked.group_id == "g"
    assert asked.topics is not None
    assert [topic.partition_indexes for topic in asked.topics] == [[3]]


def test_topics_are_known_by_ids_where_all_have_one() -> None:
    assert newest_version([AT], VIEW) is None
    assert newest_version([AT, TopicPartition("unknown", 0)], VIEW) == 9


def test_answers_by_id_and_by_name_mean_the_same() -> None:
    for topic in ({"name": "t"}, {"topic_id": ID}):
        partition = OffsetCommitResponsePartition(partition_index=3, error_code=12)
        response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(partitions=[partition], **topic)])
        assert commit_codes(response, VIEW) == {AT: 12}


def test_what_was_never_committed_is_left_out() -> None:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=3, committed_offset=5, committed_leader_epoch=-1, metadata=None),
        OffsetFetchResponsePartitions(partition_index=4, committed_offset=-1, metadata=""),
    ]
    group = OffsetFetchResponseGroup(
        group_id="g", topics=[OffsetFetchResponseTopics(topic_id=ID, partitions=partitions)]
    )
    assert fetched_offsets(OffsetFetchResponse(groups=[group]), VIEW) == {AT: OffsetAndMetadata(5, "", None)}


def test_without_a_group_there_is_nothing_to_commit_for() -> None:
    async def main(town: Town) -> None:
        member = town.member("t")
        from levada.client.consumer.consumer import Consumer

        async def commit() -> None:
            async with Consumer("broker:9092", world=member.consumer._engine.world) as alone:
                alone.assign([AT])
                with pytest.raises(IllegalState, match=r"group\.id"):
                    await alone.commit({AT: 1})
                with pytest.raises(IllegalState, match=r"group\.id"):
                    await alone.committed([AT])

        await member.do(commit())

    simulate(main)


def test_a_commit_is_tried_until_the_broker_is_back() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 1)
        member = town.member("t").start()
        await until(lambda: member.partitions == {0})
        town.crash_broker()
        committing = asyncio.ensure_future(member.do(member.consumer.commit({("t", 0): 5})))
        await asyncio.sleep(3)
        assert not committing.done()
        town.start_broker()
        await committing
        assert await member.do(member.consumer.committed([("t", 0)])) == {("t", 0): (5, "", None)}

    simulate(main)


def test_a_commit_that_takes_too_long_says_which_limit_it_met() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 1)
        member = town.member("t").start()
        await until(lambda: member.partitions == {0})
        town.crash_broker()
        with pytest.raises(TimedOut, match="not committed within 3000 ms"):
            await member.do(member.consumer.commit({("t", 0): 5}, timeout=3))

    simulate(main)


def test_asynchronous_commits_are_told_in_their_order_whatever_becomes_of_them() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 1)
        member = town.member("t")
        heard: list[tuple[int, type[KafkaError] | None]] = []

        def callback(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
            heard.append((offsets[TopicPartition("t", 0)].offset, None if error is None else type(error)))

        async def live() -> None:
            consumer = member.consumer
            while not consumer.assignment():
                await consumer.poll(0.1)
            for offset in (1, 2, 3):
                consumer.commit_async({("t", 0): offset}, callback)
            consumer.commit_async({("t", 0): OffsetAndMetadata(4, "x" * 5_000)}, callback)
            consumer.commit_async({("t", 0): 5}, callback)
            assert heard == []
            while len(heard) < 5:
                await consumer.poll(0.1)

        await member.do(live())
        assert [offset for offset, _ in heard] == [1, 2, 3, 4, 5]
        assert await member.do(member.consumer.committed([("t", 0)])) == {("t", 0): (5, "", None)}

    simulate(main)


def test_what_was_not_committed_when_the_consumer_closes_is_told_so() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 1)
        member = town.member("t").start()
        await until(lambda: member.partitions == {0})
        member.is_polling = False
        await asyncio.sleep(1)
        town.crash_broker()
        heard: list[KafkaError | None] = []

        async def end() -> None:
            member.consumer.commit_async({("t", 0): 1}, lambda offsets, error: heard.append(error))
            await member.consumer.close(timeout=2)

        await member.do(end())
        assert [str(error) for error in heard] == ["the consumer was closed before the commit was answered"]

    simulate(main)


def test_a_commit_is_void_once_its_partition_was_given_up_even_if_it_came_back() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 1)
        member = town.member("t").start()
        await until(lambda: member.partitions == {0})
        engine = member.consumer._engine
        order = engine.commits._order({TopicPartition("t", 0): OffsetAndMetadata(1)})
        deadline = Deadline(engine.world.clock, 1_000)
        await member.do(engine.commits._commit([order], deadline))
        engine.subscriptions.assign_from_group([])
        engine.subscriptions.assign_from_group([TopicPartition("t", 0)])
        with pytest.raises(CommitFailed):
            await member.do(engine.commits._commit([order], deadline))

    simulate(main)


def test_a_consumer_that_assigns_itself_its_partitions_cannot_commit_for_members() -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 1)
        member, stranger = town.member("t").start(), town.member("t")
        await until(lambda: member.partitions == {0})
        stranger.consumer._engine.subscriptions.unsubscribe()
        stranger.consumer.assign([("t", 0)])
        with pytest.raises(CommitFailed, match=r"group\.id of its own"):
            await stranger.do(stranger.consumer.commit({("t", 0): 1}))

    simulate(main)


@pytest.mark.parametrize("protocol", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"])
def test_positions_are_committed_by_themselves_and_before_partitions_go(protocol: dict[str, str]) -> None:
    async def main(town: Town) -> None:
        await town.topic("t", 2)
        await town.produce("t", 0, [b"1", b"2"])
        await town.produce("t", 1, [b"3"])
        first = town.member("t", enable_auto_commit=True, auto_commit_interval_ms=3_600_000, **protocol)
        first.start()
        first._commit = lambda: asyncio.sleep(0)  # type: ignore[method-assign]
        await until(lambda: len(first.values) == 3)
        second = town.member("t", **protocol).start()
        await until(lambda: len(second.partitions) == len(first.partitions) == 1)
        await asyncio.sleep(2)
        assert second.values == []

    simulate(main)
