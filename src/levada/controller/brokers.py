"""Brokers that register, live, and go; the ids they give to producers; leaders by order of an operator."""

from dataclasses import dataclass

from levada.controller.decision import Context, ControllerDecision
from levada.controller.elections import (
    preferred_leader,
    with_broker,
    without_broker,
    without_directories,
)
from levada.metadata.image import BrokerState, Image, PartitionState, TopicState
from levada.metadata.records import (
    FENCED,
    UNFENCED,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from levada.model.error_codes import ErrorCode
from levada.model.hashes import uuid_to_text
from levada.model.topics import MAX_NAME_LENGTH
from levada.protocol.declare import AnsweredBy
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from levada.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

PRODUCER_ID_BLOCK = 1_000
PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = "Leader election not needed for topic partition."


def register(
    image: Image, request: BrokerRegistrationRequest, context: Context
) -> ControllerDecision[BrokerRegistrationResponse]:
    """A broker that registers again has died in between, even if the controller has not noticed."""
    refusal = _registration_refusal(image, request, context)
    if refusal is not None:
        return ControllerDecision(BrokerRegistrationResponse(error_code=refusal))
    # The epoch is the offset of the record itself: no two registrations share one, even under different controllers.
    epoch = image.offset + 1
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in request.listeners
        ],
        features=[
            BrokerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )
    changes = list(without_broker(image, request.broker_id))
    return ControllerDecision(
        BrokerRegistrationResponse(broker_epoch=epoch), [record, *changes, *_new_features(image, request)]
    )


def _registration_refusal(image: Image, request: BrokerRegistrationRequest, context: Context) -> ErrorCode | None:
    if context.defaults.cluster_id and request.cluster_id != context.defaults.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    incarnation = uuid_to_text(request.incarnation_id)
    if context.liveness.is_stranger(request.broker_id, incarnation):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    known = image.brokers.get(request.broker_id)
    if known is None or known.incarnation_id == request.incarnation_id:
        return None
    is_successor = context.liveness.holds_id(request.broker_id, incarnation)
    if context.liveness.is_live(request.broker_id) and not is_successor:
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    return None


def _new_features(image: Image, request: BrokerRegistrationRequest) -> list[FeatureLevelRecord]:
    """What a release brings that the cluster has no level for begins with the newest that all its brokers know."""
    others = [broker for broker in image.brokers.values() if broker.broker_id != request.broker_id]
    levels = []
    for feature in request.features:
        known = [one.max_supported_version for broker in others for one in broker.features if one.name == feature.name]
        if feature.name not in image.features and len(known) == len(others):
            level = min(feature.max_supported_version, *known) if known else feature.max_supported_version
            levels.append(FeatureLevelRecord(name=feature.name, feature_level=level))
    return levels


def heartbeat(
    image: Image, request: BrokerHeartbeatRequest, context: Context
) -> ControllerDecision[BrokerHeartbeatResponse]:
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return ControllerDecision(
            BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, should_shut_down=False)
        )
    is_caught_up = request.current_metadata_offset >= broker.epoch
    reply = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up, is_fenced=broker.is_fenced, should_shut_down=request.want_shut_down
    )
    failed = [one for one in broker.log_dirs if one in request.offline_log_dirs]
    if failed:
        sound = [one for one in broker.log_dirs if one not in failed]
        change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=sound)
        return ControllerDecision(reply, [change, *without_directories(image, broker.broker_id, failed)])
    if request.want_shut_down:
        return _shut_down(image, broker, reply)
    is_kept_out = request.want_fence or broker.is_shutting_down or context.liveness.is_deaf(broker.broker_id)
    if not broker.is_fenced or not is_caught_up or is_kept_out:
        return ControllerDecision(reply)
    reply.is_fenced = False
    unfence = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=UNFENCED)
    return ControllerDecision(reply, [unfence, *with_broker(image, broker.broker_id)])


def _shut_down(
    image: Image, broker: BrokerState, reply: BrokerHeartbeatResponse
) -> ControllerDecision[BrokerHeartbeatResponse]:
    """Others lead what they can before the broker goes; what only it has is without a leader from now on."""
    reply.is_fenced = True
    if broker.is_shutting_down:
        return ControllerDecision(reply)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=FENCED, in_controlled_shutdown=1
    )
    return ControllerDecision(reply, [change, *without_broker(image, broker.broker_id)])


@dataclass(frozen=True, slots=True)
class FenceRequest(AnsweredBy[bool]):
    """A broker was silent, or deaf, for a session: the controller asks itself to take it out of service."""

    broker_id: int


