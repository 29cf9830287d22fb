"""Cases about the cluster: versions and features, brokers, coordinators, and metadata of topics."""

from levada.protocol.api import ApiKey
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.describe_cluster import DescribeClusterRequest
from levada.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.interop.differential.cases import EVERY, UNKNOWN_ID, Case, Side, Table, since, until
from tests.interop.differential.requests import metadata


def _software(name: str, version: str) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


API_VERSIONS = Table(
    "ApiVersions",
    ApiKey.API_VERSIONS,
    [
        Case("plain", lambda _: ApiVersionsRequest(), versions=until(2)),
        Case("named software", lambda _: _software("levada", "1.0"), versions=since(3)),
        Case("software without a name", lambda _: _software("", "1.0"), versions=since(3)),
        Case("software with an illegal name", lambda _: _software("-levada", "1.0"), versions=since(3)),
        Case("software with an illegal version", lambda _: _software("levada", "1.0 beta"), versions=since(3)),
    ],
)


def _by_id(topic_id: bytes, name: str | None = None) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=name)], allow_auto_topic_creation=False)


def _by_ids(*topic_ids: bytes, operations: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
    )


def _mixed(side: Side) -> MetadataRequest:
    request = _by_ids(side.topic_id("meta-a"))
    assert request.topics is not None
    request.topics += metadata("meta-a", "meta-b").topics or []
    return request


METADATA = Table(
    "Metadata",
    ApiKey.METADATA,
    [
        Case("all topics", lambda _: MetadataRequest(topics=None), versions=since(1)),
        Case("no topics", lambda _: MetadataRequest(topics=[]), versions=EVERY),
        Case("by name", lambda _: metadata("meta-a"), versions=since(4)),
        Case(
            "by name, old", lambda _: MetadataRequest(topics=[MetadataRequestTopic(name="meta-a")]), versions=until(3)
        ),
        Case("two names", lambda _: metadata("meta-a", "meta-b"), versions=since(4)),
        Case("a name twice", lambda _: metadata("meta-a", "meta-a"), versions=since(4)),
        Case("unknown name", lambda _: metadata("meta-none"), versions=since(4)),
        Case("unknown name twice", lambda _: metadata("meta-none", "meta-none"), versions=since(4)),
        Case("known and unknown name", lambda _: metadata("meta-a", "meta-none"), versions=since(4)),
        Case("illegal name", lambda _: metadata("meta/none"), versions=since(4)),
        Case("empty name", lambda _: metadata(""), versions=since(4)),
        Case("name of dots", lambda _: metadata(".."), versions=since(4)),
        Case("name too long", lambda _: metadata("m" * 250), versions=since(4)),
        Case("null name without id", lambda _: metadata(None), versions=since(10)),
        Case("by id", lambda side: _by_id(side.topic_id("meta-a")), versions=since(10)),
        Case("unknown id", lambda _: _by_id(UNKNOWN_ID), versions=since(10)),
        Case("id and name", lambda side: _by_id(side.topic_id("meta-a"), "meta-a"), versions=since(10)),
        Case("id and another name", lambda side: _by_id(side.topic_id("meta-a"), "meta-b"), versions=since(10)),
        Case("unknown id and a name", lambda _: _by_id(UNKNOWN_ID, "meta-a"), versions=since(10)),
        Case("an id twice", lambda side: _by_ids(side.topic_id("meta-a"), side.topic_id("meta-a")), versions=since(12)),
        Case("unknown id twice", lambda _: _by_ids(UNKNOWN_ID, UNKNOWN_ID), versions=since(12)),
        Case("by id and by name", lambda side: _mixed(side), versions=since(12)),
        Case("internal name that is not there", lambda _: metadata("__consumer_offsets"), versions=since(4)),
        Case("operations of topics", lambda _: metadata("meta-a", operations=True), versions=since(8)),
        Case("operations of an unknown topic", lambda _: metadata("meta-none", operations=True), versions=since(8)),
        Case("operations of an illegal topic", lambda _: metadata("meta/none", operations=True), versions=since(8)),
        Case("operations by id", lambda side: _by_ids(side.topic_id("meta-a"), operations=True), versions=since(12)),
        Case("operations of an unknown id", lambda _: _by_ids(UNKNOWN_ID, operations=True), versions=since(12)),
        Case(
            "operations of the cluster",
            lambda _: MetadataRequest(topics=[], include_cluster_authorized_operations=True),
            versions=range(8, 11),
        ),
        Case("creation of an illegal name", lambda _: metadata("meta/none", may_create=True), versions=since(4)),
        Case("creation of a colliding name", lambda _: metadata("meta.c", may_create=True), may_settle=False),
        Case(
            "creation of a name", lambda side: metadata(f"meta-new-{side.version}", may_create=True), may_settle=False
        ),
        Case("created before", lambda side: metadata(f"meta-new-{side.version}", may_create=True)),
        Case("name of __cluster_metadata", lambda _: metadata("__cluster_metadata", may_create=True), may_settle=False),
    ],
    topics={"meta-a": {}, "meta-b": {}, "meta_c": {}},
)


