"""Which of a broker's settings counts, and what a topic makes of it."""

from dataclasses import fields

import pytest

from levada.broker.broker_config import BrokerConfig, log_config
from levada.model.broker_keys import NODE_KEYS
from levada.model.config import Config
from levada.storage.log_config import LogConfig

DAY_MS = 24 * 3_600_000


def broker(**given: str) -> BrokerConfig:
    """A broker that was given some keys at start; `_` stands for the dots."""
    return BrokerConfig(Config(NODE_KEYS, {name.replace("_", "."): text for name, text in given.items()}))


def test_the_nearer_setting_wins() -> None:
    static = broker(max_connections="3")
    assert broker()["max.connections"] == 2**31 - 1
    assert static["max.connections"] == 3
    everywhere = static.with_dynamic({"max.connections": "4"}, {})
    assert everywhere["max.connections"] == 4
    here = static.with_dynamic({"max.connections": "4"}, {"max.connections": "5"})
    assert here["max.connections"] == 5
    assert here.with_dynamic({}, {})["max.connections"] == 3


def test_a_setting_that_no_longer_parses_is_passed_over_and_said() -> None:
    config = broker(max_connections="3").with_dynamic({"max.connections": "4"}, {"max.connections": "many"})
    assert config["max.connections"] == 4
    assert config.ignored == ("max.connections must be of type int, not 'many'",)


def test_a_key_for_the_start_is_not_followed_later() -> None:
    config = broker(num_partitions="3").with_dynamic({"num.partitions": "4"}, {})
    assert config["num.partitions"] == 3
    assert config.ignored == ("num.partitions can only be given at start",)


def test_unknown_keys_are_kept_and_do_nothing() -> None:
    config = broker().with_dynamic({"another.one": "1"}, {})
    assert config.cluster == {"another.one": "1"}
    assert config.ignored == ()
    with pytest.raises(KeyError):
        config["another.one"]


def test_throttles_are_only_set_while_the_broker_runs() -> None:
    rate = "leader.replication.throttled.rate"
    assert broker()[rate] == 2**63 - 1
    assert broker().with_dynamic({}, {rate: "100"})[rate] == 100


def test_a_topic_without_keys_has_the_defaults_of_a_log() -> None:
    assert log_config(broker()) == LogConfig(
        retention_ms=7 * DAY_MS, segment_ms=7 * DAY_MS, compression="producer", compression_level=None
    )
    assert log_config(broker()) == LogConfig()


BROKER_KEY_OF = {
    "segment_bytes": ("log.segment.bytes", "segment.bytes", "2097152", "3145728"),
    "segment_ms": ("log.roll.ms", "segment.ms", "11", "12"),
    "segment_jitter_ms": ("log.roll.jitter.ms", "segment.jitter.ms", "11", "12"),
    "index_interval_bytes": ("log.index.interval.bytes", "index.interval.bytes", "11", "12"),
    "max_index_bytes": ("log.index.size.max.bytes", "segment.index.bytes", "11", "12"),
    "retention_ms": ("log.retention.ms", "retention.ms", "11", "12"),
    "retention_bytes": ("log.retention.bytes", "retention.bytes", "11", "12"),
    "flush_messages": ("log.flush.interval.messages", "flush.messages", "11", "12"),
    "flush_ms": ("log.flush.interval.ms", "flush.ms", "11", "12"),
    "max_message_bytes": ("message.max.bytes", "max.message.bytes", "11", "12"),
    "max_timestamp_age_ms": ("log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms", "11", "12"),
    "max_timestamp_lead_ms": ("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms", "11", "12"),
    "min_insync_replicas": ("min.insync.replicas", "min.insync.replicas", "2", "3"),
    "min_compaction_lag_ms": ("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms", "11", "12"),
    "max_compaction_lag_ms": ("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms", "11", "12"),
    "delete_retention_ms": ("log.cleaner.delete.retention.ms", "delete.retention.ms", "11", "12"),
    "delete_delay_ms": ("log.segment.delete.delay.ms", "file.delete.delay.ms", "11", "12"),
}