def fence(image: Image, request: FenceRequest, context: Context) -> ControllerDecision[bool]:
    """Unless it was heard of in the meantime."""
    broker = image.brokers.get(request.broker_id)
    liveness = context.liveness
    if broker is None or broker.is_fenced:
        return ControllerDecision(reply=False)
    if liveness.is_live(request.broker_id) and not liveness.is_deaf(request.broker_id):
        return ControllerDecision(reply=False)
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=FENCED)
    return ControllerDecision(reply=True, records=[change, *without_broker(image, broker.broker_id)])


def unregister(
    image: Image, request: UnregisterBrokerRequest, context: Context
) -> ControllerDecision[UnregisterBrokerResponse]:
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return _not_unregistered(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered"
        )
    if not broker.is_fenced:
        return _not_unregistered(ErrorCode.INVALID_REQUEST, f"Broker {request.broker_id} is alive: stop it first.")
    removal = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return ControllerDecision(
        UnregisterBrokerResponse(error_message=None), [removal, *without_broker(image, broker.broker_id)]
    )


def _not_unregistered(code: ErrorCode, text: str) -> ControllerDecision[UnregisterBrokerResponse]:
    return ControllerDecision(UnregisterBrokerResponse(error_code=code, error_message=text))


def allocate_producer_ids(
    image: Image, request: AllocateProducerIdsRequest, context: Context
) -> ControllerDecision[AllocateProducerIdsResponse]:
    broker = image.brokers.get(request.broker_id)
    if not _is_current(broker, request.broker_epoch):
        code = ErrorCode.STALE_BROKER_EPOCH
        return ControllerDecision(AllocateProducerIdsResponse(error_code=code, producer_id_start=0, producer_id_len=0))
    start = image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + PRODUCER_ID_BLOCK
    )
    reply = AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=PRODUCER_ID_BLOCK)
    return ControllerDecision(reply, [record])


def _is_current(broker: BrokerState | None, epoch: int) -> bool:
    return broker is not None and broker.epoch == epoch


def elect_leaders(
    image: Image, request: ElectLeadersRequest, context: Context
) -> ControllerDecision[ElectLeadersResponse]:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ControllerDecision(_no_such_election(request))
    wants_all = request.topic_partitions is None
    wanted = request.topic_partitions
    if wanted is None:
        wanted = [
            TopicPartitions(topic=topic.name, partitions=[one.index for one in topic.partitions])
            for topic in image.topics.values()
        ]
    results, records = [], []
    for each in wanted:
        outcomes = []
        for index in each.partitions:
            result, record = _elect(image, each.topic, index, request.election_type)
            if record is not None:
                records.append(record)
            if not (wants_all and result.error_code == ErrorCode.ELECTION_NOT_NEEDED):
                outcomes.append(result)
        results.append(ReplicaElectionResult(topic=each.topic, partition_result=outcomes))
    return ControllerDecision(ElectLeadersResponse(replica_election_results=results), records)


def _no_such_election(request: ElectLeadersRequest) -> ElectLeadersResponse:
    code, text = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    results = [
        ReplicaElectionResult(
            topic=each.topic, partition_result=[_election(index, code, text) for index in each.partitions]
        )
        for each in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _elect(image: Image, name: str, index: int, kind: int) -> tuple[PartitionResult, PartitionChangeRecord | None]:
    topic = image.topics.get(name)
    if topic is None:
        # It may be too long for any topic, and is quoted once for every partition.
        text = f"No such topic as {name[:MAX_NAME_LENGTH]}"
        return _election(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text), None
    if not 0 <= index < len(topic.partitions):
        return _election(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"), None
    partition = topic.partitions[index]
    return _elect_preferred(image, topic, partition) if kind == PREFERRED else _elect_any(image, topic, partition)


def _elect_preferred(
    image: Image, topic: TopicState, partition: PartitionState
) -> tuple[PartitionResult, PartitionChangeRecord | None]:
    if partition.leader == partition.replicas[0]:
        return _election(partition.index, ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED), None
    leader = preferred_leader(image, partition)
    if leader is None:
        return _election(partition.index, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None), None
    change = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id, leader=leader)
    return _election(partition.index, ErrorCode.NONE, None), change


def _elect_any(
    image: Image, topic: TopicState, partition: PartitionState
) -> tuple[PartitionResult, PartitionChangeRecord | None]:
    """An operator accepts that committed records may be lost: any replica that lives may lead."""
    if image.is_online(partition, partition.leader):
        return _election(partition.index, ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED), None
    leader = next((one for one in (*partition.isr, *partition.replicas) if image.is_online(partition, one)), None)
    if leader is None:
        return _election(partition.index, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, None), None
    is_clean = leader in partition.isr
    change = PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic.topic_id,
        leader=leader,
        isr=None if is_clean else [leader],
        leader_recovery_state=-1 if is_clean else 1,
    )
    return _election(partition.index, ErrorCode.NONE, None), change


def _election(index: int, code: ErrorCode, text: str | None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=text)
