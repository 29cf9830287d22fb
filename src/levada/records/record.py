"""The plain types that the compiled kernel and its pure twin share."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from levada.model.buffers import Buffer

Header: TypeAlias = tuple[str, bytes | None]
HeaderInput: TypeAlias = tuple[str, Buffer | None]

# What encode takes: timestamp in ms, key, value, headers. It is a Record without its offset: `record[1:]`.
RecordInput: TypeAlias = tuple[int, Buffer | None, Buffer | None, Sequence[HeaderInput]]

# Length, attributes, timestamp delta, offset delta, key length, value length and header count take one byte each.
SMALLEST_RECORD = 7

BATCH_MAGIC = 2
BATCH_HEADER = Struct(">qiibIhiqqqhii")
BATCH_HEADER_SIZE = BATCH_HEADER.size
# The base offset and the length field itself, which the length does not count.
BATCH_LENGTH_OVERHEAD = 12
BATCH_TRANSACTIONAL_BIT = 0x10

CREATE_TIME = 0
LOG_APPEND_TIME = 1

NO_TIMESTAMP = -1
"""What a record says that was given no time; no bound applies to it."""


class Record(NamedTuple):
    """One record as a consumer sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class ConsumerRecord(NamedTuple):
    """One record as a consumer hands it out, with the partition that it came from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    """CREATE_TIME or LOG_APPEND_TIME."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int | None
    """Of the leader that appended it; None where the broker did not say."""


class Scan(NamedTuple):
    """What one walk over an uncompressed record section found; every record in it is well formed."""

    record_count: int
    first_offset_delta: int
    last_offset_delta: int
    is_consecutive: bool
    """Whether the offset deltas are exactly 0, 1, 2, ..."""
    min_timestamp_delta: int
    max_timestamp_delta: int
    max_timestamp_index: int
    """Index of the first record with the largest timestamp; -1 if there are no records."""
    null_key_count: int


class Sifted(NamedTuple):
    """What compaction leaves of a section's records."""

    kept: int
    keyless: int
    """Records without a key, which a compacted log should not have: they go."""
    has_tombstone: bool
    """Whether one that stays has no value."""
    flags: bytearray
    """1 for each record that stays, 0 for each that goes."""


class RecordSection(NamedTuple):
    """One uncompressed record section and the header fields its records are relative to."""

    body: Buffer
    record_count: int
    base_offset: int
    base_timestamp: int
    log_append_timestamp: int | None


class BinaryColumn(NamedTuple):
    """A nullable variable-length column in Arrow's layout: validity bits, int32 offsets, data."""

    null_count: int
    validity: Buffer
    offsets: Buffer
    data: Buffer


class Columns(NamedTuple):
    """Records as Arrow buffers in native byte order; headers are a list of (key, value) structs per record."""

    record_count: int
    offsets: Buffer
    timestamps: Buffer
    keys: BinaryColumn
    values: BinaryColumn
    header_count: int
    header_list_offsets: Buffer
    header_key_offsets: Buffer
    header_key_data: Buffer
    header_values: BinaryColumn
