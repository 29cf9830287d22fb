"""What both sticky assignors do: an assignment that is balanced, and as near to the previous one as it can be."""

from collections.abc import Callable, Mapping

from levada.client.assignors.claims import Claim, Ownership, settle
from levada.client.assignors.equal import assign_equal
from levada.client.assignors.order import hash_order, topics_to_assign
from levada.client.assignors.racks import Racks
from levada.client.assignors.spec import Assignment, ReplicaRacks, Subscription
from levada.client.assignors.unequal import assign_unequal


def plan(
    partition_counts: Mapping[str, int],
    members: Mapping[str, Subscription],
    replica_racks: ReplicaRacks,
    claim_of: Callable[[Subscription], Claim],
) -> tuple[Assignment, Ownership]:
    """The assignment, and who owned what before."""
    members = {member_id: members[member_id] for member_id in hash_order(members)}
    topics = topics_to_assign(partition_counts, members)
    racks = Racks(topics, members, replica_racks)
    ownership = settle(topics, members, claim_of)
    if len({frozenset(member.topics) for member in members.values()}) > 1:
        return assign_unequal(topics, members, ownership, racks), ownership
    return assign_equal(topics, ownership, racks), ownership
