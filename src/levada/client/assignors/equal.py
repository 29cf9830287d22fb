"""The sticky assignment where all members subscribe to the same topics: everybody gets an equal share."""

from collections import deque
from collections.abc import Mapping, Sequence

from levada.client.assignors.claims import Ownership
from levada.client.assignors.order import text_order
from levada.client.assignors.racks import Racks
from levada.client.assignors.spec import Assignment, Partition


def assign_equal(topics: Mapping[str, int], ownership: Ownership, racks: Racks) -> Assignment:
    """Everybody keeps what it owns up to its share; what is left fills those that have less."""
    shares = _Shares(sum(topics.values()), ownership.held, racks)
    kept = {partition for partitions in shares.assignment.values() for partition in partitions}
    free = [
        (topic, number)
        for topic in sorted(topics, key=text_order)
        for number in range(topics[topic])
        if (topic, number) not in kept
    ]
    free = racks.rarest_first(free)
    if racks.matter:
        free = shares.fill_within_racks(free)
    shares.fill(free)
    return shares.assignment


class _Shares:
    """Members on the way to their shares: each gets the least, and as many as there are extras get one more."""

    def __init__(self, partition_count: int, held: Mapping[str, Sequence[Partition]], racks: Racks) -> None:
        self.assignment: Assignment = {}
        self._racks = racks
        self._least, self._extras = divmod(partition_count, len(held))
        # Members with less than the least, and those with exactly that many that may still get an extra.
        below: list[str] = []
        at_least: list[str] = []
        for member_id, owned in held.items():
            kept = self._kept(member_id, owned)
            self.assignment[member_id] = kept
            if len(kept) < self._least:
                below.append(member_id)
            elif len(kept) == self._least:
                at_least.append(member_id)
        self._below = sorted(below, key=text_order)
        self._at_least = sorted(at_least, key=text_order) if self._extras else []

    def _kept(self, member_id: str, owned: Sequence[Partition]) -> list[Partition]:
        """The first members that own more than the least keep an extra, until all extras are taken."""
        fitting = [partition for partition in owned if self._racks.fits(member_id, partition)]
        fitting.sort(key=lambda partition: (partition[1], text_order(partition[0])))
        if len(fitting) > self._least and self._extras:
            self._extras -= 1
            return fitting[: self._least + 1]
        return fitting[: self._least]

    def fill_within_racks(self, free: Sequence[Partition]) -> list[Partition]:
        """Give out, in turns, what members can read from their own rack; the rest comes back."""
        left: list[Partition] = []
        turn = 0
        for partition in free:
            place = self._next_sharing(partition, self._below, turn)
            if place is not None:
                turn = self._fill_one_below(place, partition)
                continue
            place = self._next_sharing(partition, self._at_least, 0)
            if place is None:
                left.append(partition)
                continue
            self.assignment[self._at_least.pop(place)].append(partition)
            self._extras -= 1
            if not self._extras:
                self._at_least.clear()
        return left

    def _next_sharing(self, partition: Partition, member_ids: Sequence[str], start: int) -> int | None:
        for step in range(len(member_ids)):
            place = (start + step) % len(member_ids)
            if self._racks.shares(member_ids[place], partition):
                return place
        return None

    def _fill_one_below(self, place: int, partition: Partition) -> int:
        """The place whose turn is next."""
        member_id = self._below[place]
        self.assignment[member_id].append(partition)
        if len(self.assignment[member_id]) < self._least:
            place += 1
        else:
            del self._below[place]
            if self._extras:
                self._at_least.append(member_id)
        return place % len(self._below) if self._below else 0

    def fill(self, free: Sequence[Partition]) -> None:
        """Give out the rest in turns, up to the least and then the extras."""
        below = deque(self._below)
        at_least = deque(self._at_least)
        for partition in free:
            taker = below.popleft() if below else at_least.popleft()
            mine = self.assignment[taker]
            mine.append(partition)
            if len(mine) < self._least:
                below.append(taker)
            elif len(mine) == self._least:
                at_least.append(taker)
        assert not below, "the shares of all members add up to all partitions"
