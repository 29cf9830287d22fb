"""The uniform assignor where members subscribe to different topics: no share is fair, so loads are evened out."""

from collections.abc import Mapping, Sequence
from struct import Struct

from levada.groups.assignors.spec import Assignment, MemberSpec

NO_OWNER = -1
MAX_ROUNDS = 16
"""Evening out one topic can unbalance another; after so many rounds the assignment is good enough."""

_TWO_LONGS = Struct(">qq")


def assign_unequal(
    members: Mapping[str, MemberSpec], topic_ids: Sequence[bytes], partition_counts: Mapping[bytes, int]
) -> Assignment:
    """Keep what members have and still subscribe to, give out the rest to the least loaded, then even out."""
    return _Assignment(members, topic_ids, partition_counts).build()


class _Assignment:
    """One assignment in the making; members are known by their place."""

    def __init__(
        self, members: Mapping[str, MemberSpec], topic_ids: Sequence[bytes], partition_counts: Mapping[bytes, int]
    ) -> None:
        self._members = members
        self._sizes = [0] * len(members)
        self._subscribers: dict[bytes, list[int]] = {topic_id: [] for topic_id in topic_ids}
        for place, member in enumerate(members.values()):
            for topic_id in member.topics:
                self._subscribers[topic_id].append(place)
        self._owners = {topic_id: [NO_OWNER] * partition_counts[topic_id] for topic_id in topic_ids}
        # Topics with many partitions per subscriber first: those that come later can then fill what they left uneven.
        self._in_order = sorted(topic_ids, key=self._rank)

    def build(self) -> Assignment:
        self._keep()
        for topic_id in self._in_order:
            self._hand_out(topic_id)
        self._even_out([topic_id for topic_id in self._in_order if len(self._subscribers[topic_id]) > 1])
        return self._assignment()

    def _rank(self, topic_id: bytes) -> tuple[float, int, tuple[int, ...]]:
        """The last resort is the order of Java's UUIDs, two signed numbers."""
        subscribers = len(self._subscribers[topic_id])
        return -len(self._owners[topic_id]) / subscribers, subscribers, _TWO_LONGS.unpack(topic_id)

    def _keep(self) -> None:
        for place, member in enumerate(self._members.values()):
            subscribed = set(member.topics)
            for topic_id, partitions in member.current.items():
                if topic_id in subscribed:
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = place
                    self._sizes[place] += len(partitions)

    def _hand_out(self, topic_id: bytes) -> None:
        owners = self._owners[topic_id]
        if NO_OWNER not in owners:
            return
        loads = _Loads(self._subscribers[topic_id], self._sizes)
        for partition, owner in enumerate(owners):
            if owner == NO_OWNER:
                self._give(topic_id, partition, loads.next_least_loaded())

    def _even_out(self, topic_ids: list[bytes]) -> None:
        """Round after round, until no topic has changed since the last one that did."""
        last_changed: bytes | None = None
        for _ in range(MAX_ROUNDS):
            for topic_id in topic_ids:
                if topic_id == last_changed:
                    return
                if self._even_out_topic(topic_id) or last_changed is None:
                    last_changed = topic_id

    def _even_out_topic(self, topic_id: bytes) -> bool:
        loads = _Loads(self._subscribers[topic_id], self._sizes)
        if loads.spread <= 1:
            return False
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            held.setdefault(owner, []).append(partition)
        has_changed = False
        while not loads.are_even():
            giver = loads.next_most_loaded(held)
            if giver is None:
                break
            partition = held[giver].pop()
            taker = loads.next_least_loaded()
            # Both calls may have moved on to the next level, and the two levels may have met.
            if loads.are_even():
                break
            self._give(topic_id, partition, taker)
            has_changed = True
        return has_changed

    def _give(self, topic_id: bytes, partition: int, taker: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] != NO_OWNER:
            self._sizes[owners[partition]] -= 1
        owners[partition] = taker
        self._sizes[taker] += 1

    def _assignment(self) -> Assignment:
        assignment: Assignment = {member_id: {} for member_id in self._members}
        by_place = list(assignment.values())
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                by_place[owner].setdefault(topic_id, []).append(partition)
        return assignment


class _Loads:
    """The subscribers of a topic by the number of partitions they have, taken from both ends, level by level.

    A level on the way up are those at the bottom that have equally many once each has got another one; a level on the
    way down are those at the top that have equally many once each has given one away. A member that has none of the
    topic to give is set aside, behind `_top_end`.
    """

    def __init__(self, subscribers: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(subscribers, key=sizes.__getitem__)
        lowest, highest = sizes[self._sorted[0]], sizes[self._sorted[-1]]
        self.spread = highest - lowest
        self._bottom_end = 0
        self._bottom_size = lowest - 1
        self._next_least = 0
        self._top_start = self._top_end = len(self._sorted)
        self._top_size = highest + 1
        self._next_most = len(self._sorted) - 1

    def are_even(self) -> bool:
        return self._top_size - self._bottom_size <= 1

    def next_least_loaded(self) -> int:
        if self._next_least >= self._bottom_end:
            self._bottom_size += 1
            while self._bottom_end < len(self._sorted) and self._size_at(self._bottom_end) == self._bottom_size:
                self._bottom_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._sorted[self._next_least - 1]

    def next_most_loaded(self, held: Mapping[int, list[int]]) -> int | None:
        """The next one that has partitions to give; None when none has."""
        while True:
            if self._next_most < self._top_start:
                self._descend()
            if self._next_most < 0:
                return None
            place = self._next_most
            self._next_most -= 1
            if held.get(self._sorted[place]):
                return self._sorted[place]
            self._top_end -= 1
            self._sorted[place], self._sorted[self._top_end] = self._sorted[self._top_end], self._sorted[place]

    def _descend(self) -> None:
        if self._top_end <= self._top_start and self._top_start > 0:
            # No member is left at the top, so the levels between are empty too.
            self._top_size = self._size_at(self._top_start - 1)
        else:
            self._top_size -= 1
        while self._top_start > 0 and self._size_at(self._top_start - 1) == self._top_size:
            self._top_start -= 1
        self._next_most = self._top_end - 1

    def _size_at(self, index: int) -> int:
        return self._sizes[self._sorted[index]]
