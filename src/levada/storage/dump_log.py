"""The lines of a dumped .log, worded as Apache Kafka words them."""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from levada.records import BatchView, ControlType, Record, parse_control_record
from levada.records.batch import NO_SEQUENCE
from levada.storage.dump_batches import StoredBatch, Window, stored_batches
from levada.storage.formats import CorruptFile
from levada.world.disk import File

NO_LIMIT = (1 << 31) - 1

_MAX_SEQUENCE = (1 << 31) - 1

Speller: TypeAlias = Callable[[int, bytes, bytes | None], tuple[str, str | None]]
"""(offset, key, value) -> what is printed for the key, and for the value unless nothing is."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What of a .log is shown."""

    deep: bool = False
    """Also a line for each record."""
    contents: bool = False
    """And its key and value in it."""
    spell: Speller | None = None
    """How keys and values are printed; as the text they hold if None."""
    skip_record_metadata: bool = False
    max_bytes: int = NO_LIMIT


def log_lines(file: File, name: str, options: LogOptions, gap: Callable[[int, int], None]) -> Iterator[str]:
    """A line for each batch, and for each record if asked; `gap` is told of records that do not follow each other."""
    size = file.size()
    window = Window(file)
    last_offset = -1
    valid_bytes = 0
    for batch in stored_batches(window, 0, min(size, options.max_bytes)):
        yield batch_line(batch)
        valid_bytes += batch.header.size
        if not options.deep:
            continue
        for record in batch.records():
            if record.offset != last_offset + 1:
                gap(last_offset, record.offset)
            last_offset = record.offset
            yield _record_line(batch.header, record, options)
    if valid_bytes < size and options.max_bytes == NO_LIMIT:
        yield f"Found {size - valid_bytes} invalid bytes at the end of {name}"


def batch_line(batch: StoredBatch) -> str:
    header = batch.header
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {_last_sequence(header)}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {java_boolean(header.is_transactional)} isControl: {java_boolean(header.is_control)}"
        f" deleteHorizonMs: {java_optional(header.delete_horizon_ms)}"
        f" position: {batch.position} {_timestamp_type(header)}: {header.max_timestamp} size: {header.size}"
        f" magic: {header.magic} compresscodec: {header.codec.name.lower()} crc: {header.crc}"
        f" isvalid: {java_boolean(batch.is_valid())}"
    )


def java_boolean(value: bool) -> str:
    return "true" if value else "false"


def java_optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def java_text(data: bytes) -> str:
    """The bytes as Java's decoder of UTF-8 reads them, which differs from ours in what it replaces."""
    return data.decode(errors=_JAVA_REPLACE)


def _record_line(batch: BatchView, record: Record, options: LogOptions) -> str:
    metadata = contents = ""
    if not options.skip_record_metadata:
        metadata = _metadata(batch, record)
    if options.contents and not batch.is_control:
        contents = _contents(record, options.spell)
    if contents and not metadata:
        return f"|{contents}"
    return metadata + contents


def _metadata(batch: BatchView, record: Record) -> str:
    sequence = NO_SEQUENCE
    if batch.base_sequence >= 0:
        sequence = _following(batch.base_sequence, record.offset - batch.base_offset)
    header_keys = ",".join(name for name, _ in record.headers)
    return (
        f"| offset: {record.offset} {_timestamp_type(batch)}: {record.timestamp_ms}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        f" sequence: {sequence} headerKeys: [{header_keys}]{_control(record) if batch.is_control else ''}"
    )


def _last_sequence(batch: BatchView) -> int:
    """As Apache computes it also for damaged headers, whose sequence may be negative."""
    if batch.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return _following(batch.base_sequence, batch.last_offset_delta)


def _following(sequence: int, count: int) -> int:
    following = sequence + count
    return following if following <= _MAX_SEQUENCE else following - _MAX_SEQUENCE - 1


def _contents(record: Record, spell: Speller | None) -> str:
    key, value = _texts(record) if spell is None else _spelled(record, spell)
    return ("" if key is None else f" key: {key}") + ("" if value is None else f" payload: {value}")


def _texts(record: Record) -> tuple[str | None, str | None]:
    key = None if record.key is None else java_text(record.key)
    return key, None if record.value is None else java_text(record.value)


def _spelled(record: Record, spell: Speller) -> tuple[str, str | None]:
    if record.key is None:
        raise CorruptFile(f"the record at offset {record.offset} has no key, which the decoder needs")
    return spell(record.offset, record.key, record.value)


def _control(record: Record) -> str:
    control = parse_control_record(record)
    if control.type in (ControlType.ABORT, ControlType.COMMIT):
        return f" endTxnMarker: {control.type.name} coordinatorEpoch: {control.coordinator_epoch}"
    # Apache spells out the messages of its own quorum; here they are only named, as it does with unknown ones.
    number = int.from_bytes((record.key or b"")[2:4], signed=True)
    return f" controlType: {control.type.name if control.type else 'UNKNOWN'}({number})"


def _timestamp_type(batch: BatchView) -> str:
    return "LogAppendTime" if batch.is_log_append_time else "CreateTime"


def _size(field: bytes | None) -> int:
    return -1 if field is None else len(field)


_JAVA_REPLACE = "levada-java-replace"


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Java replaces an encoded surrogate as a whole, where Python replaces each of its bytes."""
    assert isinstance(error, UnicodeDecodeError)
    first, second, third = (error.object[error.start + at : error.start + at + 1] for at in range(3))
    if first == b"\xed" and b"\xa0" <= second <= b"\xbf":
        return "\ufffd", error.start + (3 if b"\x80" <= third <= b"\xbf" else 2)
    return "\ufffd", error.end


codecs.register_error(_JAVA_REPLACE, _replace_as_java)
