"""One member of a consumer group: what it wants, what it has, and what it is to give up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

from levada.groups.records import ClassicMemberMetadata, TopicPartitions
from levada.groups.records import ConsumerGroupCurrentMemberAssignmentValue as CurrentAssignment
from levada.groups.records import ConsumerGroupMemberMetadataValue as Subscription

JOINING = 0
LEAVING = -1
LEAVING_FOR_NOW = -2
"""Epochs in a heartbeat that are no epochs: a static member may leave and come back to its partitions (KIP-345)."""
NO_PREVIOUS_EPOCH = -1

K = TypeVar("K")
V = TypeVar("V")

Partitions: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""By topic id, the epoch at which each partition was assigned (KIP-1251). Never changed once it is made."""

Target: TypeAlias = Mapping[bytes, tuple[int, ...]]
"""By topic id, in order; no topic without partitions."""


class Owned(Protocol):
    """Partitions of a topic as a heartbeat names them."""

    topic_id: bytes
    partitions: Any


def nothing() -> Mapping[K, V]:
    return MappingProxyType({})


class MemberState(IntEnum):
    """By the numbers in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """Must give up partitions before it gets its next epoch."""
    UNRELEASED_PARTITIONS = 2
    """Has its epoch, and waits for partitions that others still have."""
    UNKNOWN = 127
    """Of a release that knows more states."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    member_id: str
    epoch: int = JOINING
    previous_epoch: int = NO_PREVIOUS_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Sorted, each once."""
    topic_regex: str | None = ""
    assignor: str | None = None
    assigned: Partitions = field(default_factory=nothing)
    revoking: Partitions = field(default_factory=nothing)
    """What it has been told to give up and may still use."""
    classic: ClassicMemberMetadata | None = None
    """Of a member that speaks the classic protocol."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def classic_protocols(self) -> Mapping[str, bytes]:
        """What it says of itself by the name of each protocol it knows, the preferred one first."""
        if self.classic is None:
            return nothing()
        return {protocol.name: bytes(protocol.metadata) for protocol in self.classic.supported_protocols}

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def is_revoking(self, topic_id: bytes, partition: int) -> bool:
        return partition in self.revoking.get(topic_id, ())

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Since when it has a partition, also one that it is giving up."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    def subscription(self) -> Subscription:
        return Subscription(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def current_assignment(self) -> CurrentAssignment:
        return CurrentAssignment(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_to_record(self.assigned),
            partitions_pending_revocation=_to_record(self.revoking),
        )


def subscription_fields(value: Subscription) -> dict[str, Any]:
    """What a member's subscription record says of it."""
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topic_names": sorted_names(value.subscribed_topic_names),
        "topic_regex": value.subscribed_topic_regex,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "assignor": value.server_assignor,
        "classic": value.classic_member_metadata,
    }


def assignment_fields(value: CurrentAssignment) -> dict[str, Any]:
    """What a member's assignment record says of it."""
    epoch = max(value.member_epoch, 0)
    known = value.state in MemberState.__members__.values()
    return {
        "epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": MemberState(value.state) if known else MemberState.UNKNOWN,
        "assigned": _from_record(value.assigned_partitions, epoch),
        "revoking": _from_record(value.partitions_pending_revocation, epoch),
    }


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(names)))


def has_any(partitions: Partitions, owned: Sequence[Owned]) -> bool:
    return any(index in partitions.get(one.topic_id, ()) for one in owned for index in one.partitions)


def has_all(partitions: Partitions, owned: Sequence[Owned]) -> bool:
    """Apache wants a topic to be there even where none of its partitions is named."""
    return all(
        one.topic_id in partitions and all(index in partitions[one.topic_id] for index in one.partitions)
        for one in owned
    )


def _to_record(partitions: Partitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in partitions.items()
    ]


def _from_record(topics: Sequence[TopicPartitions], default_epoch: int) -> Partitions:
    """Releases before 4.3 did not write when a partition was assigned."""
    return {
        bytes(topic.topic_id): dict(zip(topic.partitions, topic.assignment_epochs))
        if topic.assignment_epochs is not None and len(topic.assignment_epochs) == len(topic.partitions)
        else dict.fromkeys(topic.partitions, default_epoch)
        for topic in topics
    }
