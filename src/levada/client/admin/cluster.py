"""The cluster as a whole: its brokers, its features, its quorum of controllers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from levada.client.admin.kinds import AclOperation, UpgradeType, authorized_operations
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import BROKER_FAULTS, BrokerAnswer, Question, check, verdict
from levada.client.cluster import NO_NODE
from levada.client.cluster.node import SOFTWARE_NAME, SOFTWARE_VERSION
from levada.client.errors import KafkaError
from levada.model.hashes import uuid_to_text
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from levada.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from levada.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

METADATA_TOPIC = "__cluster_metadata"
FENCED_SINCE = 2
CLUSTER_OPERATIONS_UNTIL = 10
"""Metadata told them up to here."""


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False
    """Registered, but not in service."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: int | None
    """With KRaft any broker, which passes on what is for the controller."""
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: frozenset[AclOperation] | None


@dataclass(frozen=True, slots=True)
class VersionRange:
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Features:
    """What the brokers could do, and what they have agreed to do."""

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int | None
    supported: Mapping[str, VersionRange]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level a feature shall have; 0 turns it off."""

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    replica_id: int
    directory_id: str | None
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controllers that keep the cluster's metadata."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    listeners: Mapping[int, tuple[tuple[str, str, int], ...]]
    """Name, host and port of each voter's listeners."""


class ClusterPart(AdminPart):
    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout_ms: float | None = None,
    ) -> ClusterDescription:
        """The cluster's id, its brokers, and which of them to ask for what the controller decides.

        >>> len((await admin.describe_cluster()).brokers)
        1
        """
        older: Question[str, ClusterDescription, MetadataResponse] = Question(
            what="to describe the cluster",
            route=self._routing.any,
            request=lambda _, __: MetadataRequest(
                topics=[],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=include_authorized_operations,
            ),
            read=lambda answer: {answer.items[0]: _by_metadata(answer.response)},
            at_least=1,
            at_most=CLUSTER_OPERATIONS_UNTIL,
        )
        question: Question[str, ClusterDescription, DescribeClusterResponse] = Question(
            what=older.what,
            route=self._routing.any,
            request=lambda _, __: DescribeClusterRequest(
                include_cluster_authorized_operations=include_authorized_operations,
                include_fenced_brokers=include_fenced_brokers,
            ),
            read=lambda answer: {answer.items[0]: _read_cluster(answer.response)},
            at_least=FENCED_SINCE if include_fenced_brokers else 0,
            older=None if include_fenced_brokers else older,
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))

    async def describe_features(self, *, broker: int | None = None, timeout_ms: float | None = None) -> Features:
        """The levels of features such as `metadata.version` and `transaction.version`, as one broker knows them."""
        question: Question[str, Features, ApiVersionsResponse] = Question(
            what="to describe features",
            route=self._routing.brokers(lambda _: broker),
            request=lambda _, __: _versions_request(),
            read=lambda answer: {answer.items[0]: _read_features(answer.response)},
            passing=BROKER_FAULTS,
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))

    async def describe_api_versions(
        self, brokers: Iterable[int] | None = None, *, timeout_ms: float | None = None
    ) -> Outcomes[int, dict[int, VersionRange]]:
        """The requests that brokers serve, or all brokers, by their API keys.

        >>> (await admin.describe_api_versions([1]))[1][18]
        VersionRange(lowest=0, highest=4)
        """
        deadline = self._requests.deadline(timeout_ms)
        question: Question[int, dict[int, VersionRange], ApiVersionsResponse] = Question(
            what="to describe the requests served",
            route=self._routing.brokers(lambda broker: broker),
            request=lambda _, __: _versions_request(),
            read=lambda answer: {answer.items[0]: _read_versions(answer.response)},
            passing=BROKER_FAULTS,
        )
        ids = await self._requests.broker_ids(deadline) if brokers is None else list(brokers)
        return await self._requests.each(ids, question, deadline)

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, None]:
        """Raise or lower the levels of features, all of them or none."""

        def request(left_ms: int, *, is_old: bool) -> UpdateFeaturesRequest:
            return UpdateFeaturesRequest(
                timeout_ms=left_ms,
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=update.level,
                        allow_downgrade=is_old and update.upgrade_type != UpgradeType.UPGRADE,
                        upgrade_type=UpgradeType.UPGRADE if is_old else update.upgrade_type,
                    )
                    for name, update in updates.items()
                ],
                validate_only=validate_only,
            )

        older: Question[str, None, UpdateFeaturesResponse] = Question(
            what="to update features",
            route=self._routing.controller,
            request=lambda _, left_ms: request(left_ms, is_old=True),
            read=_read_updated,
            at_most=0,
        )
        question: Question[str, None, UpdateFeaturesResponse] = Question(
            what=older.what,
            route=self._routing.controller,
            request=lambda _, left_ms: request(left_ms, is_old=False),
            read=_read_updated,
            at_least=1,
            older=None if validate_only else older,
        )
        return await self._requests.each(updates, question, self._requests.deadline(timeout_ms))

    async def unregister_broker(self, broker_id: int, *, timeout_ms: float | None = None) -> None:
        """Forget a broker that is gone for good."""

        def read(answer: BrokerAnswer[str, UnregisterBrokerResponse]) -> dict[str, KafkaError | None]:
            response = answer.response
            outcome = verdict(response.error_code, response.error_message, f"broker {broker_id}", None)
            return {answer.items[0]: outcome}

        question: Question[str, None, UnregisterBrokerResponse] = Question(
            what="to unregister a broker",
            route=self._routing.any,
            request=lambda _, __: UnregisterBrokerRequest(broker_id=broker_id),
            read=read,
        )
        await self._requests.one(question, self._requests.deadline(timeout_ms))

    async def describe_quorum(self, *, timeout_ms: float | None = None) -> Quorum:
        """The controllers' leader, and how far the others are behind it."""
        question: Question[str, Quorum, DescribeQuorumResponse] = Question(
            what="to describe the quorum",
            route=self._routing.any,
            request=lambda _, __: DescribeQuorumRequest(
                topics=[
                    RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
                ]
            ),
            read=lambda answer: {answer.items[0]: _read_quorum(answer.response)},
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))


