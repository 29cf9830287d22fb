"""The range assignor: each topic is cut into one piece per subscriber, so that equal numbers of topics meet."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from levada.client.assignors.order import rank_order, text_order, topics_to_assign
from levada.client.assignors.racks import do_racks_matter, racks_of_topic
from levada.client.assignors.spec import (
    NO_RACKS,
    Assignment,
    Assignor,
    RebalanceProtocol,
    ReplicaRacks,
    Subscription,
)


class RangeAssignor(Assignor):
    """Neighbours go to one member; what does not divide goes to the first ones.

    Where racks matter, partitions first go to members that have a replica in their rack, as far as the pieces stay
    as large as they were. Topics with equally many partitions and the same subscribers are kept together even then.
    """

    name = "range"
    rebalance_protocols = (RebalanceProtocol.EAGER,)

    def assign(
        self,
        partition_counts: Mapping[str, int],
        members: Mapping[str, Subscription],
        racks: ReplicaRacks = NO_RACKS,
    ) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in members}
        topics = topics_to_assign(partition_counts, members)
        subscribers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member_id in rank_order(members):
            for topic in dict.fromkeys(members[member_id].topics):
                if topic in subscribers:
                    subscribers[topic].append(member_id)
        member_racks = {member_id: member.rack_id for member_id, member in members.items() if member.rack_id}
        cuts = [
            _Cut(topic, subscribers[topic], member_racks, racks_of_topic(topic, count, racks), assignment)
            for topic, count in topics.items()
        ]
        do_any_matter = any(cut.do_racks_matter for cut in cuts)
        if do_any_matter:
            for together in _alike(cuts):
                _assign_by_rack(together)
        for cut in cuts:
            cut.hand_out(lambda member_id, number: True)
        if do_any_matter:
            for partitions in assignment.values():
                partitions.sort(key=lambda partition: (text_order(partition[0]), partition[1]))
        return assignment


class _Cut:
    """One topic while it is handed out."""

    def __init__(
        self,
        topic: str,
        subscribers: Sequence[str],
        member_racks: Mapping[str, str],
        partition_racks: Sequence[frozenset[str]],
        assignment: Assignment,
    ) -> None:
        self.subscribers = subscribers
        self.partition_count = len(partition_racks)
        self._topic = topic
        self._member_racks = {
            member_id: member_racks[member_id] for member_id in subscribers if member_id in member_racks
        }
        self._partition_racks = partition_racks
        self._assignment = assignment
        self._free = dict.fromkeys(range(len(partition_racks)))
        self._sizes = dict.fromkeys(subscribers, 0)
        self._least, self._extras = divmod(len(partition_racks), len(subscribers))
        self.do_racks_matter = do_racks_matter(self._member_racks.values(), partition_racks)

    def fits(self, member_id: str, number: int) -> bool:
        rack = self._member_racks.get(member_id)
        return rack is None or rack in self._partition_racks[number]

    def room(self, member_id: str) -> int:
        return max(0, self._least + (self._extras > 0) - self._sizes[member_id])

    def hand_out(self, may_have: Callable[[str, int], bool]) -> None:
        """To each subscriber the first ones that it may have, as many as it has room for."""
        for member_id in self.subscribers:
            wanted = (number for number in self._free if may_have(member_id, number))
            self.give(member_id, list(islice(wanted, self.room(member_id))))

    def give(self, member_id: str, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        for number in numbers:
            del self._free[number]
        self._assignment[member_id].extend((self._topic, number) for number in numbers)
        self._sizes[member_id] += len(numbers)
        self._extras -= self._sizes[member_id] > self._least


def _alike(cuts: Sequence[_Cut]) -> list[list[_Cut]]:
    """Topics in groups that have equally many partitions and the same subscribers."""
    groups: dict[tuple[int, tuple[str, ...]], list[_Cut]] = {}
    for topic in cuts:
        groups.setdefault((topic.partition_count, tuple(topic.subscribers)), []).append(topic)
    return list(groups.values())


def _assign_by_rack(together: Sequence[_Cut]) -> None:
    first = together[0]
    if len(together) == 1:
        if first.do_racks_matter:
            first.hand_out(first.fits)
        return
    for number in range(first.partition_count):
        for member_id in first.subscribers:
            if all(topic.room(member_id) and topic.fits(member_id, number) for topic in together):
                for topic in together:
                    topic.give(member_id, [number])
                break
