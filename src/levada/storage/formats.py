"""The small binary records beside a log, as Apache Kafka lays them out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct

from levada.records.checksum import crc32c

OFFSET_ENTRY = Struct(">ii")
"""Offset relative to the segment's base, position in the file."""

TIME_ENTRY = Struct(">qi")
"""Timestamp, offset relative to the segment's base."""

ABORTED_TRANSACTION = Struct(">hqqqq")
"""Version 0, producer id, first offset, last offset, last stable offset."""

SNAPSHOT_HEADER = Struct(">hIi")
"""Version 1, CRC-32C of all that follows it, number of producers."""

PRODUCER_ENTRY = Struct(">qhiqiqiq")

_CRC_END = 6


class CorruptFile(Exception):
    """A file beside a log that cannot be what its name says."""


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        return ABORTED_TRANSACTION.pack(
            0, self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset
        )


def decode_aborted_transactions(data: bytes) -> Iterator[AbortedTransaction]:
    """The entries of a .txnindex."""
    if len(data) % ABORTED_TRANSACTION.size:
        raise CorruptFile(f"{len(data)} bytes are no whole number of aborted transactions")
    for version, *fields in ABORTED_TRANSACTION.iter_unpack(data):
        if version != 0:
            raise CorruptFile(f"an aborted transaction of version {version}")
        yield AbortedTransaction(*fields)


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """What a .snapshot keeps of one producer."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_transaction_first_offset: int


def encode_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    entries = [
        PRODUCER_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp_ms,
            entry.coordinator_epoch,
            entry.current_transaction_first_offset,
        )
        for entry in producers
    ]
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    return (1).to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a .snapshot; CorruptFile when it is torn or damaged."""
    if len(data) < SNAPSHOT_HEADER.size:
        raise CorruptFile(f"a snapshot of {len(data)} bytes")
    version, crc, count = SNAPSHOT_HEADER.unpack_from(data)
    if version != 1:
        raise CorruptFile(f"a snapshot of version {version}")
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptFile("a snapshot that does not match its CRC")
    if count != (len(data) - SNAPSHOT_HEADER.size) / PRODUCER_ENTRY.size:
        raise CorruptFile(f"a snapshot of {len(data)} bytes cannot hold {count} producers")
    return [ProducerEntry(*fields) for fields in PRODUCER_ENTRY.iter_unpack(data[SNAPSHOT_HEADER.size :])]
