"""Members of the classic protocol, and classic groups to be brought over."""

from collections.abc import Mapping, Sequence

from levada.groups.consumer import Client
from levada.groups.group import ClassicGroupState, Group
from levada.groups.member import Member
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopic,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.unit.groups.consumer.harness import GROUP, REBALANCE_MS, Coordinator

SESSION_MS = 20_000

Owned = Mapping[str, Sequence[int]]


def subscription(topics: Sequence[str], owned: Owned, rack: str | None = None) -> bytes:
    partitions = [OwnedTopic(topic=topic, partitions=list(indexes)) for topic, indexes in owned.items()]
    value = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=partitions, rack_id=rack)
    return encode_subscription(value)


def assignment(partitions: Owned, user_data: bytes | None = None) -> bytes:
    topics = [AssignedTopic(topic=topic, partitions=list(indexes)) for topic, indexes in partitions.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data))


def assigned(data: bytes) -> dict[str, list[int]]:
    return {one.topic: sorted(one.partitions) for one in decode_assignment(data).assigned_partitions}


def classic_group(
    coordinator: Coordinator, members: Mapping[str, bytes], *topics: str, type_: str = "consumer"
) -> Group:
    """A stable classic group at generation 4, its members with these assignments."""
    group = Group(GROUP)
    group.generation, group.protocol_name, group.state = 4, "range", ClassicGroupState.STABLE
    for member_id, part in members.items():
        protocols = {"range": subscription(topics, {}, "rack"), "sticky": subscription(topics, {})}
        member = Member(member_id, None, SESSION_MS, REBALANCE_MS, protocols, "client", "/127.0.0.1", part)
        group.add(member, type_)
    coordinator.classic[GROUP] = group
    return group


def join(
    coordinator: Coordinator,
    member_id: str,
    *topics: str,
    owned: Owned | None = None,
    instance: str | None = None,
    protocols: Sequence[str] = ("range",),
    type_: str = "consumer",
    metadata: bytes | None = None,
    version: int = 9,
) -> JoinGroupResponse:
    data = subscription(topics, owned or {}) if metadata is None else metadata
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=type_,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name in protocols],
    )
    decision = coordinator.groups.join(request, Client("classic", "/127.0.0.1", version), coordinator.now_ms)
    coordinator.write(decision.records)
    coordinator.expire()
    return decision.reply


def sync(
    coordinator: Coordinator,
    member_id: str,
    generation: int,
    *,
    instance: str | None = None,
    type_: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroupResponse:
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=type_,
        protocol_name=protocol,
        assignments=[],
    )
    return coordinator.groups.sync(request, coordinator.now_ms)


def beat(coordinator: Coordinator, member_id: str, generation: int, *, instance: str | None = None) -> ErrorCode:
    request = HeartbeatRequest(
        group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
    )
    return coordinator.groups.heartbeat_of_classic(request, coordinator.now_ms)


def leave(coordinator: Coordinator, *identities: tuple[str, str | None]) -> list[ErrorCode]:
    leaving = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in identities]
    decision = coordinator.groups.leave(GROUP, leaving, coordinator.now_ms)
    coordinator.write(decision.records)
    return decision.reply
