"""Compares what the replicas of a partition hold, batch by batch, up to where it is committed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from levada.client.types import TopicPartition
from levada.records import BatchView, CorruptBatch, iter_batches


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one replica answered."""

    high_watermark: int
    records: bytes = b""


NOTHING = Fetched(high_watermark=-1)
"""Of a replica that could not be read."""


@dataclass(slots=True)
class Verdict:
    next_offset: int
    """Up to here all replicas hold the same."""
    high_watermark: int
    """The largest that a replica knows."""
    faults: list[str] = field(default_factory=list)
    is_hopeless: bool = False
    """The replicas hold other offsets, so that there is nothing left to compare."""

    @property
    def lag(self) -> int:
        return self.high_watermark - self.next_offset


def compare(partition: TopicPartition, offset: int, fetched: Mapping[int, Fetched]) -> Verdict:
    """From an offset on, as far as every replica has answered; a checksum that is wrong does not end it."""
    verdict = Verdict(offset, max(one.high_watermark for one in fetched.values()))
    batches = {replica: _committed(one) for replica, one in fetched.items()}
    while True:
        found: dict[int, BatchView] = {}
        for replica, each in batches.items():
            try:
                batch = next(each, None)
            except CorruptBatch as error:
                verdict.faults.append(f"partition {partition}: replica {replica} cannot be read: {error}")
                return verdict
            if batch is None:
                return verdict
            found[replica] = batch
        _compare_batches(partition, found, verdict)
        if verdict.is_hopeless:
            return verdict
        verdict.next_offset = next(iter(found.values())).next_offset


def _committed(fetched: Fetched) -> Iterator[BatchView]:
    for batch in iter_batches(fetched.records):
        if batch.last_offset >= fetched.high_watermark:
            return
        yield batch


def _compare_batches(partition: TopicPartition, found: Mapping[int, BatchView], verdict: Verdict) -> None:
    (first, model), *others = found.items()
    for replica, batch in found.items():
        if not batch.crc_is_valid():
            verdict.faults.append(
                f"partition {partition} has a damaged batch at offset {batch.last_offset}; replica {replica}'s checksum"
                f" {batch.crc} does not fit its bytes"
            )
    for replica, batch in others:
        if batch.last_offset != model.last_offset:
            verdict.faults.append(
                f"partition {partition}: replica {first}'s offset {model.last_offset} doesn't match"
                f" replica {replica}'s offset {batch.last_offset}"
            )
            verdict.is_hopeless = True
            return
        if batch.crc != model.crc:
            verdict.faults.append(
                f"partition {partition} has unmatched checksum at offset {batch.last_offset};"
                f" replica {first}'s checksum {model.crc}; replica {replica}'s checksum {batch.crc}"
            )
