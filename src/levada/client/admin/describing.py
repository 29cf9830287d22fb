"""Topics as they are: their names, and each with its partitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levada.client.admin.ids import TopicId
from levada.client.admin.kinds import AclOperation, authorized_operations
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import BrokerAnswer, Question, conclude, verdict
from levada.client.cluster import NO_NODE, Deadline
from levada.client.errors import KafkaError, UnsupportedVersion, error_for
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    ResponseCursor,
    TopicRequest,
)
from levada.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NAMELESS_SINCE = 12
"""Metadata by id works from here on."""
PAGE_PARTITIONS = 2_000


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    topic_id: TopicId | None
    """None from brokers that are too old to know ids."""
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    index: int
    leader: int | None
    """The broker that leads it; None while none can."""
    leader_epoch: int | None
    replicas: tuple[int, ...]
    """The preferred leader first."""
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    eligible_leaders: tuple[int, ...] | None = None
    """Out of sync, yet with every committed record (KIP-966); None where the broker does not tell."""
    last_known_eligible_leaders: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: TopicId | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    """By their numbers."""
    authorized_operations: frozenset[AclOperation] | None
    """None where it was not asked for."""


class DescribingPart(AdminPart):
    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> dict[str, TopicListing]:
        """All topics that this client may see.

        >>> (await admin.list_topics())["orders"].is_internal
        False
        """

        def read(answer: BrokerAnswer[str, MetadataResponse]) -> dict[str, dict[str, TopicListing]]:
            response = answer.response
            listings = [
                TopicListing(topic.name, _id(topic.topic_id), topic.is_internal)
                for topic in response.topics
                if topic.name is not None
            ]
            return {answer.items[0]: {one.name: one for one in listings if include_internal or not one.is_internal}}

        question: Question[str, dict[str, TopicListing], MetadataResponse] = Question(
            what="to list topics",
            route=self._routing.any,
            request=lambda _, __: MetadataRequest(topics=None, allow_auto_topic_creation=False),
            read=read,
            at_least=1,
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))

    async def describe_topics(
        self,
        topics: Iterable[str | TopicId],
        *,
        include_authorized_operations: bool = False,
        partitions_per_page: int = PAGE_PARTITIONS,
        timeout_ms: float | None = None,
    ) -> Outcomes[str | TopicId, TopicDescription]:
        """Topics with their partitions, by name or by id; brokers that can tell of so many partitions at a time.

        >>> (await admin.describe_topics(["orders"]))["orders"].partitions[0].leader
        1
        """
        wanted = list(dict.fromkeys(topics))
        deadline = self._requests.deadline(timeout_ms)
        found: dict[str | TopicId, TopicDescription | KafkaError] = {}
        names = [item for item in wanted if isinstance(item, str)]
        left: list[str | TopicId] = [item for item in wanted if not isinstance(item, str)]
        if names:
            try:
                pages = self._describe_in_pages(names, include_authorized_operations, partitions_per_page, deadline)
                found.update(await pages)
            except UnsupportedVersion:
                left = list(wanted)
        if left:
            found.update(await self._describe_by_metadata(left, include_authorized_operations, deadline))
        return conclude({item: found[item] for item in wanted})

    async def _describe_in_pages(
        self, names: Sequence[str], include_authorized_operations: bool, limit: int, deadline: Deadline
    ) -> dict[str, TopicDescription | KafkaError]:
        """As brokers from Kafka 4.0 on answer (KIP-966)."""
        left = sorted(names)
        cursor: ResponseCursor | None = None
        parts: dict[str, DescribeTopicPartitionsResponseTopic] = {}
        while left:
            page = await self._requests.one(self._page(left, cursor, limit), deadline)
            for topic in page.topics:
                if topic.name is not None and topic.name in parts:
                    parts[topic.name].partitions.extend(topic.partitions)
                elif topic.name is not None:
                    parts[topic.name] = topic
            cursor = page.next_cursor
            if cursor is None:
                break
            from_name = cursor.topic_name
            left = [name for name in left if name >= from_name]
        nothing = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the broker says nothing about it")
        return {
            name: _in_pages(parts[name], include_authorized_operations) if name in parts else nothing for name in names
        }

    def _page(
        self, names: list[str], cursor: ResponseCursor | None, limit: int
    ) -> Question[str, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponse]:
        return Question(
            what="to describe topics",
            route=self._routing.any,
            request=lambda _, __: DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names],
                response_partition_limit=limit,
                cursor=None
                if cursor is None
                else RequestCursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index),
            ),
            read=lambda answer: {answer.items[0]: answer.response},
        )

    async def _describe_by_metadata(
        self, topics: Sequence[str | TopicId], include_authorized_operations: bool, deadline: Deadline
    ) -> dict[str | TopicId, TopicDescription | KafkaError]:
        def request(items: Sequence[str | TopicId], _: int) -> MetadataRequest:
            return MetadataRequest(
                topics=[
                    MetadataRequestTopic(name=item)
                    if isinstance(item, str)
                    else MetadataRequestTopic(name=None, topic_id=item)
                    for item in items
                ],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=include_authorized_operations,
            )

        question: Question[str | TopicId, TopicDescription, MetadataResponse] = Question(
            what="to describe topics",
            route=self._routing.any,
            request=request,
            read=_read_metadata,
            # Since version 4 a question does not create the topic.
            at_least=4 if all(isinstance(item, str) for item in topics) else NAMELESS_SINCE,
        )
        return await self._requests.settle(topics, question, deadline)


def _id(raw: bytes) -> TopicId | None:
    return None if raw == NO_UUID else TopicId(raw)


def _in_pages(
    topic: DescribeTopicPartitionsResponseTopic, include_authorized_operations: bool
) -> TopicDescription | KafkaError:
    if topic.error_code != ErrorCode.NONE:
        return error_for(topic.error_code, context=f"topic {topic.name}")
    assert topic.name is not None
    return TopicDescription(
        name=topic.name,
        topic_id=_id(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=tuple(
            _partition(
                one,
                None if one.eligible_leader_replicas is None else tuple(one.eligible_leader_replicas),
                None if one.last_known_elr is None else tuple(one.last_known_elr),
            )
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        ),
        # This API tells them always.
        authorized_operations=authorized_operations(topic.topic_authorized_operations)
        if include_authorized_operations
        else None,
    )


def _read_metadata(
    answer: BrokerAnswer[str | TopicId, MetadataResponse],
) -> dict[str | TopicId, TopicDescription | KafkaError]:
    response = answer.response
    found: dict[str | TopicId, TopicDescription | KafkaError] = {}
    for topic in response.topics:
        topic_id = TopicId(topic.topic_id)
        about = f"topic {topic.name or topic_id}"
        outcome = verdict(topic.error_code, None, about, _by_metadata(topic))
        found[topic_id] = outcome
        if topic.name is not None:
            found[topic.name] = outcome
    return found


def _by_metadata(topic: MetadataResponseTopic) -> TopicDescription:
    return TopicDescription(
        name=topic.name or "",
        topic_id=_id(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=tuple(_partition(one) for one in sorted(topic.partitions, key=lambda one: one.partition_index)),
        authorized_operations=authorized_operations(topic.topic_authorized_operations),
    )


def _partition(
    partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
    eligible_leaders: tuple[int, ...] | None = None,
    last_known_eligible_leaders: tuple[int, ...] | None = None,
) -> PartitionDescription:
    return PartitionDescription(
        index=partition.partition_index,
        leader=None if partition.leader_id == NO_NODE else partition.leader_id,
        leader_epoch=None if partition.leader_epoch < 0 else partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        in_sync=tuple(partition.isr_nodes),
        offline=tuple(partition.offline_replicas),
        eligible_leaders=eligible_leaders,
        last_known_eligible_leaders=last_known_eligible_leaders,
    )
