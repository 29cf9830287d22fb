"""Brokers of other ages: asked in the newest form they know, and told from those that lack what is wanted."""

import asyncio

import pytest

from levada.client.admin import (
    ConfigKind,
    ConfigResource,
    FeatureUpdate,
    IsolationLevel,
    NewTopic,
    OffsetSpec,
    TopicId,
    UpgradeType,
)
from levada.client.errors import UnsupportedVersion
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.protocol.api import ApiKey
from levada.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from levada.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from levada.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from levada.protocol.messages.list_config_resources import ConfigResource as ListedResource
from levada.protocol.messages.list_config_resources import ListConfigResourcesResponse
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from levada.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from levada.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from levada.protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse
from tests.unit.client.admin.scripted import ScriptedCluster, admin_of

NONE = range(0)
FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


def test_topics_are_described_by_metadata_where_there_is_nothing_better() -> None:
    cluster = ScriptedCluster(versions={ApiKey.DESCRIBE_TOPIC_PARTITIONS: NONE, ApiKey.METADATA: range(5)})
    cluster.leads({"orders": [1, -1]})
    found = asyncio.run(admin_of(cluster).describe_topics(["orders", "nowhere"]))
    assert [(one.leader, one.leader_epoch) for one in found["orders"].partitions] == [(1, None), (None, None)]
    assert found["orders"].topic_id is None
    assert found["orders"].authorized_operations is None
    assert list(found.errors) == ["nowhere"]


def test_topics_are_not_described_by_id_where_brokers_know_no_ids() -> None:
    cluster = ScriptedCluster(versions={ApiKey.METADATA: range(12)})
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin_of(cluster).describe_topics([TopicId(bytes(15) + b"1")]))


def test_topics_are_deleted_by_name_before_there_were_ids() -> None:
    cluster = ScriptedCluster(versions={ApiKey.DELETE_TOPICS: range(1, 6)})
    cluster.on(
        ApiKey.DELETE_TOPICS,
        lambda request, _: DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=name) for name in request.topic_names]
        ),
    )
    admin = admin_of(cluster)
    assert list(asyncio.run(admin.delete_topics(["a", "b"])).done) == ["a", "b"]
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin.delete_topics(["a", TopicId(bytes(15) + b"1")]))


def test_the_brokers_defaults_are_asked_for_only_where_brokers_have_them() -> None:
    cluster = ScriptedCluster(versions={ApiKey.CREATE_TOPICS: range(2, 4)})
    cluster.on(
        ApiKey.CREATE_TOPICS,
        lambda request, _: CreateTopicsResponse(
            topics=[CreatableTopicResult(name=topic.name, error_message=None) for topic in request.topics]
        ),
    )
    admin = admin_of(cluster)
    created = asyncio.run(admin.create_topics([NewTopic("orders", 3, 1)]))["orders"]
    assert (created.topic_id, created.partitions, created.configs) == (None, -1, None)
    asyncio.run(admin.create_topics([NewTopic("placed", assignments={0: [1]})])).raise_any()
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin.create_topics([NewTopic("orders", 3)]))


def test_what_an_old_broker_cannot_find_does_not_keep_the_other_offsets() -> None:
    cluster = ScriptedCluster(versions={ApiKey.LIST_OFFSETS: range(1, 7)})
    cluster.leads({"orders": [1, 1]})
    cluster.on(
        ApiKey.LIST_OFFSETS,
        lambda _, __: ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="orders", partitions=[ListOffsetsPartitionResponse(partition_index=0, offset=7)]
                )
            ]
        ),
    )
    admin = admin_of(cluster)
    found = asyncio.run(admin.list_offsets({SECOND: OffsetSpec.MAX_TIMESTAMP, FIRST: OffsetSpec.LATEST}))
    assert list(found) == [SECOND, FIRST]
    assert found[FIRST].offset == 7
    assert [type(error) for error in found.errors.values()] == [UnsupportedVersion]


def test_what_is_committed_is_not_asked_of_brokers_that_do_not_know() -> None:
    cluster = ScriptedCluster(versions={ApiKey.LIST_OFFSETS: range(1, 2)})
    cluster.leads({"orders": [1]})
    with pytest.raises(UnsupportedVersion):
        asyncio.run(
            admin_of(cluster).list_offsets({FIRST: OffsetSpec.LATEST}, isolation_level=IsolationLevel.READ_COMMITTED)
        )


def test_offsets_of_many_groups_are_asked_for_one_by_one_and_coordinators_too() -> None:
    cluster = ScriptedCluster(brokers=2, versions={ApiKey.OFFSET_FETCH: range(1, 8), ApiKey.FIND_COORDINATOR: range(4)})
    cluster.coordinates({"a": 1, "b": 2, "c": 1})
    cluster.on(
        ApiKey.OFFSET_FETCH,
        lambda request, broker: OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name="orders",
                    partitions=[
                        OffsetFetchResponsePartition(partition_index=0, committed_offset=broker, metadata=None),
                        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=""),
                    ],
                )
            ]
        ),
    )
    found = asyncio.run(admin_of(cluster).list_group_offsets({"a": None, "b": [FIRST, SECOND], "c": None}))
    assert {group: offsets[FIRST] for group, offsets in found.items()} == {
        "a": OffsetAndMetadata(1),
        "b": OffsetAndMetadata(2),
        "c": OffsetAndMetadata(1),
    }
    assert found["a"][SECOND] is None
    asked = {request.group_id: request.topics for _, request in cluster.asked if request.api_key == ApiKey.OFFSET_FETCH}
    assert asked["a"] is None
    assert [topic.partition_indexes for topic in asked["b"]] == [[0, 1]]


