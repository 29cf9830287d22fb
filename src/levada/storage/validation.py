"""What a leader checks in the batch that a producer sent, and what it puts right.

Records that come uncompressed are read once, by the kernel. A compressed batch is opened only where its records matter:
the topic wants keys or stores another codec, or the header's times are out of bounds. Else its header speaks for it.
"""

from types import MappingProxyType
from typing import Final

from levada.model.buffers import Buffer
from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    RecordsRefused,
    RecordTooLarge,
    UnsupportedCompressionType,
)
from levada.records import (
    BatchView,
    Codec,
    CorruptBatch,
    DecompressedTooLarge,
    RecordsError,
    Scan,
    UnsupportedCompression,
    find_unfit,
    parse_produced,
    plain_batch,
    plain_batch_of_producer,
    scan,
    with_codec,
    with_log_append_time,
    with_max_timestamp,
)
from levada.records.batch import CRC_START, HEADER_SIZE, MAGIC, NO_PRODUCER_ID, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT
from levada.records.checksum import crc32c
from levada.records.compression import CODEC_BITS
from levada.records.record import NO_TIMESTAMP
from levada.storage.log_config import LogConfig
from levada.storage.outcomes import PlainBatch

MAX_OPENED: Final = 64 << 20
MAX_OPENED_AT_ONCE: Final = 1 << 20
"""What is decompressed without a second thought; more takes milliseconds."""
SLOWER_TO_COMPRESS: Final = 8
"""Than to decompress, at least."""

MAX_LISTED: Final = 10_000
"""How many refused records a reply lists. Apache lists all, but what a small batch is opened to may hold millions."""

_CODECS: MappingProxyType[str, Codec] = MappingProxyType(
    {
        "uncompressed": Codec.NONE,
        "gzip": Codec.GZIP,
        "snappy": Codec.SNAPPY,
        "lz4": Codec.LZ4,
        "zstd": Codec.ZSTD,
    }
)
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_BAD_TIMES = "One or more records have been rejected due to invalid timestamp"


def most_opened(config: LogConfig) -> int:
    """What a batch may hold once it is decompressed, to be accepted or searched."""
    # What a topic takes uncompressed it must take compressed too.
    return max(MAX_OPENED, config.max_message_bytes)


class TakesLong(Exception):
    """A batch holds more than may be opened now; a caller that can opens it where that holds nothing else up."""


def validate(
    data: Buffer,
    config: LogConfig,
    *,
    allows_zstd: bool,
    now_ms: int,
    topic_partition: str = "",
    max_opened: int | None = None,
) -> BatchView:
    """The batch as it is to be stored; a ApiError says why it cannot be, RecordsRefused which records are at fault.

    topic_partition is for the texts of errors alone. A batch that would have to be opened, and holds more than
    max_opened bytes, is TakesLong.
    """
    batch = _parse(data, config, allows_zstd)
    bounds = _time_bounds(config, now_ms)
    plain = plain_batch_of_producer(data) if config.stores_as_produced else None
    if plain is not None and _times_fit(plain[2], plain[3], bounds):
        return batch
    is_stamped = batch.attributes & TIMESTAMP_TYPE_BIT
    if is_stamped and config.uses_log_append_time:
        raise _stamped_by_producer(batch)
    source = batch.attributes & CODEC_BITS
    target = _CODECS.get(config.compression, source)
    max_timestamp = batch.max_timestamp
    if not source or target != source or is_stamped or config.is_compacted or not _header_fits(batch, bounds):
        body, found = _read(batch, config, max_opened)
        max_timestamp = _check_records(batch, body, found, bounds, config.is_compacted, topic_partition)
        if (source or target) and not found.is_consecutive:
            raise InvalidRecord("the offsets inside the batch are not 0, 1, 2, ...")
        if target != source:
            if max_opened is not None and len(body) * SLOWER_TO_COMPRESS > max_opened:
                raise TakesLong
            batch = _rewrite(batch, body, Codec(target), config)
    if config.uses_log_append_time:
        return BatchView(with_log_append_time(batch, now_ms))
    if is_stamped or max_timestamp != batch.max_timestamp:
        # A producer's claim to the broker's time is dropped: the records count with their own.
        return BatchView(with_max_timestamp(batch, max_timestamp))
    return batch


def check_plain(data: memoryview, config: LogConfig, now_ms: int) -> PlainBatch | None:
    """What a log must know of a batch that `validate` would pass as it is, and of no producer that must be remembered.

    None for any other, which takes a closer look.
    """
    if not config.stores_as_produced or len(data) > config.max_message_bytes:
        return None
    found = plain_batch(data)
    if found is None:
        return None
    crc, last_offset_delta, min_timestamp, max_timestamp = found
    if not _times_fit(min_timestamp, max_timestamp, _time_bounds(config, now_ms)):
        return None
    return (last_offset_delta, max_timestamp) if crc32c(data[CRC_START:]) == crc else None


