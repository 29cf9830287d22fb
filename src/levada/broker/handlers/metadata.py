"""Metadata v0-13. v1 null asks for all topics, v4 may forbid creation, v8 operations, v9 flexible, v12 by topic id."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from levada.broker.authorized import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS, NOT_ASKED
from levada.broker.internal_topics import MADE_ON_FIRST_USE, internal_topic, tell_if_capped
from levada.broker.route import Request
from levada.metadata.image import Image, PartitionState, TopicState
from levada.metadata.records import NO_LEADER
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.model.topics import CLUSTER_METADATA, INTERNAL_TOPICS, check_topic_name
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

API = ApiKey.METADATA
VERSIONS = stable_versions(API)

BY_ID_SINCE = 12
LISTENER_NOT_FOUND_SINCE = 6
LEFT_TO_THE_BROKER = -1
LARGE = 1_000
"""Partitions; more are not described in one turn of the loop."""


def handle(message: MetadataRequest, request: Request) -> MetadataResponse | Awaitable[MetadataResponse]:
    if request.version < BY_ID_SINCE and any(_is_by_id(topic) for topic in message.topics or ()):
        return _refuse_all(message)
    missing = _to_create(message, request)
    return _create_first(missing, message, request) if missing else _answer(message, request, {})


async def _create_first(names: list[str], message: MetadataRequest, request: Request) -> MetadataResponse:
    """Create what was asked for and is not there; topics that cannot be made are answered with the reason."""
    topics = [_new_topic(name, request) for name in names]
    try:
        created = await request.broker.controller.submit(CreateTopicsRequest(topics=topics), 7)
        refused = {result.name: result.error_code for result in created.topics if result.error_code}
        for made in topics:
            if made.name in MADE_ON_FIRST_USE and made.name not in refused:
                tell_if_capped(made, request.broker)
    except ApiError:
        # The controller cannot decide just now; the client asks again.
        refused = dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
    answer = _answer(message, request, refused)
    return await answer if isinstance(answer, Awaitable) else answer


def _new_topic(name: str, request: Request) -> CreatableTopic:
    if name in MADE_ON_FIRST_USE:
        return internal_topic(name, request.broker)
    return CreatableTopic(
        name=name,
        num_partitions=LEFT_TO_THE_BROKER,
        replication_factor=LEFT_TO_THE_BROKER,
        assignments=[],
        configs=[],
    )


def _to_create(message: MetadataRequest, request: Request) -> list[str]:
    broker = request.broker
    if not message.topics or not message.allow_auto_topic_creation or not broker.settings.auto_create_topics:
        return []
    known = broker.image.topics
    names = [topic.name for topic in message.topics if topic.topic_id == NO_UUID and topic.name is not None]
    return [name for name in dict.fromkeys(names) if name not in known and _may_create(name)]


def _may_create(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return name in MADE_ON_FIRST_USE or (name not in INTERNAL_TOPICS and name != CLUSTER_METADATA)


def _answer(
    message: MetadataRequest, request: Request, refused: dict[str, int]
) -> MetadataResponse | Awaitable[MetadataResponse]:
    wanted = _wanted(message, request)
    if sum(len(topic.partitions) for topic in wanted if isinstance(topic, TopicState)) > LARGE:
        request.is_large = True
        return _answer_in_slices(wanted, message, request, refused)
    return _response(message, request, [_answer_topic(topic, message, request, refused) for topic in wanted])


async def _answer_in_slices(
    wanted: list[TopicState | MetadataRequestTopic], message: MetadataRequest, request: Request, refused: dict[str, int]
) -> MetadataResponse:
    """Very many partitions as they are now, with turns for other requests in between."""
    image = request.broker.image
    response = _response(message, request, [])
    done = 0
    for topic in wanted:
        partitions = topic.partitions if isinstance(topic, TopicState) else ()
        bare = replace(topic, partitions=()) if isinstance(topic, TopicState) else topic
        answer = _answer_topic(bare, message, request, refused)
        response.topics.append(answer)
        for partition in partitions:
            answer.partitions.append(_partition(partition, image, request))
            done += 1
            if done % LARGE == 0:
                await asyncio.sleep(0)
    return response


def _wanted(message: MetadataRequest, request: Request) -> list[TopicState | MetadataRequestTopic]:
    """The topics that are asked for, and what was asked where there is none such."""
    image = request.broker.image
    if message.topics is None or (request.version == 0 and not message.topics):
        return list(image.topics.values())
    each = {(topic.topic_id, topic.name): topic for topic in message.topics}
    # One id, and names beside it are not looked at.
    by_id = [topic for topic in each.values() if _is_by_id(topic)]
    return [_found(topic, image) or topic for topic in by_id or each.values()]


def _found(wanted: MetadataRequestTopic, image: Image) -> TopicState | None:
    if _is_by_id(wanted) or wanted.name is None:
        return image.topic_by_id(wanted.topic_id)
    return image.topics.get(wanted.name)


def _response(message: MetadataRequest, request: Request, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    broker = request.broker
    found = [(one, one.endpoint(request.listener)) for one in broker.image.live_brokers()]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=one.broker_id, host=endpoint.host, port=endpoint.port, rack=one.rack)
            for one, endpoint in found
            if endpoint is not None
        ],
        cluster_id=broker.identity.cluster_id,
        controller_id=broker.controller.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            ALL_CLUSTER_OPERATIONS if message.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _answer_topic(
    wanted: TopicState | MetadataRequestTopic, message: MetadataRequest, request: Request, refused: dict[str, int]
) -> MetadataResponseTopic:
    if isinstance(wanted, TopicState):
        return _describe(wanted, message, request)
    if _is_by_id(wanted) or wanted.name is None:
        return _unknown_id(wanted.topic_id)
    try:
        check_topic_name(wanted.name)
    except ApiError as error:
        return _unknown_name(wanted.name, error.code, message)
    return _unknown_name(wanted.name, refused.get(wanted.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), message)


def _is_by_id(wanted: MetadataRequestTopic) -> bool:
    return wanted.topic_id != NO_UUID or wanted.name is None


def _unknown_id(topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[])


def _unknown_name(name: str, code: int, message: MetadataRequest) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=_operations(message),
    )


def _refuse_all(message: MetadataRequest) -> MetadataResponse:
    """Before v12 a request that names an id is refused as a whole, with nothing said of the cluster."""
    code = ErrorCode.INVALID_REQUEST
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id, partitions=[])
        for topic in message.topics or ()
    ]
    return MetadataResponse(brokers=[], topics=topics, error_code=code)


def _operations(message: MetadataRequest) -> int:
    return ALL_TOPIC_OPERATIONS if message.include_topic_authorized_operations else NOT_ASKED


def _describe(topic: TopicState, message: MetadataRequest, request: Request) -> MetadataResponseTopic:
    image = request.broker.image
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(partition, image, request) for partition in topic.partitions],
        topic_authorized_operations=_operations(message),
    )


def _partition(partition: PartitionState, image: Image, request: Request) -> MetadataResponsePartition:
    leader, code = partition.leader, ErrorCode.NONE
    if image.live_endpoint(leader, request.listener) is None:
        # There is none, or it has no address for who came by this listener.
        is_there = leader != NO_LEADER and leader in image.brokers
        knows = request.version >= LISTENER_NOT_FOUND_SINCE
        code = ErrorCode.LISTENER_NOT_FOUND if is_there and knows else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=image.offline_replicas(partition),
    )
