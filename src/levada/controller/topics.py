"""Topics that are created, deleted, and given more partitions."""

from collections import Counter
from collections.abc import Sequence

from levada.controller.config_changes import Refusals, check_topic_configs
from levada.controller.decision import Context, ControllerDecision
from levada.controller.elections import UNASSIGNED
from levada.controller.placement import place
from levada.metadata.image import TOPIC, Image, PartitionState, TopicState, partition_record
from levada.metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from levada.model.topics import CLUSTER_METADATA, check_topic_name, collision_key
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from levada.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from levada.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BROKER_DEFAULT = -1
TELLS_DISABLED_DELETION_SINCE = 3
"""The version of DeleteTopics that knows the error for it."""
MAX_NEW_PARTITIONS = 10_000
"""Of one request: what is decided at once is written at once."""


def create(image: Image, request: CreateTopicsRequest, context: Context) -> ControllerDecision[CreateTopicsResponse]:
    named = Counter(topic.name for topic in request.topics)
    too_many = _wanted_partitions(request, context) > MAX_NEW_PARTITIONS
    taken = _taken_names(image, request)
    refusals = Refusals()
    results, records = [], []
    for topic in request.topics:
        if named[topic.name] > 1:
            continue
        try:
            if topic.name == CLUSTER_METADATA:
                raise InvalidRequest(f"Creation of internal topic {topic.name} is prohibited.")
            if too_many:
                raise PolicyViolation("Excessively large number of partitions per request.")
            _check_new_name(image, taken, topic.name)
            made = _create(image, topic, context)
        except ApiError as error:
            results.append(_refused_topic(topic.name, error, refusals))
            continue
        results.append(_created(topic.name, made))
        # The next topic of the request must not collide with this one.
        taken[collision_key(topic.name)] = topic.name
        records += [] if request.validate_only else made
    duplicate = InvalidRequest("Duplicate topic name.")
    results += [_refused_topic(name, duplicate, refusals) for name, count in named.items() if count > 1]
    return ControllerDecision(CreateTopicsResponse(topics=results), records)


def _wanted_partitions(request: CreateTopicsRequest, context: Context) -> int:
    counts = (
        context.defaults.partitions if topic.num_partitions == BROKER_DEFAULT else max(topic.num_partitions, 0)
        for topic in request.topics
        if not topic.assignments
    )
    return sum(counts) + sum(len(topic.assignments) for topic in request.topics)


def _create(
    image: Image, wanted: CreatableTopic, context: Context
) -> list[TopicRecord | PartitionRecord | ConfigRecord]:
    configs = {config.name: config.value for config in wanted.configs}
    check_topic_configs(configs)
    topic_id = context.new_id()
    replicas = _assigned(image, wanted, context) if wanted.assignments else _placed(image, wanted, context)
    return [
        TopicRecord(name=wanted.name, topic_id=topic_id),
        *(new_partition(topic_id, index, members, image) for index, members in enumerate(replicas)),
        *(
            ConfigRecord(resource_type=TOPIC, resource_name=wanted.name, name=name, value=value)
            for name, value in configs.items()
        ),
    ]


def _taken_names(image: Image, request: CreateTopicsRequest) -> dict[str, str]:
    """The topics there are by what metrics call them; only a name with a point or an underscore can collide."""
    if not any("." in topic.name or "_" in topic.name for topic in request.topics):
        return {}
    return {collision_key(name): name for name in image.topics}


def _check_new_name(image: Image, taken: dict[str, str], name: str) -> None:
    check_topic_name(name)
    if name in image.topics:
        raise TopicAlreadyExists(f"Topic '{name}' already exists.")
    other = taken.get(collision_key(name))
    if other is not None:
        raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")


def new_partition(topic_id: bytes, index: int, replicas: Sequence[int], image: Image) -> PartitionRecord:
    """A partition begins with every live replica in sync, led by the first of them."""
    live = {broker.broker_id for broker in image.live_brokers()}
    isr = tuple(one for one in replicas if one in live)
    state = PartitionState(
        index,
        tuple(replicas),
        isr or tuple(replicas[:1]),
        isr[0] if isr else -1,
        directories=tuple(_directory_for(image, one) for one in replicas),
    )
    return partition_record(topic_id, state)


def _directory_for(image: Image, broker_id: int) -> bytes:
    """A broker with one directory has no choice; one with several says which it has taken."""
    broker = image.brokers.get(broker_id)
    return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED


def _placed(image: Image, wanted: CreatableTopic, context: Context) -> list[list[int]]:
    count, factor = wanted.num_partitions, wanted.replication_factor
    if count == BROKER_DEFAULT:
        count = context.defaults.partitions
    if factor == BROKER_DEFAULT:
        factor = context.defaults.replication_factor
    if factor < 1:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if count < 1:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    brokers = image.live_brokers()
    start, shift = (context.below(max(len(brokers), 1)) for _ in range(2))
    placed = place(brokers, count, factor, start=start, shift=shift)
    _refuse_too_many(factor, context)
    return placed


def _refuse_too_many(factor: int, context: Context) -> None:
    """After all else that may be wrong: a copy that is never made must not be counted on."""
    if factor > context.defaults.max_replicas:
        raise InvalidReplicationFactor(
            f"This release keeps {context.defaults.max_replicas} replica(s) of a partition, not {factor}: it does not"
            " copy records between brokers yet."
        )