def _parse(data: Buffer, config: LogConfig, allows_zstd: bool) -> BatchView:
    if len(data) > config.max_message_bytes:
        _refuse_size(data, config)
    try:
        batch = parse_produced(data)
    except RecordsError as error:
        raise _as_kafka_error(error) from error
    if batch.base_offset:
        raise InvalidRecord(f"the base offset of a batch must be 0, not {batch.base_offset}")
    if batch.attributes:
        if not allows_zstd and batch.codec is Codec.ZSTD:
            raise UnsupportedCompressionType("zstd needs Produce version 7 or newer")
        # Apache stores these, or fails on them where the codec changes; no transaction could ever end them.
        if batch.attributes & TRANSACTIONAL_BIT and batch.producer_id == NO_PRODUCER_ID:
            raise InvalidRecord("a transactional batch without a producer id")
    return batch


def _refuse_size(data: Buffer, config: LogConfig) -> None:
    """Too much data is a fault of size only if it is one batch; what else it may be, the parser tells."""
    if len(data) < HEADER_SIZE:
        return
    batch = BatchView(data)
    if batch.magic == MAGIC and batch.size == len(data):
        raise _too_large(batch.size, config)


def _too_large(size: int, config: LogConfig) -> RecordTooLarge:
    return RecordTooLarge(f"the batch has {size} bytes; this topic takes at most {config.max_message_bytes}")


def _as_kafka_error(error: RecordsError) -> ApiError:
    if isinstance(error, CorruptBatch):
        return CorruptRecord(str(error))
    if isinstance(error, UnsupportedCompression):
        return UnsupportedCompressionType(str(error))
    return InvalidRecord(str(error))


def _time_bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and the latest timestamp that the topic takes from producers."""
    if config.uses_log_append_time:
        return _MIN_INT64, _MAX_INT64
    latest_ms = now_ms + config.max_timestamp_lead_ms
    return now_ms - config.max_timestamp_age_ms, latest_ms if latest_ms < _MAX_INT64 else _MAX_INT64


def _times_fit(min_timestamp: int, max_timestamp: int, bounds: tuple[int, int]) -> bool:
    return min_timestamp >= bounds[0] and max_timestamp <= bounds[1]


def _header_fits(batch: BatchView, bounds: tuple[int, int]) -> bool:
    """Whether the times in the header give no reason to look at those of the records."""
    times = batch.base_timestamp, batch.max_timestamp
    return _times_fit(min(times), max(times), bounds)


def _read(batch: BatchView, config: LogConfig, max_opened: int | None) -> tuple[Buffer, Scan]:
    """The record section without compression, found well formed by the kernel, and what it found."""
    try:
        body: Buffer
        if batch.attributes & CODEC_BITS:
            most = most_opened(config)
            body = batch.uncompressed_body(most if max_opened is None else min(most, max_opened))
        else:
            body = memoryview(batch.buffer)[HEADER_SIZE:]
        return body, scan(body, batch.record_count)
    except DecompressedTooLarge as error:
        if max_opened is not None:
            raise TakesLong from None
        raise RecordTooLarge(str(error)) from error
    except RecordsError as error:
        raise InvalidRecord(str(error)) from error


def _check_records(
    batch: BatchView, body: Buffer, found: Scan, bounds: tuple[int, int], needs_keys: bool, topic_partition: str
) -> int:
    """The maximum timestamp of the records, which lookups by time rely on, if they keep the topic's rules."""
    min_timestamp = batch.base_timestamp + found.min_timestamp_delta
    max_timestamp = batch.base_timestamp + found.max_timestamp_delta
    if not _times_fit(min_timestamp, max_timestamp, bounds) or (needs_keys and found.null_key_count):
        unfit = find_unfit(body, batch.record_count, batch.base_timestamp, *bounds, needs_keys, MAX_LISTED)
        if unfit:
            raise _refusal(unfit, found.null_key_count, bounds, topic_partition)
        if min_timestamp < _MIN_INT64 or max_timestamp > _MAX_INT64:
            raise InvalidTimestamp("a timestamp does not fit 64 bits")
    return max_timestamp if max_timestamp > NO_TIMESTAMP else NO_TIMESTAMP


def _refusal(
    unfit: list[tuple[int, int | None]], null_key_count: int, bounds: tuple[int, int], topic_partition: str
) -> RecordsRefused:
    """The error that lists these records, in Apache's words."""
    earliest_ms, latest_ms = bounds
    errors = [
        (
            index,
            f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
            if timestamp_ms is None
            else f"Timestamp {timestamp_ms} of message with offset {index} is out of range. "
            f"The timestamp should be within [{earliest_ms}, {latest_ms}]",
        )
        for index, timestamp_ms in unfit
    ]
    if any(timestamp_ms is not None for _, timestamp_ms in unfit):
        return RecordsRefused(ErrorCode.INVALID_TIMESTAMP, _BAD_TIMES, errors)
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3])
    return RecordsRefused(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {null_key_count} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
        errors,
    )


def _stamped_by_producer(batch: BatchView) -> RecordsRefused:
    text = "Invalid timestamp type. Producer should not set timestamp type to LogAppendTime."
    errors = [(index, text) for index in range(min(batch.record_count, MAX_LISTED))]
    return RecordsRefused(ErrorCode.INVALID_TIMESTAMP, _BAD_TIMES, errors)


def _rewrite(batch: BatchView, body: Buffer, codec: Codec, config: LogConfig) -> BatchView:
    """The batch with the codec of its topic; what it gained by that must fit, too."""
    rewritten = BatchView(with_codec(batch, body, codec, config.compression_level))
    if rewritten.size > config.max_message_bytes:
        raise _too_large(rewritten.size, config)
    return rewritten