def _partitions(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


DESCRIBE_TOPIC_PARTITIONS = Table(
    "DescribeTopicPartitions",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    [
        Case("one topic", lambda _: _partitions("pages-a")),
        Case("two topics", lambda _: _partitions("pages-b", "pages-a")),
        Case("a topic twice", lambda _: _partitions("pages-a", "pages-a")),
        Case("all topics", lambda _: _partitions()),
        Case("unknown topic", lambda _: _partitions("pages-none")),
        Case("illegal topic", lambda _: _partitions("pages/none")),
        Case("known and unknown topic", lambda _: _partitions("pages-a", "pages-none")),
        Case("limit of 1", lambda _: _partitions("pages-a", "pages-b", limit=1)),
        Case("limit of 2", lambda _: _partitions("pages-a", "pages-b", limit=2)),
        Case("limit of 3", lambda _: _partitions("pages-a", "pages-b", limit=3)),
        Case("limit of 4", lambda _: _partitions("pages-a", "pages-b", limit=4)),
        Case("limit of 0", lambda _: _partitions("pages-a", "pages-b", limit=0)),
        Case("negative limit", lambda _: _partitions("pages-a", limit=-1)),
        Case("unknown topic behind the limit", lambda _: _partitions("pages-a", "pages-none", limit=2)),
        Case("cursor inside", lambda _: _partitions("pages-a", "pages-b", cursor=("pages-a", 1))),
        Case("cursor inside, limit", lambda _: _partitions("pages-a", "pages-b", cursor=("pages-a", 1), limit=2)),
        Case("cursor at the second", lambda _: _partitions("pages-a", "pages-b", cursor=("pages-b", 0))),
        Case("cursor at the end of a topic", lambda _: _partitions("pages-a", "pages-b", cursor=("pages-a", 2))),
        Case("cursor beyond a topic", lambda _: _partitions("pages-a", "pages-b", cursor=("pages-a", 7))),
        Case("cursor at an unknown topic", lambda _: _partitions("pages-a", "pages-b", cursor=("pages-aa", 1))),
        Case("cursor behind all topics", lambda _: _partitions("pages-a", "pages-b", cursor=("pages-z", 0))),
        Case("cursor among all topics", lambda _: _partitions(cursor=("pages-b", 1))),
        Case("cursor at an unknown one among all", lambda _: _partitions(cursor=("pages-aa", 1))),
        Case("negative cursor", lambda _: _partitions("pages-a", cursor=("pages-a", -1))),
        Case("negative cursor among all", lambda _: _partitions(cursor=("pages-a", -1))),
        Case("internal topic that is not there", lambda _: _partitions("__consumer_offsets")),
    ],
    topics={"pages-a": {}, "pages-b": {}},
)


def _cluster(endpoint_type: int = 1, *, operations: bool = False, fenced: bool = False) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=fenced
    )


DESCRIBE_CLUSTER = Table(
    "DescribeCluster",
    ApiKey.DESCRIBE_CLUSTER,
    [
        Case("brokers", lambda _: _cluster(), versions=EVERY),
        Case("with operations", lambda _: _cluster(operations=True), versions=EVERY),
        Case("controllers", lambda _: _cluster(2), versions=since(1)),
        Case("controllers with operations", lambda _: _cluster(2, operations=True), versions=since(1)),
        Case("unknown endpoints", lambda _: _cluster(0), versions=since(1)),
        Case("more unknown endpoints", lambda _: _cluster(9, operations=True), versions=since(1)),
        Case("with fenced brokers", lambda _: _cluster(fenced=True), versions=since(2)),
        Case("fenced controllers", lambda _: _cluster(2, fenced=True), versions=since(2)),
    ],
)

UNREGISTER_BROKER = Table(
    "UnregisterBroker",
    ApiKey.UNREGISTER_BROKER,
    [
        Case("unknown id", lambda _: UnregisterBrokerRequest(broker_id=77)),
        Case("negative id", lambda _: UnregisterBrokerRequest(broker_id=-1)),
    ],
)


def _coordinator(side: Side, *keys: str, kind: int = 0) -> FindCoordinatorRequest:
    if side.version >= 4:
        return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
    return FindCoordinatorRequest(key_type=kind, key=keys[0])


FIND_COORDINATOR = Table(
    "FindCoordinator",
    ApiKey.FIND_COORDINATOR,
    [
        Case("of a group", lambda side: _coordinator(side, "readers"), versions=EVERY),
        Case("of two groups", lambda side: _coordinator(side, "readers", "others"), versions=since(4)),
        Case("of a group twice", lambda side: _coordinator(side, "readers", "readers"), versions=since(4)),
        Case("of no group", lambda side: _coordinator(side), versions=since(4)),
        Case("of a group without a name", lambda side: _coordinator(side, ""), versions=EVERY),
        Case("of an unknown kind", lambda side: _coordinator(side, "readers", kind=9), versions=since(1)),
        Case("of a share group, too early", lambda side: _coordinator(side, "shared", kind=2), versions=(1, 3, 4, 5)),
        Case("of a share group, badly named", lambda side: _coordinator(side, "shared", kind=2), versions=since(6)),
    ],
)
