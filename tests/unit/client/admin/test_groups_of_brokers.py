"""What is asked of several brokers: each group of its coordinator, each configuration of its broker, lists of all."""

import asyncio
from typing import Any

import pytest

from levada.client.admin import AbortTransaction, ConfigResource, GroupType, Replica
from levada.client.cluster import CoordinatorKind
from levada.client.errors import GroupNotFound, KafkaError, TimedOut
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from levada.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from levada.protocol.messages.consumer_protocol import AssignedTopic, ConsumerProtocolAssignment, encode_assignment
from levada.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from levada.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from levada.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from levada.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from levada.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from levada.protocol.messages.init_producer_id import InitProducerIdResponse
from levada.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from levada.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.unit.client.admin.scripted import SILENCE, ScriptedCluster, admin_of

FIRST = TopicPartition("orders", 0)


def requests(cluster: ScriptedCluster, api: ApiKey) -> list[tuple[int | None, Any]]:
    return [(broker, request) for broker, request in cluster.asked if request.api_key == api]


def test_groups_are_asked_of_their_coordinators_and_again_where_those_have_moved() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.coordinates({"a": 1, "b": 2, "c": 1})
    codes = {"c": ErrorCode.NOT_COORDINATOR}

    def delete(request: DeleteGroupsRequest, _: int) -> DeleteGroupsResponse:
        results = [
            DeletableGroupResult(group_id=group, error_code=codes.pop(group, ErrorCode.NONE))
            for group in request.groups_names
        ]
        if not codes:
            cluster.coordinates({"c": 2})
        return DeleteGroupsResponse(results=results)

    cluster.on(ApiKey.DELETE_GROUPS, delete)
    asyncio.run(admin_of(cluster).delete_groups(["a", "b", "c"])).raise_any()
    asked = [(broker, request.groups_names) for broker, request in requests(cluster, ApiKey.DELETE_GROUPS)]
    assert asked == [(1, ["a", "c"]), (2, ["b"]), (2, ["c"])]
    looked_for = [request.coordinator_keys for _, request in requests(cluster, ApiKey.FIND_COORDINATOR)]
    assert looked_for == [["a", "b", "c"], ["c"]]


def test_a_group_is_described_in_the_protocol_it_speaks() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.coordinates({"new": 1, "old": 2, "none": 1})
    assigned = ConsumerProtocolAssignment(assigned_partitions=[AssignedTopic(topic="orders", partitions=[0, 2])])
    assignment = encode_assignment(assigned)

    def by_new(request: Any, _: int) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(
            groups=[
                ConsumerGroup(
                    error_code=0 if group == "new" else ErrorCode.GROUP_ID_NOT_FOUND,
                    group_id=group,
                    group_state="Stable",
                    group_epoch=4,
                    assignment_epoch=4,
                    assignor_name="uniform",
                    members=[],
                )
                for group in request.group_ids
            ]
        )

    def member(data: bytes) -> DescribedGroupMember:
        return DescribedGroupMember(
            member_id="m", client_id="c", client_host="/h", member_metadata=b"x", member_assignment=data
        )

    def by_old(request: Any, _: int) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=[
                DescribedGroup(
                    error_code=0 if group == "old" else ErrorCode.GROUP_ID_NOT_FOUND,
                    group_id=group,
                    group_state="Stable",
                    protocol_type="consumer",
                    protocol_data="range",
                    members=[member(assignment), member(b""), member(b"nonsense")],
                )
                for group in request.groups
            ]
        )

    cluster.on(ApiKey.CONSUMER_GROUP_DESCRIBE, by_new)
    cluster.on(ApiKey.DESCRIBE_GROUPS, by_old)
    found = asyncio.run(admin_of(cluster).describe_consumer_groups(["none", "old", "new"]))
    assert list(found) == ["none", "old", "new"]
    assert (found["new"].type, found["new"].coordinator, found["new"].group_epoch) == (GroupType.CONSUMER, 1, 4)
    assert (found["old"].type, found["old"].coordinator, found["old"].assignor) == (GroupType.CLASSIC, 2, "range")
    expected = (TopicPartition("orders", 0), TopicPartition("orders", 2))
    assert [one.assignment for one in found["old"].members] == [expected, (), ()]
    assert found["old"].members[0].assignment_bytes == assignment
    assert [type(error) for error in found.errors.values()] == [GroupNotFound]


