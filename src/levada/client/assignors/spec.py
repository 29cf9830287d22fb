"""What an assignor of a classic consumer group is told, and what it answers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

Partition: TypeAlias = tuple[str, int]
"""Topic and partition number."""

Assignment: TypeAlias = dict[str, list[Partition]]
"""Member id -> its partitions; every member is in it."""

ReplicaRacks: TypeAlias = Mapping[str, Sequence[Collection[str]]]
"""Topic -> for each partition the racks that have a replica of it; what is not known may be left out."""

NO_GENERATION = -1
NO_RACKS: ReplicaRacks = {}


class RebalanceProtocol(IntEnum):
    """What a member does with its partitions when the group rebalances; a consumer uses the highest it can."""

    EAGER = 0
    """It gives up all of them before it joins."""
    COOPERATIVE = 1
    """It goes on with all of them, and gives up what the new assignment takes away (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member tells the leader of its group when it joins."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[Partition] = ()
    generation_id: int = NO_GENERATION
    """The generation in which it came to own them (KIP-792)."""
    rack_id: str | None = None
    group_instance_id: str | None = None
    """Set for a static member; the group's coordinator knows it, not the subscription's bytes."""


class Assignor(Protocol):
    """One way to assign partitions; anything of this shape can be given to a consumer.

    The leader of a group calls `assign`; every member calls `user_data` before it joins and `on_assignment` when it got
    its partitions, so an assignor with memory belongs to one consumer.
    """

    @property
    def name(self) -> str:
        """The name on the wire; the group uses one that all of its members know."""

    @property
    def rebalance_protocols(self) -> Sequence[RebalanceProtocol]:
        """Those that its assignments are safe for."""

    def assign(
        self,
        partition_counts: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: ReplicaRacks = NO_RACKS,
    ) -> Assignment:
        """Assign all partitions of the topics that members subscribe to; topics without a count are left out."""

    def user_data(self, topics: Collection[str]) -> bytes | None:
        """What this member wants the leader's assignor to know when it joins with these topics."""
        return None

    def on_assignment(self, partitions: Sequence[Partition], generation_id: int) -> None:
        """This member has got these partitions in this generation."""
        return