def _assigned(image: Image, wanted: CreatableTopic, context: Context) -> list[list[int]]:
    if wanted.replication_factor != BROKER_DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if wanted.num_partitions != BROKER_DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    by_index: dict[int, list[int]] = {}
    for one in wanted.assignments:
        if one.partition_index in by_index:
            raise InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {one.partition_index}"
            )
        by_index[one.partition_index] = list(one.broker_ids)
    if sorted(by_index) != list(range(len(by_index))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    assigned = [by_index[index] for index in range(len(by_index))]
    _check_assignment(image, assigned, len(assigned[0]), first=0)
    _refuse_too_many(len(assigned[0]), context)
    return assigned


def _check_assignment(image: Image, assigned: Sequence[Sequence[int]], size: int, *, first: int) -> None:
    """Refuse what cannot be; `first` is the index of the first partition that is assigned."""
    live = {broker.broker_id for broker in image.live_brokers()}
    for index, replicas in enumerate(assigned, first):
        if not replicas:
            raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
        for broker in replicas:
            if broker not in image.brokers:
                raise InvalidReplicaAssignment(
                    f"The manual partition assignment includes broker {broker}, but no such broker is registered."
                )
            if list(replicas).count(broker) > 1:
                raise InvalidReplicaAssignment(
                    f"The manual partition assignment includes the broker {broker} more than once."
                )
        if len(replicas) != size:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {size} replica(s)."
            )
        if live.isdisjoint(replicas):
            raise InvalidReplicaAssignment(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )


def _created(name: str, records: list[TopicRecord | PartitionRecord | ConfigRecord]) -> CreatableTopicResult:
    partitions = [record for record in records if isinstance(record, PartitionRecord)]
    return CreatableTopicResult(
        name=name,
        topic_id=partitions[0].topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=[],
    )


def _refused_topic(name: str, error: ApiError, refusals: Refusals) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=refusals.text_of(error), configs=[])


def delete(image: Image, request: DeleteTopicsRequest, context: Context) -> ControllerDecision[DeleteTopicsResponse]:
    wanted = request.topics or [DeleteTopicState(name=name, topic_id=NO_UUID) for name in request.topic_names]
    counted = Counter((one.name, one.topic_id) for one in wanted)
    ids = {topic_id for name, topic_id in counted if name is None}
    known = [image.topics.get(name or "") for name, topic_id in counted if topic_id == NO_UUID]
    named = {topic.topic_id for topic in known if topic is not None}
    results, records = [], []
    for (name, topic_id), count in counted.items():
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        try:
            topic = _topic_to_delete(image, name, topic_id, count, context)
        except ApiError as error:
            result.error_code, result.error_message = error.code, str(error)
            # Who says nothing at all is answered as often as he asks.
            results += [result] * (count if name is None and topic_id == NO_UUID else 1)
            continue
        result.name, result.topic_id = topic.name, topic.topic_id
        if topic.topic_id not in ids & named:
            results.append(result)
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        elif name is not None:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "The provided topic name maps to an ID that was already supplied."
            results.append(result)
    return ControllerDecision(DeleteTopicsResponse(responses=results), records)


def _topic_to_delete(image: Image, name: str | None, topic_id: bytes, count: int, context: Context) -> TopicState:
    if not context.defaults.allows_deletion:
        refusal = TopicDeletionDisabled if context.version >= TELLS_DISABLED_DELETION_SINCE else InvalidRequest
        raise refusal("Topic deletion is disabled.")
    if name is not None and topic_id != NO_UUID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if name is None and topic_id == NO_UUID:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if count > 1:
        raise InvalidRequest("Duplicate topic id." if name is None else "Duplicate topic name.")
    topic = image.topic_by_id(topic_id) if name is None else image.topics.get(name)
    if topic is None:
        if name is None:
            raise UnknownTopicId("This server does not host this topic ID.")
        raise UnknownTopicOrPartition("This server does not host this topic-partition.")
    return topic


def add_partitions(
    image: Image, request: CreatePartitionsRequest, context: Context
) -> ControllerDecision[CreatePartitionsResponse]:
    named = Counter(topic.name for topic in request.topics)
    results, records = [], []
    for topic in request.topics:
        if named[topic.name] > 1:
            continue
        result = CreatePartitionsTopicResult(name=topic.name)
        results.append(result)
        try:
            added = _add_partitions(image, topic, context)
        except ApiError as error:
            result.error_code, result.error_message = error.code, str(error) or None
            continue
        records += [] if request.validate_only else added
    results += [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in named.items()
        if count > 1
    ]
    return ControllerDecision(CreatePartitionsResponse(results=results), records)


def _add_partitions(image: Image, wanted: CreatePartitionsTopic, context: Context) -> list[PartitionRecord]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    present = len(topic.partitions)
    if wanted.count == present:
        raise InvalidPartitions(f"Topic already has {present} partition(s).")
    if wanted.count < present:
        raise InvalidPartitions(
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase."
        )
    added = wanted.count - present
    if added > MAX_NEW_PARTITIONS:
        raise PolicyViolation("Excessively large number of partitions per request.")
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        brokers = image.live_brokers()
        start = context.below(max(len(brokers), 1))
        replicas = place(brokers, added, factor, start=start, shift=start, first=present)
    else:
        replicas = [list(one.broker_ids) for one in wanted.assignments]
        if len(replicas) != added:
            raise InvalidReplicaAssignment(
                f"Attempted to add {added} additional partition(s), but only {len(replicas)} assignment(s) were "
                "specified."
            )
        _check_assignment(image, replicas, factor, first=present)
    return [new_partition(topic.topic_id, present + number, one, image) for number, one in enumerate(replicas)]
