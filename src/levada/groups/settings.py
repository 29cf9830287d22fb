"""What groups are told when the node starts."""

from dataclasses import dataclass, field

from levada.groups.consumer.settings import ConsumerGroupSettings


@dataclass(frozen=True, slots=True)
class GroupSettings:
    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    max_offset_metadata_size: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_check_interval_ms: int = 600_000
    consumer: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
