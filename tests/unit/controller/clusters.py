"""Clusters to decide for: images made of real records, and requests in their shortest form."""

from collections.abc import Iterable
from itertools import count
from typing import TypeVar

from levada.controller.controller import decide
from levada.controller.decision import Context, ControllerDecision, Defaults
from levada.controller.sessions import NOT_HEARD_OF
from levada.metadata.delta import apply
from levada.metadata.image import Image, PartitionState
from levada.metadata.records import MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord
from levada.protocol.declare import NO_UUID, AnsweredBy
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from levada.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

T = TypeVar("T")

INCARNATION = b"i" * 16


class Cluster:
    """Decides as a controller would: what is decided is true for the next request."""

    def __init__(
        self,
        *brokers: int,
        fenced: Iterable[int] = (),
        racks: dict[int, str] | None = None,
        log_dirs: dict[int, list[bytes]] | None = None,
    ) -> None:
        self.image = Image()
        self.defaults = Defaults(partitions=3, replication_factor=1)
        self.liveness = NOT_HEARD_OF
        self.controller_epoch = 1
        self._ids = count(1)
        for broker in [*brokers, *fenced]:
            rack = (racks or {}).get(broker)
            record = broker_record(broker, self.image.offset + 1, is_fenced=broker not in brokers, rack=rack)
            record.log_dirs = (log_dirs or {}).get(broker, [])
            self.add(record)

    def add(self, *records: MetadataRecord) -> "Cluster":
        self.image = apply(self.image, records, self.image.offset + len(records))
        return self

    def decide(self, request: AnsweredBy[T], *, version: int = 7) -> ControllerDecision[T]:
        """What a request would do, without doing it."""
        context = Context(
            now_ms=0,
            version=version,
            defaults=self.defaults,
            new_id=self.new_id,
            below=lambda bound: bound - 1,
            liveness=self.liveness,
            controller_epoch=self.controller_epoch,
        )
        return decide(self.image, request, context)

    def do(self, request: AnsweredBy[T], *, version: int = 7) -> T:
        decision = self.decide(request, version=version)
        if decision.records:
            self.add(*decision.records)
        return decision.reply

    def new_id(self) -> bytes:
        return next(self._ids).to_bytes(16, "big")

    def partitions(self, topic: str = "first") -> tuple[PartitionState, ...]:
        return self.image.topics[topic].partitions

    def with_topic(
        self,
        name: str,
        *replicas: tuple[int, ...],
        isr: tuple[int, ...] | None = None,
        directories: list[bytes] | None = None,
    ) -> "Cluster":
        """A topic whose partitions are led by their first replica, in epoch 0; all have the same directories."""
        topic_id = self.new_id()
        self.add(TopicRecord(name=name, topic_id=topic_id))
        for index, members in enumerate(replicas):
            in_sync = members if isr is None else isr
            self.add(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(members),
                    isr=list(in_sync),
                    leader=in_sync[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=directories or [NO_UUID] * len(members),
                )
            )
        return self


def broker_record(broker: int, epoch: int, *, is_fenced: bool = False, rack: str | None = None) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=INCARNATION,
        broker_epoch=epoch,
        end_points=[],
        features=[],
        rack=rack,
        fenced=is_fenced,
    )


def topic(
    name: str = "first",
    partitions: int = -1,
    factor: int = -1,
    *,
    assignments: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    pairs = assignments.items() if isinstance(assignments, dict) else assignments or []
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in pairs],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), validate_only=validate_only)


def delete(*topics: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    return DeleteTopicsRequest(topics=states, timeout_ms=1_000)


def register(broker: int, *, rack: str | None = None, log_dirs: Iterable[bytes] = ()) -> BrokerRegistrationRequest:
    listener = Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)
    return BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id="c",
        incarnation_id=INCARNATION,
        listeners=[listener],
        features=[],
        rack=rack,
        log_dirs=list(log_dirs),
    )


def heartbeat(
    broker: int,
    epoch: int,
    read_to: int,
    *,
    want_fence: bool = False,
    want_shut_down: bool = False,
    offline_log_dirs: Iterable[bytes] = (),
) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker,
        broker_epoch=epoch,
        current_metadata_offset=read_to,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
        offline_log_dirs=list(offline_log_dirs),
    )
