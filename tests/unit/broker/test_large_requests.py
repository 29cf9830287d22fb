"""Requests of very many elements: the same answers, in their turn, while others are served."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from levada.broker import large_requests
from levada.broker.fetch_reading import Fetch
from levada.broker.handlers import fetch as fetching
from levada.broker.handlers import list_groups, list_transactions
from levada.broker.large_requests import DIVISIONS, join, parts
from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.api import request_class, response_class
from levada.protocol.declare import Request
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.list_transactions import ListTransactionsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from levada.protocol.schema import fields_of
from levada.records import build_batch
from tests.nodes import RunningNode, running_node

NONE = ErrorCode.NONE
PATIENCE_SECONDS = 30
MANY = 3_000
ENOUGH = 1_100
"""For a request to be a large one."""
WHO_IS_THERE = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


def ends(topics: dict[str, int]) -> ListOffsetsRequest:
    asked = [
        ListOffsetsTopic(
            name=name,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)],
        )
        for name, count in topics.items()
    ]
    return ListOffsetsRequest(replica_id=-1, topics=asked)


def names(count: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def commit(offset: int, indexes: range) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=at, committed_offset=offset, committed_metadata="")
        for at in indexes
    ]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic])


def fetch(count: int, *, epoch: int = -1, session_id: int = 0, max_wait_ms: int = 0) -> FetchRequest:
    asks = [FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1_000) for at in range(count)]
    topics = [FetchTopic(topic="t", partitions=asks)] if count else []
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=topics)


def append(node: RunningNode, index: int) -> None:
    data = build_batch([(0, None, b"value", ())])
    node.broker.partition("t", bytes(16), index).append(data, allows_zstd=True, now_ms=0)


@pytest.mark.parametrize("api", DIVISIONS, ids=lambda api: api.name)
def test_the_fields_of_a_division_are_there(api: int) -> None:
    """In some version, and arrays down to the last."""
    for division in DIVISIONS[api]:  # type: ignore[index]
        for cls, path in ((request_class(api), division.asked), (response_class(api), division.answered)):
            holder: type[Any] | None = cls
            for name in path:
                assert holder is not None
                field = next(field for field in fields_of(holder) if field.name == name)
                assert field.is_array
                holder = field.struct


@pytest.mark.parametrize(
    "layout", [{"a": 1}, {"a": 7, "b": 1, "c": 20}, {"a": 0, "b": 3}, {str(n): 1 for n in range(30)}]
)
def test_parts_add_up_to_the_whole_and_none_is_much_larger_than_it_may_be(layout: dict[str, int]) -> None:
    whole = ends(layout)
    made = [ListOffsetsRequest(replica_id=-1, topics=part) for part in parts(whole.topics, ("partitions",), 5)]
    assert all(large_requests.elements_in(one) <= 2 * 5 for one in made)
    first, *others = made
    for other in others:
        join(first, other, ("topics", "partitions"))
    assert first == ends(layout)


def test_long_names_make_parts_smaller() -> None:
    names = ["x" * 640] * 10
    assert [len(part) for part in parts(names, (), 33)] == [3, 3, 3, 1]
    topics = [MetadataRequestTopic(name=name) for name in names]
    assert [len(part) for part in parts(topics, (), 33)] == [3, 3, 3, 1]
    assert [len(part) for part in parts([1] * 100, (), 33)] == [33, 33, 33, 1]


def test_what_is_asked_in_one_large_request_is_answered_as_in_small_ones(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t", 20)
            append(node, 7)
            layout = {"unknown": 400, "t": MANY, "other": 1}
            answered = await node.call(ends(layout))
            assert [topic.name for topic in answered.topics] == list(layout)
            for topic, (name, count) in zip(answered.topics, layout.items()):
                small = [
                    one
                    for start in range(0, count, 100)
                    for one in (await node.call(ends({name: min(count, start + 100)}))).topics[0].partitions[start:]
                ]
                assert topic.partitions == small
            assert [one.offset for one in answered.topics[1].partitions[:10]] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]

    run(main())


def test_other_clients_are_served_while_a_large_request_is_handled(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            large = asyncio.ensure_future(node.call(names(50_000)))
            other = await Channel.connect(node.world.net, "localhost", node.node.port)
            served = 0
            while not large.done():
                await other.call(WHO_IS_THERE, 3)
                served += 1
            assert len((await large).topics) == 50_000
            assert served > 20
            other.close()

    run(main())


@pytest.mark.parametrize("count", [800, 2_000])
def test_a_later_request_of_a_connection_does_not_overtake_a_large_one(count: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t", count)
            while (await node.call(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0].error_code:
                await asyncio.sleep(0.01)
            while node.broker.groups.is_loading:
                await asyncio.sleep(0.01)
            first = node.channel.send(commit(5, range(count)), 9)
            second = node.channel.send(commit(6, range(1)), 9)
            for answer in (await first, await second):
                assert {one.error_code for topic in answer.topics for one in topic.partitions} == {0}
            asked = OffsetFetchRequestTopics(name="t", partition_indexes=[0, count - 1])
            found = await node.call(
                OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[asked])]), 8
            )
            assert [one.committed_offset for one in found.groups[0].topics[0].partitions] == [6, 5]

    run(main())


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (names(large_requests.MAX_ELEMENTS + 1), 12),
        (
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequestProtocol(name=f"p{number}", metadata=b"")
                    for number in range(large_requests.MAX_UNDIVIDED + 1)
                ],
            ),
            9,
        ),
    ],
    ids=["divided", "undivided"],
)
def test_there_is_a_limit_to_what_one_request_may_ask(message: Request[object], version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            with pytest.raises(ChannelClosed):
                await node.channel.call(message, version)
            again = await Channel.connect(node.world.net, "localhost", node.node.port)
            assert (await again.call(WHO_IS_THERE, 3)).error_code == 0
            again.close()

    run(main())


def test_a_session_of_very_many_partitions_tells_all_of_them_and_then_what_changes(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t", MANY)
            append(node, 2_999)
            full = await node.call(fetch(MANY, epoch=0), 12)
            assert [one.partition_index for one in full.responses[0].partitions] == list(range(MANY))
            assert sum(len(one.records) > 0 for one in full.responses[0].partitions) == 1
            append(node, 1_234)
            changed = await node.call(fetch(0, epoch=1, session_id=full.session_id, max_wait_ms=5_000), 12)
            told = [one.partition_index for one in changed.responses[0].partitions if len(one.records)]
            assert sorted(told) == [1_234, 2_999]

    run(main())


def test_a_large_fetch_that_finds_nothing_waits_for_a_change(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t", MANY)
            waiting = asyncio.ensure_future(node.call(fetch(MANY, max_wait_ms=20_000), 12))
            while not node.broker.delayed.parked["Fetch"]:
                await asyncio.sleep(0.001)
            append(node, 17)
            answered = await waiting
            told = [one.partition_index for one in answered.responses[0].partitions if len(one.records)]
            assert told == [17]
            empty = await node.call(fetch(MANY, max_wait_ms=1), 12)
            assert len(empty.responses[0].partitions) == MANY

    run(main())


@pytest.mark.parametrize("min_bytes", [1_000, 1_000_000], ids=["enough has come", "time is up"])
def test_a_fetch_that_waits_while_very_many_partitions_change_looks_at_them_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, min_bytes: int
) -> None:
    monkeypatch.setattr(fetching, "LARGE", 20)
    read = Fetch.read

    def read_few(self: Fetch) -> bool:
        assert len(self.session.dirty) <= fetching.LARGE
        return read(self)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t", 50)
            full = await node.call(fetch(50, epoch=0), 12)
            monkeypatch.setattr(Fetch, "read", read_few)
            asked = fetch(0, epoch=1, session_id=full.session_id, max_wait_ms=500)
            asked.min_bytes = min_bytes
            waiting = asyncio.ensure_future(node.call(asked, 12))
            while not node.broker.delayed.parked["Fetch"]:
                await asyncio.sleep(0.001)
            for index in range(50):
                append(node, index)
            answered = await waiting
            told = [one.partition_index for one in answered.responses[0].partitions if len(one.records)]
            assert sorted(told) == list(range(50))
            assert not node.broker.delayed.parked["Fetch"]

    run(main())


def test_a_huge_request_does_not_wait_for_a_huge_fetch_that_waits_for_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_requests, "HUGE_BYTES", 1_000)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t", ENOUGH)
            waiting = asyncio.ensure_future(node.call(fetch(ENOUGH, max_wait_ms=1_000 * PATIENCE_SECONDS), 12))
            while not node.broker.delayed.parked["Fetch"]:
                await asyncio.sleep(0.001)
            other = await Channel.connect(node.world.net, "localhost", node.node.port)
            assert len((await other.call(names(ENOUGH), 12)).topics) == ENOUGH
            other.close()
            assert not waiting.done()
            append(node, 0)
            await waiting

    run(main())


def test_all_topics_of_a_large_cluster_are_described_as_each_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            for number in range(4):
                await node.create(f"t{number}", 400)
            everything = await node.call(MetadataRequest(topics=None))
            each = await node.call(names(4))
            assert everything.topics == each.topics
            assert everything.brokers == each.brokers

    run(main())


def test_a_few_long_names_are_handled_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is hashed to find its coordinator, which takes more than a millisecond for one of 30,000 letters."""
    sizes: list[int] = []

    def watched(items: Sequence[Any], *arguments: Any) -> Iterator[list[Any]]:
        for part in parts(items, *arguments):
            sizes.append(sum(map(len, part)))
            yield part

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            long = [f"{number}".rjust(30_000, "g") for number in range(40)]
            monkeypatch.setattr(large_requests, "parts", watched)
            found = await node.call(ConsumerGroupDescribeRequest(group_ids=long, include_authorized_operations=False))
            assert [one.group_id for one in found.groups] == long
            assert sizes
            assert max(sizes) <= 2 * 30_000
            sizes.clear()
            await node.call(ConsumerGroupDescribeRequest(group_ids=long[:1], include_authorized_operations=False))
            assert not sizes

    run(main())


