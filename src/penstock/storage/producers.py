"""What a log remembers of idempotent producers: the rules of sequence numbers."""

from collections import deque
from dataclasses import dataclass, field

from penstock.model.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber

NO_PRODUCER = -1
REMEMBERED_BATCHES = 5
"""A producer keeps at most five requests in flight, so a duplicate is one of the last five."""

_MAX_SEQUENCE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class Producer:
    epoch: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))


class Producers:
    """The producers of one log, by id."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}

    def duplicate_of(self, producer_id: int, epoch: int, first: int, last: int) -> AppendedBatch | None:
        """The remembered batch that this one repeats; raises when it may not follow what is known."""
        known = self._producers.get(producer_id)
        if known is None:
            # The state may have expired with the records it came from, so any beginning is accepted.
            return None
        if epoch < known.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {known.epoch}, the batch came with {epoch}")
        if epoch > known.epoch:
            if first != 0:
                raise OutOfOrderSequenceNumber(f"producer {producer_id} begins epoch {epoch} with sequence {first}")
            return None
        for batch in known.batches:
            if (batch.first_sequence, batch.last_sequence) == (first, last):
                return batch
        expected = next_sequence(known.batches[-1].last_sequence) if known.batches else 0
        if first != expected:
            raise OutOfOrderSequenceNumber(
                f"producer {producer_id} sent sequence {first} where {expected} was expected"
            )
        return None

    def appended(self, producer_id: int, epoch: int, batch: AppendedBatch) -> None:
        known = self._producers.get(producer_id)
        if known is None or known.epoch != epoch:
            known = self._producers[producer_id] = Producer(epoch)
        known.batches.append(batch)


def next_sequence(sequence: int) -> int:
    return 0 if sequence == _MAX_SEQUENCE else sequence + 1
