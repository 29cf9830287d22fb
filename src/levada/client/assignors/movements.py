"""Which partitions have moved while loads were evened out, so that none moves in vain."""

from levada.client.assignors.order import first_in_hash_order
from levada.client.assignors.spec import Partition


class Movements:
    """Per topic, what has moved from one member to another; members are known by their place."""

    def __init__(self) -> None:
        self._ways: dict[Partition, tuple[int, int]] = {}
        self._moved: dict[tuple[str, int, int], dict[Partition, None]] = {}

    def record(self, partition: Partition, giver: int, taker: int) -> None:
        """A partition that moves on has moved from where it first was; one that moves back has not moved."""
        known = self._ways.pop(partition, None)
        if known is not None:
            del self._moved[partition[0], *known][partition]
            giver = known[0]
        if giver != taker:
            self._ways[partition] = giver, taker
            self._moved.setdefault((partition[0], giver, taker), {})[partition] = None

    def to_return(self, partition: Partition, owner: int, taker: int) -> Partition | None:
        """What could go back to the taker instead of moving this partition there."""
        first_owner, _ = self._ways.get(partition, (owner, owner))
        moved = self._moved.get((partition[0], taker, first_owner))
        return first_in_hash_order(moved) if moved else None
