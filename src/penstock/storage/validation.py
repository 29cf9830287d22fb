"""What a leader checks in the batch that a producer sent, and what it puts right."""

from penstock.model.buffers import Buffer
from penstock.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from penstock.records import (
    BatchView,
    Codec,
    CorruptBatch,
    RecordsError,
    UnsupportedCompression,
    parse_produced,
    scan,
    with_log_append_time,
    with_max_timestamp,
)
from penstock.storage.log_config import LogConfig


def validate(data: Buffer, config: LogConfig, *, allows_zstd: bool, now_ms: int) -> BatchView:
    """The batch as it is to be stored; a KafkaError says why it cannot be."""
    try:
        batch = parse_produced(data)
        if batch.size > config.max_message_bytes:
            raise MessageTooLarge(
                f"the batch has {batch.size} bytes; this topic takes at most {config.max_message_bytes}"
            )
        if batch.codec == Codec.NONE:
            batch = _with_true_max_timestamp(batch)
    except RecordsError as error:
        raise _as_kafka_error(error) from error
    if batch.codec == Codec.ZSTD and not allows_zstd:
        raise UnsupportedCompressionType("zstd needs Produce version 7 or newer")
    if config.uses_log_append_time:
        return BatchView(with_log_append_time(batch, now_ms))
    if batch.is_log_append_time:
        raise InvalidTimestamp("the time of appending is the broker's to set")
    return batch


def _with_true_max_timestamp(batch: BatchView) -> BatchView:
    """Read the records once: they must be well formed, and lookups by time rely on the header's maximum."""
    scanned = scan(batch.body, batch.record_count)
    max_timestamp = batch.base_timestamp + scanned.max_timestamp_delta
    return batch if max_timestamp == batch.max_timestamp else BatchView(with_max_timestamp(batch, max_timestamp))


def _as_kafka_error(error: RecordsError) -> KafkaError:
    if isinstance(error, CorruptBatch):
        return CorruptMessage(str(error))
    if isinstance(error, UnsupportedCompression):
        return UnsupportedCompressionType(str(error))
    return InvalidRecord(str(error))
