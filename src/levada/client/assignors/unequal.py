"""The sticky assignment where members subscribe to different topics: loads are evened out as far as that goes."""

from collections.abc import Mapping, Sequence

from levada.client.assignors.claims import Ownership
from levada.client.assignors.movements import Movements
from levada.client.assignors.order import text_order
from levada.client.assignors.racks import Racks
from levada.client.assignors.spec import Assignment, Partition, Subscription


def assign_unequal(
    topics: Mapping[str, int], members: Mapping[str, Subscription], ownership: Ownership, racks: Racks
) -> Assignment:
    """Keep what members own and may have, give the rest to the least loaded, then even out."""
    return _Loads(topics, members, racks).balance(ownership)


class _Loads:
    """An assignment in the making; members are known by their place in the order of their ids."""

    def __init__(self, topics: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks) -> None:
        self._members = members
        self._racks = racks
        self._member_ids = sorted(members, key=text_order)
        self._subscribers: dict[str, list[int]] = {topic: [] for topic in topics}
        for place, member_id in enumerate(self._member_ids):
            for topic in dict.fromkeys(members[member_id].topics):
                if topic in topics:
                    self._subscribers[topic].append(place)
        # Topics that few members want come first: those that come later can then fill what they left uneven.
        in_order = sorted(topics, key=lambda topic: (len(self._subscribers[topic]), text_order(topic)))
        self._partitions = [(topic, number) for topic in in_order for number in range(topics[topic])]
        self._held: list[dict[Partition, None]] = [{} for _ in self._member_ids]
        self._sizes = [0] * len(self._member_ids)
        self._owners: dict[Partition, int] = {}
        self._movements = Movements()

    def balance(self, ownership: Ownership) -> Assignment:
        has_lost = self._keep(ownership.held)
        free = [partition for partition in self._partitions if partition not in self._owners]
        self._hand_out(free)
        places = {member_id: place for place, member_id in enumerate(self._member_ids)}
        earlier = {partition: places[member_id] for partition, member_id in ownership.earlier.items()}
        if not has_lost:
            # No member has to give up anything yet, so let only what is new move, if that is enough.
            self._even_out(free, earlier)
        self._even_out(self._partitions, earlier)
        return {member_id: list(held) for member_id, held in zip(self._member_ids, self._held)}

    def _keep(self, held: Mapping[str, Sequence[Partition]]) -> bool:
        """True if a member loses a partition, because it has left the topic or stands in the wrong rack."""
        has_lost = False
        for place, member_id in enumerate(self._member_ids):
            subscribed = frozenset(self._members[member_id].topics)
            for partition in held[member_id]:
                if partition[0] in subscribed and self._racks.fits(member_id, partition):
                    self._give(partition, place)
                else:
                    has_lost = True
        return has_lost

    def _hand_out(self, free: Sequence[Partition]) -> None:
        left = free
        if self._racks.matter:
            left = []
            for partition in free:
                fitting = [
                    place
                    for place in self._subscribers[partition[0]]
                    if self._racks.fits(self._member_ids[place], partition)
                ]
                if fitting:
                    self._give(partition, self._least_loaded(fitting))
                else:
                    left.append(partition)
        for partition in left:
            self._give(partition, self._least_loaded(self._subscribers[partition[0]]))

    def _even_out(self, partitions: Sequence[Partition], earlier: Mapping[Partition, int]) -> None:
        """Round after round, until no partition finds a member with two fewer than its owner."""
        has_moved = True
        while has_moved:
            has_moved = False
            for partition in partitions:
                size = self._sizes[self._owners[partition]]
                taker = earlier.get(partition)
                if taker is None or size <= self._sizes[taker] + 1:
                    taker = self._least_loaded(self._subscribers[partition[0]])
                if size > self._sizes[taker] + 1:
                    self._move(partition, taker)
                    has_moved = True

    def _move(self, partition: Partition, taker: int) -> None:
        """If another partition of the topic came from the taker, that one goes back instead."""
        returning = self._movements.to_return(partition, self._owners[partition], taker)
        # Only if that evens out as well: each move must, or there would be no end.
        if returning is not None and self._sizes[self._owners[returning]] > self._sizes[taker] + 1:
            partition = returning
        giver = self._owners[partition]
        self._movements.record(partition, giver, taker)
        del self._held[giver][partition]
        self._sizes[giver] -= 1
        self._give(partition, taker)

    def _give(self, partition: Partition, taker: int) -> None:
        self._owners[partition] = taker
        self._held[taker][partition] = None
        self._sizes[taker] += 1

    def _least_loaded(self, places: Sequence[int]) -> int:
        return min(places, key=self._sizes.__getitem__)
