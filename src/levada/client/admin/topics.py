"""Topics: made, listed, described, given more partitions, deleted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from levada.client.admin.configs import ConfigEntry
from levada.client.admin.describing import DescribingPart
from levada.client.admin.ids import TopicId
from levada.client.admin.kinds import ConfigSource
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.request_router import CONTROLLER_FAULTS, QUOTA_FAULTS, BrokerAnswer, Question, verdict
from levada.client.errors import KafkaError
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from levada.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

DEFAULT = -1
"""Of partitions and replicas: as many as the broker has in num.partitions and default.replication.factor."""

DEFAULTS_SINCE = 4
IDS_SINCE = 6


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; the brokers' defaults decide what is left out.

    >>> NewTopic("orders", partitions=3, configs={"retention.ms": "86400000"}).partitions
    3
    """

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The brokers of each partition, the preferred leader first; the numbers above are left out then."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What the broker made of a NewTopic; old brokers, and those that may not tell, leave the numbers at -1."""

    name: str
    topic_id: TopicId | None
    partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry] | None
    """None where the broker does not tell them, or not this client."""


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic shall have in all, and who holds each of the new ones."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicsPart(DescribingPart):
    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, CreatedTopic]:
        """Create topics, or only see whether they could be.

        >>> created = await admin.create_topics([NewTopic("refunds", 3), NewTopic("no such/name")])
        >>> created["refunds"].partitions
        3
        >>> created.errors["no such/name"].code
        <ErrorCode.INVALID_TOPIC_EXCEPTION: 17>
        """
        wanted = _by_name(topics)

        def request(names: Sequence[str], left_ms: int) -> CreateTopicsRequest:
            return CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names], timeout_ms=left_ms, validate_only=validate_only
            )

        has_defaults = any(
            DEFAULT in (topic.partitions, topic.replication_factor) and not topic.assignments
            for topic in wanted.values()
        )
        question: Question[str, CreatedTopic, CreateTopicsResponse] = Question(
            what="to create topics",
            route=self._routing.controller,
            request=request,
            read=_read_created,
            passing=QUOTA_FAULTS if retry_on_quota_violation else CONTROLLER_FAULTS,
            at_least=DEFAULTS_SINCE if has_defaults else 0,
        )
        return await self._requests.each(wanted, question, self._requests.deadline(timeout_ms))

    async def delete_topics(
        self,
        topics: Iterable[str | TopicId],
        *,
        retry_on_quota_violation: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[str | TopicId, None]:
        """Delete topics by their names, or by their ids, which a topic of the same name made since does not have."""
        older: Question[str | TopicId, None, DeleteTopicsResponse] = Question(
            what="to delete topics",
            route=self._routing.controller,
            request=lambda items, left_ms: DeleteTopicsRequest(
                topic_names=[item for item in items if isinstance(item, str)], timeout_ms=left_ms
            ),
            read=_read_deleted,
            passing=QUOTA_FAULTS if retry_on_quota_violation else CONTROLLER_FAULTS,
            at_most=IDS_SINCE - 1,
        )
        wanted = list(topics)
        question: Question[str | TopicId, None, DeleteTopicsResponse] = Question(
            what=older.what,
            route=older.route,
            request=lambda items, left_ms: DeleteTopicsRequest(
                topics=[_deletable(item) for item in items], timeout_ms=left_ms
            ),
            read=_read_deleted,
            passing=older.passing,
            at_least=IDS_SINCE,
            older=older if all(isinstance(item, str) for item in wanted) else None,
        )
        return await self._requests.each(wanted, question, self._requests.deadline(timeout_ms))

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, None]:
        """Give topics more partitions: so many in all. Records stay where they are, so keys may move.

        >>> (await admin.create_partitions({"payments": 6})).raise_any()
        """

        def request(names: Sequence[str], left_ms: int) -> CreatePartitionsRequest:
            return CreatePartitionsRequest(
                topics=[_growing(name, totals[name]) for name in names],
                timeout_ms=left_ms,
                validate_only=validate_only,
            )

        question: Question[str, None, CreatePartitionsResponse] = Question(
            what="to create partitions",
            route=self._routing.controller,
            request=request,
            read=_read_grown,
            passing=QUOTA_FAULTS if retry_on_quota_violation else CONTROLLER_FAULTS,
        )
        return await self._requests.each(totals, question, self._requests.deadline(timeout_ms))


def _by_name(topics: Iterable[NewTopic]) -> dict[str, NewTopic]:
    wanted: dict[str, NewTopic] = {}
    for topic in topics:
        if topic.name in wanted:
            raise ValueError(f"topic {topic.name!r} is given twice")
        wanted[topic.name] = topic
    return wanted


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=DEFAULT if topic.assignments else topic.partitions,
        replication_factor=DEFAULT if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _read_created(answer: BrokerAnswer[str, CreateTopicsResponse]) -> dict[str, CreatedTopic | KafkaError]:
    response = answer.response
    return {
        topic.name: verdict(topic.error_code, topic.error_message, topic.name, _created(topic))
        for topic in response.topics
    }


def _created(topic: CreatableTopicResult) -> CreatedTopic:
    is_told = topic.topic_config_error_code == ErrorCode.NONE and topic.num_partitions != DEFAULT
    configs = {
        config.name: ConfigEntry(
            name=config.name,
            value=config.value,
            source=ConfigSource(config.config_source),
            is_read_only=config.read_only,
            is_sensitive=config.is_sensitive,
        )
        for config in topic.configs or ()
    }
    return CreatedTopic(
        name=topic.name,
        topic_id=None if topic.topic_id == NO_UUID else TopicId(topic.topic_id),
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=configs if is_told else None,
    )


def _deletable(item: str | TopicId) -> DeleteTopicState:
    if isinstance(item, str):
        return DeleteTopicState(name=item, topic_id=NO_UUID)
    return DeleteTopicState(name=None, topic_id=item)


def _read_deleted(answer: BrokerAnswer[str | TopicId, DeleteTopicsResponse]) -> dict[str | TopicId, KafkaError | None]:
    """A topic that was named by its id may come back under both names, and one that is unknown under one."""
    response = answer.response
    found: dict[str | TopicId, KafkaError | None] = {}
    for result in response.responses:
        topic_id = TopicId(result.topic_id)
        outcome = verdict(result.error_code, result.error_message, result.name or str(topic_id), None)
        found[topic_id] = outcome
        if result.name is not None:
            found[result.name] = outcome
    return found


def _growing(name: str, wanted: int | NewPartitions) -> CreatePartitionsTopic:
    if isinstance(wanted, int):
        return CreatePartitionsTopic(name=name, count=wanted, assignments=None)
    assignments = (
        None
        if wanted.assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in wanted.assignments]
    )
    return CreatePartitionsTopic(name=name, count=wanted.total, assignments=assignments)


def _read_grown(answer: BrokerAnswer[str, CreatePartitionsResponse]) -> dict[str, KafkaError | None]:
    response = answer.response
    return {
        result.name: verdict(result.error_code, result.error_message, result.name, None) for result in response.results
    }