def test_lists_are_put_together_from_all_brokers_or_not_at_all() -> None:
    cluster = ScriptedCluster(brokers=2)

    def listing(_: object, broker: int) -> ListGroupsResponse:
        groups = [ListedGroup(group_id=name, protocol_type="consumer") for name in ("moving", f"of-{broker}")]
        return ListGroupsResponse(groups=groups)

    cluster.on(ApiKey.LIST_GROUPS, listing)
    admin = admin_of(cluster)
    assert sorted(one.group_id for one in asyncio.run(admin.list_groups())) == ["moving", "of-1", "of-2"]
    cluster.on(ApiKey.LIST_GROUPS, lambda request, broker: SILENCE if broker == 2 else listing(request, broker))
    with pytest.raises(TimedOut, match="to list groups"):
        asyncio.run(admin.list_groups(timeout_ms=50))


def test_each_brokers_configuration_is_asked_of_itself() -> None:
    cluster = ScriptedCluster(brokers=2)

    def describe(request: DescribeConfigsRequest, _: int) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_message=None, resource_type=one.resource_type, resource_name=one.resource_name, configs=[]
                )
                for one in request.resources
            ]
        )

    cluster.on(ApiKey.DESCRIBE_CONFIGS, describe)
    resources = [
        ConfigResource.topic("1"),
        ConfigResource.broker(1),
        ConfigResource.broker(2),
        ConfigResource.broker(None),
        ConfigResource.group("2"),
    ]
    found = asyncio.run(admin_of(cluster).describe_configs(resources))
    assert list(found.done) == resources
    asked = {broker: [one.resource_name for one in request.resources] for broker, request in cluster.asked}
    assert asked == {None: ["1", "", "2"], 1: ["1"], 2: ["2"]}


def test_the_pages_of_a_description_are_put_together() -> None:
    cluster = ScriptedCluster()
    sizes = {"a": 2, "b": 5, "c": 1}
    pages = []

    def page(request: DescribeTopicPartitionsRequest, _: int) -> DescribeTopicPartitionsResponse:
        """As a broker does: from the cursor on, so many partitions."""
        names = sorted(topic.name for topic in request.topics)
        pages.append(names)
        cursor, left = request.cursor, request.response_partition_limit
        found: dict[str, list[int]] = {}
        for name in names:
            start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            for index in range(start, sizes[name]):
                if left == 0:
                    next_cursor = ResponseCursor(topic_name=name, partition_index=index)
                    return DescribeTopicPartitionsResponse(topics=described(found), next_cursor=next_cursor)
                found.setdefault(name, []).append(index)
                left -= 1
        return DescribeTopicPartitionsResponse(topics=described(found))

    cluster.on(ApiKey.DESCRIBE_TOPIC_PARTITIONS, page)
    found = asyncio.run(admin_of(cluster).describe_topics(["c", "a", "b"], partitions_per_page=3))
    assert {name: [one.index for one in found[name].partitions] for name in found} == {
        "c": [0],
        "a": [0, 1],
        "b": [0, 1, 2, 3, 4],
    }
    assert pages == [["a", "b", "c"], ["b", "c"], ["b", "c"]]


def described(found: dict[str, list[int]]) -> list[DescribeTopicPartitionsResponseTopic]:
    return [
        DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=bytes(16),
            partitions=[
                DescribeTopicPartitionsResponsePartition(
                    partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1], offline_replicas=[]
                )
                for index in indexes
            ],
        )
        for name, indexes in found.items()
    ]