@pytest.mark.parametrize("field", BROKER_KEY_OF)
def test_a_topics_own_number_wins_over_the_brokers(field: str) -> None:
    broker_key, topic_key, brokers, topics = BROKER_KEY_OF[field]
    config = broker().with_dynamic({broker_key: brokers}, {})
    assert getattr(log_config(config), field) == int(brokers)
    assert getattr(log_config(config, {topic_key: topics}), field) == int(topics)
    assert getattr(log_config(config, {topic_key: "not a number"}), field) == int(brokers)


def test_the_active_segment_of_a_compacted_log_is_closed_in_time_for_its_cleaning() -> None:
    given = {"max.compaction.lag.ms": "50", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.25"}
    assert log_config(broker(), given).segment_ms == 100
    compacted = log_config(broker(), {**given, "cleanup.policy": "compact,delete"})
    assert compacted.segment_ms == 50
    assert compacted.min_cleanable_ratio == 0.25
    assert compacted.is_compacted
    assert compacted.deletes_old_segments


def test_every_number_of_a_log_is_tested_here() -> None:
    others = {"deletes_old_segments", "is_compacted", "uses_log_append_time", "compression", "compression_level"}
    others |= {"producer_id_expiration_ms", "min_cleanable_ratio"}
    assert {field.name for field in fields(LogConfig)} == set(BROKER_KEY_OF) | others


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"log_retention_hours": "2"}, "retention_ms", 2 * 3_600_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, "retention_ms", 180_000),
        ({"log_retention_minutes": "3", "log_retention_ms": "4"}, "retention_ms", 4),
        ({"log_retention_hours": "-7"}, "retention_ms", -1),
        ({"log_roll_hours": "2"}, "segment_ms", 2 * 3_600_000),
        ({"log_roll_hours": "2", "log_roll_ms": "4"}, "segment_ms", 4),
        ({"log_roll_jitter_hours": "2"}, "segment_jitter_ms", 2 * 3_600_000),
        ({"log_roll_jitter_hours": "2", "log_roll_jitter_ms": "0"}, "segment_jitter_ms", 0),
        ({"log_flush_scheduler_interval_ms": "2"}, "flush_ms", 2),
        ({"log_flush_scheduler_interval_ms": "2", "log_flush_interval_ms": "3"}, "flush_ms", 3),
        ({"producer_id_expiration_ms": "5"}, "producer_id_expiration_ms", 5),
    ],
)
def test_the_finest_unit_wins(given: dict[str, str], field: str, value: int) -> None:
    assert getattr(log_config(broker(**given)), field) == value


def test_a_dynamic_retention_wins_over_the_hours_of_the_start() -> None:
    config = broker(log_retention_hours="100").with_dynamic({"log.retention.ms": "777"}, {})
    assert log_config(config).retention_ms == 777


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [("delete", True, False), ("compact", False, True), ("compact,delete", True, True), ("", False, False)],
)
def test_every_cleanup_policy_is_possible(policy: str, deletes: bool, compacts: bool) -> None:
    config = log_config(broker(), {"cleanup.policy": policy})
    assert (config.deletes_old_segments, config.is_compacted) == (deletes, compacts)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"compression.type": "gzip"}, ("gzip", None)),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, ("gzip", 9)),
        ({"compression.type": "lz4"}, ("lz4", 9)),
        ({"compression.type": "zstd"}, ("zstd", 3)),
        ({"compression.type": "zstd", "compression.zstd.level": "-1"}, ("zstd", -1)),
        ({"compression.type": "snappy", "compression.zstd.level": "5"}, ("snappy", None)),
        ({"compression.type": "uncompressed"}, ("uncompressed", None)),
    ],
)
def test_a_codec_has_the_level_of_its_own_key(overrides: dict[str, str], expected: tuple[str, int | None]) -> None:
    config = log_config(broker(), overrides)
    assert (config.compression, config.compression_level) == expected


def test_the_time_of_records_can_be_the_brokers() -> None:
    assert log_config(broker(), {"message.timestamp.type": "LogAppendTime"}).uses_log_append_time


def test_tests_may_have_segments_that_are_smaller_than_allowed() -> None:
    overrides = {"segment.bytes": "2097152", "internal.segment.bytes": "100"}
    assert log_config(broker(), overrides).segment_bytes == 100