def test_stable_offsets_are_not_asked_of_brokers_that_do_not_know() -> None:
    cluster = ScriptedCluster(versions={ApiKey.OFFSET_FETCH: range(1, 7)})
    cluster.coordinates({"a": 1})
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin_of(cluster).list_group_offsets(["a"], require_stable=True))


def test_groups_are_classic_where_there_is_no_other_protocol() -> None:
    cluster = ScriptedCluster(versions={ApiKey.CONSUMER_GROUP_DESCRIBE: NONE, ApiKey.DESCRIBE_GROUPS: range(3)})
    cluster.coordinates({"a": 1})
    group = DescribedGroup(group_id="a", group_state="Stable", protocol_type="consumer", protocol_data="", members=[])
    cluster.on(ApiKey.DESCRIBE_GROUPS, lambda _, __: DescribeGroupsResponse(groups=[group]))
    admin = admin_of(cluster)
    assert asyncio.run(admin.describe_consumer_groups(["a"]))["a"].authorized_operations is None
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin.describe_consumer_groups(["a"], include_authorized_operations=True))


def test_the_cluster_is_described_by_metadata_where_there_is_nothing_better() -> None:
    cluster = ScriptedCluster(versions={ApiKey.DESCRIBE_CLUSTER: NONE})
    cluster.on(
        ApiKey.METADATA,
        lambda _, __: MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=number, host="h", port=9, rack="r") for number in (2, 1)],
            cluster_id="c",
            controller_id=2,
            topics=[],
            cluster_authorized_operations=1 << 5,
        ),
    )
    admin = admin_of(cluster)
    found = asyncio.run(admin.describe_cluster(include_authorized_operations=True))
    assert (found.cluster_id, found.controller_id) == ("c", 2)
    assert [one.broker_id for one in found.brokers] == [1, 2]
    assert [one.name for one in found.authorized_operations or ()] == ["CREATE"]
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin.describe_cluster(include_fenced_brokers=True))


def test_old_brokers_list_client_metrics_only() -> None:
    cluster = ScriptedCluster(versions={ApiKey.LIST_CONFIG_RESOURCES: range(1)})
    listed = ListConfigResourcesResponse(config_resources=[ListedResource(resource_name="lag")])
    cluster.on(ApiKey.LIST_CONFIG_RESOURCES, lambda _, __: listed)
    admin = admin_of(cluster)
    metrics = ConfigKind.CLIENT_METRICS
    assert asyncio.run(admin.list_config_resources([metrics])) == [ConfigResource(metrics, "lag")]
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin.list_config_resources())


def test_new_brokers_are_asked_for_client_metrics_by_kind() -> None:
    cluster = ScriptedCluster()
    cluster.on(ApiKey.LIST_CONFIG_RESOURCES, lambda _, __: ListConfigResourcesResponse(config_resources=[]))
    asyncio.run(admin_of(cluster).list_config_resources([ConfigKind.CLIENT_METRICS]))
    ((_, request),) = cluster.asked
    assert request.resource_types == [ConfigKind.CLIENT_METRICS]


def test_features_are_updated_in_the_old_form_which_has_no_validation() -> None:
    cluster = ScriptedCluster(versions={ApiKey.UPDATE_FEATURES: range(1)})
    asked = []

    def update(request: object, _: int) -> UpdateFeaturesResponse:
        asked.append(request)
        results = [
            UpdatableFeatureResult(feature="a", error_message=None),
            UpdatableFeatureResult(feature="b", error_code=96, error_message="no"),
        ]
        return UpdateFeaturesResponse(error_message=None, results=results)

    cluster.on(ApiKey.UPDATE_FEATURES, update)
    admin = admin_of(cluster)
    updates = {"a": FeatureUpdate(2), "b": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)}
    found = asyncio.run(admin.update_features(updates))
    assert (list(found.done), list(found.errors)) == (["a"], ["b"])
    assert [one.allow_downgrade for one in asked[0].feature_updates] == [False, True]  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedVersion):
        asyncio.run(admin.update_features(updates, validate_only=True))


def test_an_api_that_is_not_served_is_an_error_of_the_whole_call() -> None:
    cluster = ScriptedCluster(versions=dict.fromkeys((ApiKey.DESCRIBE_QUORUM, ApiKey.DELETE_GROUPS), NONE))
    cluster.coordinates({"a": 1})
    for call in (admin_of(cluster).describe_quorum(), admin_of(cluster).delete_groups(["a"])):
        with pytest.raises(UnsupportedVersion):
            asyncio.run(call)


def test_a_partition_without_a_leader_is_waited_for() -> None:
    cluster = ScriptedCluster()
    leaders = iter([-1, 1])

    def describe(_: object, __: int) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=next(leaders), replica_nodes=[1], isr_nodes=[1]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)],
            topics=[MetadataResponseTopic(name="orders", partitions=[partition])],
        )

    cluster.on(ApiKey.METADATA, describe)
    cluster.on(
        ApiKey.LIST_OFFSETS,
        lambda _, __: ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="orders", partitions=[ListOffsetsPartitionResponse(partition_index=0, offset=7)]
                )
            ]
        ),
    )
    assert asyncio.run(admin_of(cluster).list_offsets({FIRST: OffsetSpec.LATEST}))[FIRST].offset == 7


def test_an_offset_that_cannot_be_named_is_refused() -> None:
    with pytest.raises(ValueError, match="-77"):
        asyncio.run(admin_of(ScriptedCluster()).list_offsets({FIRST: -77}))
