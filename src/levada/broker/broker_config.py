"""What a broker's keys hold now, and what that and a topic's own keys mean to the topic's logs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from levada.model.broker_keys import THROTTLE_KEYS
from levada.model.config import Config, Dynamic, InvalidValue, Key
from levada.model.topic_keys import TOPIC_KEYS
from levada.storage.log_config import LogConfig

NOTHING: Mapping[str, str] = MappingProxyType({})

MINUTE_MS = 60_000
HOUR_MS = 3_600_000

_TOPIC_KEYS = {key.name: key for key in TOPIC_KEYS}
_CODEC_LEVELS = {codec: f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd")}
_GZIP_OWN_LEVEL = -1


class Values(Protocol):
    """Parsed values by key."""

    def __getitem__(self, name: str, /) -> Any: ...


class BrokerConfig:
    """The keys given at start, under those that were set since for all brokers, under those set for this one."""

    def __init__(self, static: Config, cluster: Mapping[str, str] = NOTHING, own: Mapping[str, str] = NOTHING) -> None:
        self.static = static
        self.cluster: Mapping[str, str] = dict(cluster)
        self.own: Mapping[str, str] = dict(own)
        self.keys: Mapping[str, Key] = {**{key.name: key for key in THROTTLE_KEYS}, **static.keys}
        self._dynamic: dict[str, Any] = {}
        self.ignored = (*self._adopt(self.cluster), *self._adopt(self.own))
        """Why settings are not followed that were legal when they were made."""

    def __getitem__(self, name: str) -> Any:
        if name in self._dynamic:
            return self._dynamic[name]
        return self.static[name] if name in self.static.keys else self.keys[name].default

    def with_dynamic(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> "BrokerConfig":
        """The same broker with other settings; its `ignored` says what could not be followed."""
        return BrokerConfig(self.static, cluster, own)

    def _adopt(self, settings: Mapping[str, str]) -> list[str]:
        faults: list[str] = []
        for name, text in sorted(settings.items()):
            key = self.keys.get(name)
            # Kafka lets clients store keys that no broker knows.
            if key is None:
                continue
            if key.dynamic is Dynamic.READ_ONLY:
                faults.append(f"{name} can only be given at start")
                continue
            try:
                self._dynamic[name] = key.parse(text)
            except InvalidValue as error:
                faults.append(str(error))
        return faults


def retention_ms(config: Values) -> int:
    """How long records are kept: milliseconds win over minutes, minutes over hours; below 0 is for ever."""
    kept_ms = _first(
        config, ("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)
    )
    return max(kept_ms, -1)


def _first(config: Values, *synonyms: tuple[str, int]) -> int:
    """The first of some keys that has a value, in milliseconds; the last has a default."""
    for name, unit_ms in synonyms:
        if config[name] is not None:
            return int(config[name]) * unit_ms
    raise AssertionError(f"{synonyms[-1][0]} has a default")


def inherited_value(broker: BrokerConfig, key: Key) -> Any:
    """What a topic or group has where it says nothing itself."""
    match key.name:
        case "retention.ms":
            return retention_ms(broker)
        case "segment.ms":
            return _first(broker, ("log.roll.ms", 1), ("log.roll.hours", HOUR_MS))
        case "segment.jitter.ms":
            return _first(broker, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS))
        case "flush.ms":
            return _first(broker, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))
    return key.default if key.broker_default is None else broker[key.broker_default]


def own_value(key: Key, overrides: Mapping[str, str]) -> Any:
    """What a topic or group says itself; None where it does not, or says what can no longer be."""
    if key.name not in overrides:
        return None
    try:
        return key.parse(overrides[key.name])
    except InvalidValue:
        return None


class _TopicValues:
    """A topic's own values over the broker's."""

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
        self._broker = broker
        self._overrides = overrides

    def __getitem__(self, name: str) -> Any:
        key = _TOPIC_KEYS[name]
        value = own_value(key, self._overrides)
        return inherited_value(self._broker, key) if value is None else value


def log_config(broker: BrokerConfig, overrides: Mapping[str, str] = NOTHING) -> LogConfig:
    """What the logs of a topic with these keys of its own work by."""
    topic = _TopicValues(broker, overrides)
    smaller_segments = topic["internal.segment.bytes"]
    is_compacted = "compact" in topic["cleanup.policy"]
    max_lag_ms = topic["max.compaction.lag.ms"]
    return LogConfig(
        segment_bytes=topic["segment.bytes"] if smaller_segments is None else smaller_segments,
        # What is in the active segment cannot be cleaned.
        segment_ms=min(topic["segment.ms"], max_lag_ms) if is_compacted else topic["segment.ms"],
        segment_jitter_ms=topic["segment.jitter.ms"],
        index_interval_bytes=topic["index.interval.bytes"],
        max_index_bytes=topic["segment.index.bytes"],
        deletes_old_segments="delete" in topic["cleanup.policy"],
        is_compacted=is_compacted,
        min_cleanable_ratio=topic["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=topic["min.compaction.lag.ms"],
        max_compaction_lag_ms=max_lag_ms,
        delete_retention_ms=topic["delete.retention.ms"],
        retention_ms=topic["retention.ms"],
        retention_bytes=topic["retention.bytes"],
        flush_messages=topic["flush.messages"],
        flush_ms=topic["flush.ms"],
        producer_id_expiration_ms=broker["producer.id.expiration.ms"],
        uses_log_append_time=topic["message.timestamp.type"] == "LogAppendTime",
        max_message_bytes=topic["max.message.bytes"],
        max_timestamp_age_ms=topic["message.timestamp.before.max.ms"],
        max_timestamp_lead_ms=topic["message.timestamp.after.max.ms"],
        compression=topic["compression.type"],
        compression_level=_compression_level(topic),
        min_insync_replicas=topic["min.insync.replicas"],
        delete_delay_ms=topic["file.delete.delay.ms"],
    )


def _compression_level(topic: Values) -> int | None:
    name = _CODEC_LEVELS.get(topic["compression.type"])
    level = None if name is None else topic[name]
    # -1 is out of the codec's own range: it stands for its default.
    return None if name == _CODEC_LEVELS["gzip"] and level == _GZIP_OWN_LEVEL else level
