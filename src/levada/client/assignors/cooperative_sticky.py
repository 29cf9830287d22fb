"""The cooperative sticky assignor: a partition changes its owner in two rebalances (KIP-429)."""

from collections.abc import Collection, Mapping, Sequence
from struct import Struct

from levada.client.assignors.claims import Claim
from levada.client.assignors.spec import (
    NO_GENERATION,
    NO_RACKS,
    Assignment,
    Assignor,
    Partition,
    RebalanceProtocol,
    ReplicaRacks,
    Subscription,
)
from levada.client.assignors.sticky_plan import plan

_GENERATION = Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """Members keep their partitions while they rebalance.

    What is to move is first assigned to no member, so that its owner gives it up; that makes the group rebalance
    again, and then the new owner gets it.
    """

    name = "cooperative-sticky"
    rebalance_protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation_id = NO_GENERATION

    def assign(
        self,
        partition_counts: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: ReplicaRacks = NO_RACKS,
    ) -> Assignment:
        assignment, before = plan(partition_counts, members, racks, _claim_of)
        return {
            member_id: [
                partition
                for partition in partitions
                if before.owners.get(partition, member_id) == member_id and partition not in before.contested
            ]
            for member_id, partitions in assignment.items()
        }

    def user_data(self, topics: Collection[str]) -> bytes | None:
        return _GENERATION.pack(self._generation_id)

    def on_assignment(self, partitions: Sequence[Partition], generation_id: int) -> None:
        self._generation_id = generation_id


def _claim_of(member: Subscription) -> Claim:
    """Members whose subscriptions are older than version 2 tell their generation by user data only."""
    generation_id = member.generation_id
    if generation_id < 0 and member.user_data is not None and len(member.user_data) >= _GENERATION.size:
        (generation_id,) = _GENERATION.unpack_from(member.user_data)
    return Claim(member.owned_partitions, max(generation_id, NO_GENERATION))
