"""What a topic's configuration means to its logs."""

from dataclasses import dataclass

NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Defaults are Kafka's."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    max_index_bytes: int = 10 << 20
    deletes_old_segments: bool = True
    is_compacted: bool = False
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    delete_retention_ms: int = 24 * 3_600_000
    """How long a tombstone stays after the first cleaning that met it."""
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    producer_id_expiration_ms: int = 24 * 3_600_000
    uses_log_append_time: bool = False
    max_message_bytes: int = 1_048_588
    max_timestamp_age_ms: int = 2**63 - 1
    """How far a record's CreateTime may lie behind the broker's clock."""
    max_timestamp_lead_ms: int = 3_600_000
    """How far it may lie ahead of it."""
    compression: str = "producer"
    """What batches are stored with: `producer` leaves them as they come, `uncompressed` and codecs rewrite them."""
    compression_level: int | None = None
    """The level of that codec; None is the codec's own default."""
    min_insync_replicas: int = 1
    delete_delay_ms: int = 60_000
    """How long files that were deleted lie there under another name."""

    @property
    def may_wait_for_flush(self) -> bool:
        """Whether an append may have to be on the device before it is acknowledged."""
        return self.flush_messages != NEVER

    @property
    def stores_as_produced(self) -> bool:
        """Whether a batch without compression is stored as it comes, if its timestamps are right."""
        return self.compression == "producer" and not self.uses_log_append_time and not self.is_compacted