def test_very_many_groups_are_listed_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            await node.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g0"]))
            for number in range(25):
                await commit_loaded(node, f"g{number}")
            whole = await node.call(ListGroupsRequest(states_filter=[], types_filter=[]))
            assert sorted(one.group_id for one in whole.groups) == sorted(f"g{number}" for number in range(25))
            monkeypatch.setattr(list_groups, "LARGE", 10)
            sliced = await node.call(ListGroupsRequest(states_filter=[], types_filter=[]))
            assert sliced.groups == whole.groups
            stable = await node.call(ListGroupsRequest(states_filter=["Stable"], types_filter=[]))
            assert stable.groups == []

    run(main())


def test_very_many_transactions_are_listed_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x0"]))
            for number in range(25):
                request = InitProducerIdRequest(transactional_id=f"x{number}", transaction_timeout_ms=60_000)
                assert (await node.call(request, 5)).error_code == NONE
            everything = ListTransactionsRequest(state_filters=["Empty", "None"], producer_id_filters=[])
            whole = await node.call(everything)
            assert {one.transactional_id for one in whole.transaction_states} == {f"x{number}" for number in range(25)}
            assert whole.unknown_state_filters == ["None"]
            monkeypatch.setattr(list_transactions, "LARGE", 10)
            assert await node.call(everything) == whole

    run(main())


async def commit_loaded(node: RunningNode, group_id: str) -> None:
    """A group that has committed, once its coordinator has loaded."""
    request = commit(1, range(1))
    request.group_id = group_id
    while True:
        response = await node.call(request, 8)
        code = response.topics[0].partitions[0].error_code
        if code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert code == NONE
            return


def test_nothing_is_done_of_a_request_that_cannot_be_divided(tmp_path: Path) -> None:
    def resource(name: str, keys: list[str]) -> AlterConfigsResource:
        configs = [AlterableConfig(name=key, config_operation=0, value="1234567") for key in keys]
        return AlterConfigsResource(resource_type=2, resource_name=name, configs=configs)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            many = [resource(f"none-{number}", ["retention.ms"]) for number in range(600)]
            too_much = resource("none", [f"key-{number}" for number in range(large_requests.MAX_UNDIVIDED + 1)])
            before = node.broker.partition("t", bytes(16), 0).log.config.retention_ms
            resources = [resource("t", ["retention.ms"]), *many, too_much]
            with pytest.raises(ChannelClosed):
                await node.call(IncrementalAlterConfigsRequest(resources=resources, validate_only=False))
            assert node.broker.partition("t", bytes(16), 0).log.config.retention_ms == before

    run(main())
