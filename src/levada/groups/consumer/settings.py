"""What consumer groups are told, by the broker for all of them and by a group's own configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class MigrationPolicy(Enum):
    """Between which protocols a group may change while it has members."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class Interval:
    """A time that a group may choose for itself, within what the broker allows."""

    default_ms: int
    min_ms: int
    max_ms: int

    def of(self, config: Mapping[str, str], key: str) -> int:
        """A group's own value, brought into the broker's range; the broker's default is not questioned."""
        text = config.get(key)
        return self.default_ms if text is None else min(max(int(text), self.min_ms), self.max_ms)


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The `group.consumer.*` keys."""

    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is used by groups whose members name none."""
    session_timeout: Interval = Interval(45_000, 45_000, 60_000)
    heartbeat_interval: Interval = Interval(5_000, 5_000, 15_000)
    assignment_interval: Interval = Interval(1_000, 0, 15_000)
    """A group has its next assignment not before this time has passed since its last (KIP-1263)."""
    max_size: int = 2**31 - 1
    regex_refresh_interval_ms: int = 600_000
    max_classic_size: int = 2**31 - 1
    """`group.max.size`: a larger group does not become a classic one."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    def session_timeout_ms(self, config: Mapping[str, str]) -> int:
        return self.session_timeout.of(config, "consumer.session.timeout.ms")

    def heartbeat_interval_ms(self, config: Mapping[str, str]) -> int:
        return self.heartbeat_interval.of(config, "consumer.heartbeat.interval.ms")

    def assignment_interval_ms(self, config: Mapping[str, str]) -> int:
        return self.assignment_interval.of(config, "consumer.assignment.interval.ms")
