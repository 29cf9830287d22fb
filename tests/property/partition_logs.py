"""Partitions as transactions see them: records of producers, and markers that decide about them."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from levada.transactions import Marker


@dataclass(slots=True)
class OfProducer:
    epoch: int
    coordinator_epoch: int = -1
    open: list[Hashable] = field(default_factory=list)
    """The transactions whose records are not decided yet; more than one would be a mistake."""


class PartitionLog:
    """Checks epochs as `storage.producers` does."""

    def __init__(self) -> None:
        self._producers: dict[int, OfProducer] = {}
        self.outcomes: dict[Hashable, set[bool]] = {}
        """Of each transaction with records here: how they were decided."""

    def append(self, producer_id: int, epoch: int, transaction: Hashable) -> bool:
        """A record; False if its epoch is an old one."""
        known = self._producers.setdefault(producer_id, OfProducer(epoch))
        if epoch < known.epoch:
            return False
        known.epoch = epoch
        known.open.append(transaction)
        self.outcomes.setdefault(transaction, set())
        return True

    def write(self, markers: Sequence[Marker], coordinator_epoch: int) -> None:
        """Markers in one write; those that an old coordinator is late with are refused."""
        for marker in markers:
            known = self._producers.setdefault(marker.producer_id, OfProducer(marker.producer_epoch))
            is_next = marker.transaction_version >= 2 and marker.producer_epoch == known.epoch and known.open
            if marker.producer_epoch < known.epoch or is_next or coordinator_epoch < known.coordinator_epoch:
                continue
            for transaction in known.open:
                self.outcomes[transaction].add(marker.is_commit)
            known.open.clear()
            known.epoch, known.coordinator_epoch = marker.producer_epoch, coordinator_epoch

    def is_settled(self) -> bool:
        """Whether readers of committed records can read everything."""
        return not any(producer.open for producer in self._producers.values())

    def visible(self, transactions: Iterable[Hashable]) -> tuple[int, int]:
        """How many of those with records here are visible, and how many they are."""
        here = [self.outcomes[one] for one in transactions if one in self.outcomes]
        return sum(True in outcomes for outcomes in here), len(here)
