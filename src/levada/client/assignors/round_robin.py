"""The round robin assignor: partitions are dealt like cards, over all topics."""

from collections.abc import Mapping
from itertools import cycle

from levada.client.assignors.order import rank_order, text_order, topics_to_assign
from levada.client.assignors.spec import (
    NO_RACKS,
    Assignment,
    Assignor,
    RebalanceProtocol,
    ReplicaRacks,
    Subscription,
)


class RoundRobinAssignor(Assignor):
    """Member after member gets one partition; one that does not subscribe to its topic is passed over."""

    name = "roundrobin"
    rebalance_protocols = (RebalanceProtocol.EAGER,)

    def assign(
        self,
        partition_counts: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: ReplicaRacks = NO_RACKS,
    ) -> Assignment:
        topics = topics_to_assign(partition_counts, members)
        subscribed = {member_id: frozenset(member.topics) for member_id, member in members.items()}
        assignment: Assignment = {member_id: [] for member_id in members}
        dealt = cycle(rank_order(members))
        for topic in sorted(topics, key=text_order):
            for number in range(topics[topic]):
                taker = next(member_id for member_id in dealt if topic in subscribed[member_id])
                assignment[taker].append((topic, number))
        return assignment