def test_one_offset_that_cannot_be_told_is_the_groups_error() -> None:
    cluster = ScriptedCluster()
    cluster.coordinates({"a": 1})
    codes = [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    def fetch(_: object, __: int) -> OffsetFetchResponse:
        partition = OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=-1, metadata="", error_code=codes.pop(0)
        )
        group = OffsetFetchResponseGroup(
            group_id="a", topics=[OffsetFetchResponseTopics(name="orders", partitions=[partition])]
        )
        return OffsetFetchResponse(groups=[group])

    cluster.on(ApiKey.OFFSET_FETCH, fetch)
    found = asyncio.run(admin_of(cluster).list_group_offsets(["a"], require_stable=True))
    assert [error.code for error in found.errors.values()] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    # The ids that version 10 wants are not what the caller has.
    assert (ApiKey.OFFSET_FETCH, 9) in cluster.versions_used


def test_producers_are_fenced_one_by_one_and_once_their_transactions_have_ended() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.coordinates({"x": 1, "y": 2})
    codes = {"x": [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE], "y": [ErrorCode.NONE]}
    cluster.on(
        ApiKey.INIT_PRODUCER_ID,
        lambda request, broker: InitProducerIdResponse(
            error_code=codes[request.transactional_id].pop(0), producer_id=broker, producer_epoch=3
        ),
    )
    found = asyncio.run(admin_of(cluster).fence_producers(["x", "y"]))
    assert {key: (one.producer_id, one.producer_epoch) for key, one in found.items()} == {"x": (1, 3), "y": (2, 3)}
    assert all(
        request.key_type == CoordinatorKind.TRANSACTION for _, request in requests(cluster, ApiKey.FIND_COORDINATOR)
    )


def test_a_transaction_is_aborted_at_the_leader_of_its_partition() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.leads({"orders": [2]})
    codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH]

    def write(_: object, __: int) -> WriteTxnMarkersResponse:
        result = WritableTxnMarkerPartitionResult(partition_index=0, error_code=codes.pop(0))
        topic = WritableTxnMarkerTopicResult(name="orders", partitions=[result])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=5, topics=[topic])])

    cluster.on(ApiKey.WRITE_TXN_MARKERS, write)
    hanging = AbortTransaction(FIRST, producer_id=5, producer_epoch=3, coordinator_epoch=9)
    asyncio.run(admin_of(cluster).abort_transaction(hanging))
    broker, request = requests(cluster, ApiKey.WRITE_TXN_MARKERS)[-1]
    (marker,) = request.markers
    assert broker == 2
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (5, 3, 9)
    assert marker.transaction_result is False
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        asyncio.run(admin_of(cluster).abort_transaction(hanging))


def test_a_replica_that_moves_is_in_two_directories() -> None:
    cluster = ScriptedCluster()

    def directory(path: str, lag: int, is_future: bool) -> DescribeLogDirsResult:
        partition = DescribeLogDirsPartition(
            partition_index=0, partition_size=10, offset_lag=lag, is_future_key=is_future
        )
        return DescribeLogDirsResult(log_dir=path, topics=[DescribeLogDirsTopic(name="orders", partitions=[partition])])

    failed = DescribeLogDirsResult(log_dir="/c", error_code=ErrorCode.KAFKA_STORAGE_ERROR, topics=[])
    results = [directory("/b", 7, True), directory("/a", 0, False), failed]
    cluster.on(ApiKey.DESCRIBE_LOG_DIRS, lambda _, __: DescribeLogDirsResponse(results=results))
    admin = admin_of(cluster)
    replica = Replica("orders", 0, 1)
    place = asyncio.run(admin.describe_replica_log_dirs([replica]))[replica]
    assert (place.path, place.offset_lag, place.future_path, place.future_offset_lag) == ("/a", 0, "/b", 7)
    directories = asyncio.run(admin.describe_log_dirs([1]))[1]
    assert directories["/a"].error is None
    assert directories["/c"].error is not None
    assert directories["/a"].total_bytes is None
