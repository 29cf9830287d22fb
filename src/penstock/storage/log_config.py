"""What a topic's configuration means to its logs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Defaults are Kafka's."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    max_index_bytes: int = 10 << 20
    deletes_old_segments: bool = True
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    flush_messages: int = 2**63 - 1
    flush_ms: int = 2**63 - 1
    producer_id_expiration_ms: int = 24 * 3_600_000
    uses_log_append_time: bool = False
    max_message_bytes: int = 1_048_588