def _read_cluster(response: DescribeClusterResponse) -> ClusterDescription:
    check(response.error_code, response.error_message, context="to describe the cluster")
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=None if response.controller_id == NO_NODE else response.controller_id,
        brokers=tuple(
            BrokerDescription(one.broker_id, one.host, one.port, one.rack, one.is_fenced)
            for one in sorted(response.brokers, key=lambda one: one.broker_id)
        ),
        authorized_operations=authorized_operations(response.cluster_authorized_operations),
    )


def _by_metadata(response: MetadataResponse) -> ClusterDescription:
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=None if response.controller_id == NO_NODE else response.controller_id,
        brokers=tuple(
            BrokerDescription(one.node_id, one.host, one.port, one.rack)
            for one in sorted(response.brokers, key=lambda one: one.node_id)
        ),
        authorized_operations=authorized_operations(response.cluster_authorized_operations),
    )


def _versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)


def _read_versions(response: ApiVersionsResponse) -> dict[int, VersionRange]:
    check(response.error_code, context="to describe the requests served")
    return {one.api_key: VersionRange(one.min_version, one.max_version) for one in response.api_keys}


def _read_features(response: ApiVersionsResponse) -> Features:
    check(response.error_code, context="to describe features")
    epoch = response.finalized_features_epoch
    return Features(
        finalized={
            one.name: VersionRange(one.min_version_level, one.max_version_level) for one in response.finalized_features
        },
        finalized_epoch=None if epoch < 0 else epoch,
        supported={one.name: VersionRange(one.min_version, one.max_version) for one in response.supported_features},
    )


def _read_updated(answer: BrokerAnswer[str, UpdateFeaturesResponse]) -> dict[str, KafkaError | None]:
    """Newer brokers do all or nothing, and say once how it went."""
    response = answer.response
    check(response.error_code, response.error_message, context="to update features")
    found: dict[str, KafkaError | None] = dict.fromkeys(answer.items)
    for result in response.results:
        found[result.feature] = verdict(result.error_code, result.error_message, result.feature, None)
    return found


def _read_quorum(response: DescribeQuorumResponse) -> Quorum:
    context = "to describe the quorum"
    check(response.error_code, response.error_message, context=context)
    (partition,) = (one for topic in response.topics for one in topic.partitions)
    check(partition.error_code, partition.error_message, context=context)
    return Quorum(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        high_watermark=partition.high_watermark,
        voters=tuple(_quorum_replica(one) for one in partition.current_voters),
        observers=tuple(_quorum_replica(one) for one in partition.observers),
        listeners={
            node.node_id: tuple((one.name, one.host, one.port) for one in node.listeners) for node in response.nodes
        },
    )


def _quorum_replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        replica_id=state.replica_id,
        directory_id=None if state.replica_directory_id == NO_UUID else uuid_to_text(state.replica_directory_id),
        log_end_offset=state.log_end_offset,
        last_fetch_ms=None if state.last_fetch_timestamp < 0 else state.last_fetch_timestamp,
        last_caught_up_ms=None if state.last_caught_up_timestamp < 0 else state.last_caught_up_timestamp,
    )
