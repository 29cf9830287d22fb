"""CreateTopics v2-7. v4 counts may be left to the broker (KIP-464), v5 flexible, v7 answers with the topic's id."""

from collections import Counter

from penstock.broker.route import Request
from penstock.model.errors import (
    ErrorCode,
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
)
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.declare import NO_UUID
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API = ApiKey.CREATE_TOPICS
VERSIONS = stable_versions(API)

BROKER_DEFAULT = -1


def handle(message: CreateTopicsRequest, request: Request) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in message.topics)
    repeated = {name for name, count in named.items() if count > 1}
    unique = [topic for topic in message.topics if topic.name not in repeated]
    results = [_create(topic, request, validate_only=message.validate_only) for topic in unique]
    results += [_refusal(name, InvalidRequest("Duplicate topic name.")) for name in named if name in repeated]
    return CreateTopicsResponse(topics=results)


def _create(wanted: CreatableTopic, request: Request, *, validate_only: bool) -> CreatableTopicResult:
    topics = request.broker.topics
    try:
        count = _partition_count(wanted, request)
        topics.check_new(wanted.name, count)
        if wanted.configs:
            raise InvalidConfig("topic configurations are not served yet")
        topic_id = NO_UUID if validate_only else topics.create(wanted.name, count).topic_id
    except KafkaError as error:
        return _refusal(wanted.name, error)
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=count,
        replication_factor=1,
        configs=[],
    )


def _partition_count(wanted: CreatableTopic, request: Request) -> int:
    """The number of partitions, from the assignment if there is one."""
    if not wanted.assignments:
        if wanted.replication_factor not in (1, BROKER_DEFAULT):
            if wanted.replication_factor < 1:
                raise InvalidReplicationFactor("Replication factor must be larger than 0.")
            raise InvalidReplicationFactor(
                f"Replication factor: {wanted.replication_factor} larger than available brokers: 1."
            )
        if wanted.num_partitions == BROKER_DEFAULT:
            return request.broker.settings.partitions_per_topic
        return wanted.num_partitions
    if wanted.num_partitions != BROKER_DEFAULT or wanted.replication_factor != BROKER_DEFAULT:
        raise InvalidRequest("An assignment goes with neither a number of partitions nor a replication factor.")
    indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
    if indexes != list(range(len(indexes))):
        raise InvalidReplicaAssignment("Partitions should be a consecutive 0-based integer sequence.")
    for assignment in wanted.assignments:
        if assignment.broker_ids != [request.broker.settings.node_id]:
            raise InvalidReplicaAssignment(f"Partition {assignment.partition_index} names brokers that are not here.")
    return len(indexes)


def _refusal(name: str, error: KafkaError) -> CreatableTopicResult:
    assert error.code != ErrorCode.NONE
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error), configs=[])
