"""Builds whole record batches, data and control, and reads the records inside control batches."""

from collections.abc import Sequence
from enum import IntEnum
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from levada.records.batch import (
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from levada.records.checksum import crc32c
from levada.records.compression import Codec, compress
from levada.records.errors import InvalidRecord
from levada.records.kernel import encode
from levada.records.record import NO_TIMESTAMP, HeaderInput, Record, RecordInput

NO_EPOCH = -1

_CONTROL_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_timestamp_of = itemgetter(0)


def build_batch(
    records: Sequence[RecordInput],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    offset_deltas: Sequence[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """A whole batch of records (timestamp_ms, key, value, headers).

    What is left out follows from the records: the base timestamp is the first one's, offsets count from 0. Compaction
    keeps the gaps (offset_deltas), the end of the old batch (last_offset_delta), and sets the delete horizon. A batch
    without records, which compaction leaves behind to keep a producer's state, is a header alone.
    """
    base_timestamp = _first_known(delete_horizon_ms, base_timestamp)
    if base_timestamp is None:
        base_timestamp = records[0][0] if records else NO_TIMESTAMP
    max_timestamp = _first_known(log_append_time_ms, max_timestamp)
    if max_timestamp is None:
        max_timestamp = max(map(_timestamp_of, records), default=NO_TIMESTAMP)
    if last_offset_delta is None:
        last_offset_delta = offset_deltas[-1] if offset_deltas else max(len(records) - 1, 0)
    body = encode(records, base_timestamp, offset_deltas)
    attributes = (
        is_transactional * TRANSACTIONAL_BIT
        | is_control * CONTROL_BIT
        | (log_append_time_ms is not None) * TIMESTAMP_TYPE_BIT
        | (delete_horizon_ms is not None) * DELETE_HORIZON_BIT
    )
    if records and codec is not Codec.NONE:
        attributes |= codec
        body = compress(codec, body, level)
    length = HEADER_SIZE - LENGTH_OVERHEAD + len(body)
    header = bytearray(
        HEADER.pack(
            base_offset, length, partition_leader_epoch, MAGIC, 0, attributes, last_offset_delta,
            base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(records),
        )
    )  # fmt: skip
    header[17:CRC_START] = crc32c(body, crc32c(memoryview(header)[CRC_START:])).to_bytes(4)
    return b"".join((header, body))


def _first_known(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


class ControlType(IntEnum):
    """What a control record says; readers skip the types they do not know."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """A control record taken apart."""

    type: ControlType | None
    """None for a type from the future."""
    coordinator_epoch: int | None
    """Of the transaction coordinator, in ABORT and COMMIT only."""
    value: bytes
    """The message itself, for the KRaft types: encoded without a version in front."""


def end_transaction_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_EPOCH,
    headers: Sequence[HeaderInput] = (),
) -> bytes:
    """The control batch that ends a producer's transaction on a partition: ABORT or COMMIT; Apache gives no headers."""
    assert control_type in (ControlType.ABORT, ControlType.COMMIT)
    key = _CONTROL_KEY.pack(0, control_type)
    value = _MARKER_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        [(timestamp_ms, key, value, headers)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=True,
        is_control=True,
    )


def parse_control_record(record: Record) -> ControlRecord:
    """What a record of a control batch says; later versions of key and value only append to the known fields."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise InvalidRecord(f"control record at offset {record.offset} has no whole key")
    version, number = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidRecord(f"control record at offset {record.offset} has the key version {version}")
    control_type = _CONTROL_TYPES.get(number)
    value = record.value or b""
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(control_type, None, value)
    if len(value) < _MARKER_VALUE.size:
        raise InvalidRecord(f"transaction marker at offset {record.offset} has no whole value")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"transaction marker at offset {record.offset} has the version {version}")
    return ControlRecord(control_type, coordinator_epoch, value)


_CONTROL_TYPES = {int(control_type): control_type for control_type in ControlType}
