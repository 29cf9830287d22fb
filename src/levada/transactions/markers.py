"""What is left to do when a transaction's outcome is decided: markers for all partitions it wrote to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from levada.coordination.shard import Token
from levada.transactions.records import NO_GROUP
from levada.transactions.states import COMMITTED
from levada.transactions.transaction import TopicPartition, Transaction


class _Markers(Token["MarkerWork"]):
    def __repr__(self) -> str:
        return "MARKERS"


MARKERS: Final = _Markers()
"""The token under which MarkerWork leaves the shard, as a reply does: when the decision is committed.

If the decision cannot be written, or another coordinator takes over, what comes with it is an ApiError instead; there
is nothing to do then.
"""


class Marker(NamedTuple):
    """Ends one transaction in each of its partitions; a transaction without partitions needs none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    """From version 2 on the epoch is one that no record of the transaction has (KIP-890)."""
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MarkerWork:
    """One transaction's markers, or those of a whole group commit.

    Those for one partition are to be appended in one write. When a transaction has its markers in all partitions, the
    machine is told by `markers_written`.
    """

    markers: tuple[Marker, ...]
    group: bytes = NO_GROUP
    """Of the group commit that ties them together."""

    @classmethod
    def of(cls, transactions: Sequence[Transaction]) -> "MarkerWork":
        """Of one transaction, or of those that were committed together."""
        [group] = {one.group for one in transactions}
        return cls(tuple(map(_marker, transactions)), group)

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        return tuple(marker.transactional_id for marker in self.markers)

    def by_partition(self) -> Mapping[TopicPartition, list[Marker]]:
        """What each partition gets in one write."""
        found: dict[TopicPartition, list[Marker]] = {}
        for marker in self.markers:
            for partition in marker.partitions:
                found.setdefault(partition, []).append(marker)
        return found


def _marker(transaction: Transaction) -> Marker:
    return Marker(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state in COMMITTED,
        transaction.client_version,
        tuple(sorted(transaction.partitions)),
    )
