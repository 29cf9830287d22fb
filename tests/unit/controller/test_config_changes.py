"""Changes of configurations that are allowed, and those that are refused in Kafka's words.

The texts and codes are what a broker of Apache Kafka 4.3 answered.
"""

import pytest

from levada.controller.config_changes import check_topic_configs, full_changes, incremental_changes
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, InvalidConfig, InvalidRequest

SET, DELETE, APPEND, SUBTRACT = range(4)


def refusal(kind: str, *operations: tuple[str, int, str | None], **current: str) -> tuple[ErrorCode, str]:
    """The code and text of a refused change; `_` stands for the dots of what is set now."""
    with pytest.raises(ApiError) as caught:
        incremental_changes(kind, {name.replace("_", "."): text for name, text in current.items()}, operations)
    return caught.value.code, str(caught.value)


def test_keys_are_set_and_deleted() -> None:
    current = {"retention.ms": "1", "segment.ms": "2", "flush.ms": "3"}
    operations = [("retention.ms", SET, "5"), ("segment.ms", DELETE, None), ("max.message.bytes", SET, "7")]
    changes = incremental_changes("topic", current, operations)
    assert changes == {"retention.ms": "5", "segment.ms": None, "max.message.bytes": "7"}


def test_what_stays_as_it_is_is_no_change() -> None:
    operations = [("retention.ms", SET, "1"), ("segment.ms", DELETE, None)]
    assert incremental_changes("topic", {"retention.ms": "1"}, operations) == {}


@pytest.mark.parametrize(
    ("current", "operation", "value", "after"),
    [
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact", APPEND, "compact,delete,delete", "compact,delete"),
        ("compact, delete", SUBTRACT, "delete", "compact"),
        ("compact,delete", SUBTRACT, "delete,compact", ""),
        (None, APPEND, "compact", "delete,compact"),
        (None, SUBTRACT, "delete", ""),
        ("", APPEND, "compact", "compact"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(current: str | None, operation: int, value: str, after: str) -> None:
    set_now = {} if current is None else {"cleanup.policy": current}
    assert incremental_changes("topic", set_now, [("cleanup.policy", operation, value)]) == {"cleanup.policy": after}


def test_a_member_that_is_there_is_not_appended_again() -> None:
    assert incremental_changes("topic", {"cleanup.policy": "delete"}, [("cleanup.policy", APPEND, "delete")]) == {}


def test_a_list_that_is_not_set_begins_with_what_the_broker_was_started_with() -> None:
    static = {"log.cleanup.policy": "compact"}
    wanted = [("cleanup.policy", APPEND, "delete")]
    assert incremental_changes("topic", {}, wanted, static) == {"cleanup.policy": "compact,delete"}
    brokers = [("log.cleanup.policy", APPEND, "delete")]
    assert incremental_changes("broker", {}, brokers, static) == {"log.cleanup.policy": "compact,delete"}


@pytest.mark.parametrize(
    ("operations", "code", "text"),
    [
        (
            [("retention.ms", SET, "abc")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            [("cleanup.policy", APPEND, "x")],
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ([("foo", SET, "1"), ("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
        (
            [("foo", APPEND, "x")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key foo because its type is not LIST.",
        ),
        (
            [("retention.ms", SUBTRACT, "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (
            [("foo", SET, None), ("bar", DELETE, None), ("retention.ms", APPEND, None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : foo, retention.ms",
        ),
        (
            [("foo", SET, None), ("foo", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (
            [("remote.storage.enable", SET, "true")],
            ErrorCode.INVALID_CONFIG,
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
    ],
)
def test_a_topic_refuses(operations: list[tuple[str, int, str | None]], code: ErrorCode, text: str) -> None:
    assert refusal("topic", *operations) == (code, text)


def test_new_keys_must_go_with_those_that_stay() -> None:
    text = "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    refused = refusal("topic", ("max.compaction.lag.ms", SET, "5"), min_compaction_lag_ms="10")
    assert refused == (ErrorCode.INVALID_CONFIG, text)
    equal = [("max.compaction.lag.ms", SET, "10")]
    assert incremental_changes("topic", {"min.compaction.lag.ms": "10"}, equal) == {"max.compaction.lag.ms": "10"}


def test_an_unknown_key_of_a_topic_can_be_deleted() -> None:
    assert incremental_changes("topic", {"dropped.in.this.version": "1"}, [("dropped.in.this.version", DELETE, None)])
    assert incremental_changes("topic", {}, [("foo", DELETE, None)]) == {}


@pytest.mark.parametrize(
    ("kind", "operations", "code", "text"),
    [
        (
            "broker",
            [("num.partitions", SET, "x"), ("log.retention.hours", SET, "8")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [log.retention.hours, num.partitions]",
        ),
        (
            "cluster",
            [("node.id", SET, "2")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [node.id]",
        ),
        (
            "cluster",
            [("listeners", SET, "PLAINTEXT://localhost:9999")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            "cluster",
            [("listener.name.plaintext.ssl.keystore.location", SET, "/x")],
            ErrorCode.INVALID_REQUEST,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.name.plaintext.ssl.keystore.location]"
            ),
        ),
        (
            "broker",
            [("ssl.keystore.location", SET, "/x"), ("ssl.key.password", SET, "p")],
            ErrorCode.INVALID_REQUEST,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "[ssl.key.password, ssl.keystore.location]"
            ),
        ),
        (
            "broker",
            [("log.segment.bytes", SET, "5")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (
            "broker",
            [("log.retention.ms", SET, "0")],
            ErrorCode.INVALID_REQUEST,
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            "cluster",
            [("log.roll.ms", SET, "0")],
            ErrorCode.INVALID_REQUEST,
            "requirement failed: log.roll.ms must be greater than or equal to 1",
        ),
        ("broker", [("foo", APPEND, "x")], ErrorCode.INVALID_CONFIG, "Unknown config name: foo"),
        (
            "cluster",
            [("log.segment.bytes", SUBTRACT, "x")],
            ErrorCode.INVALID_CONFIG,
            "Config value subtract is not allowed for config key: log.segment.bytes",
        ),
        (
            "broker",
            [("follower.replication.throttled.rate", SET, "-1")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value -1 for configuration follower.replication.throttled.rate: Value must be at least 0",
        ),
        ("group", [("foo", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown group config name: foo"),
    ],
)
def test_a_broker_or_group_refuses(
    kind: str, operations: list[tuple[str, int, str | None]], code: ErrorCode, text: str
) -> None:
    assert refusal(kind, *operations) == (code, text)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("broker", "max.connections", "5"),
        ("cluster", "max.connections", "5"),
        ("broker", "listeners", "PLAINTEXT://:9092"),
        ("broker", "listener.name.plaintext.ssl.keystore.location", "/x"),
        ("cluster", "leader.replication.throttled.rate", "100"),
        ("broker", "log.cleanup.policy", ""),
        ("cluster", "known.to.a.plugin", "x"),
        ("topic", "internal.segment.bytes", "100"),
        ("topic", "retention.ms", " 77 "),
        ("group", "share.auto.offset.reset", "earliest"),
    ],
)
def test_what_kafka_allows_is_allowed(kind: str, name: str, value: str) -> None:
    assert incremental_changes(kind, {}, [(name, SET, value)]) == {name: value}


def test_the_older_request_replaces_all() -> None:
    current = {"retention.ms": "1", "segment.ms": "2", "flush.ms": "3"}
    wanted = {"retention.ms": "1", "flush.ms": "4", "max.message.bytes": "5"}
    changes = full_changes("topic", current, wanted)
    assert changes == {"segment.ms": None, "flush.ms": "4", "max.message.bytes": "5"}
    assert full_changes("topic", current, {}) == dict.fromkeys(current)


def test_the_older_request_is_checked_too() -> None:
    with pytest.raises(InvalidRequest, match=r"Null value not supported for : segment\.bytes"):
        full_changes("topic", {}, {"retention.ms": "5", "segment.bytes": None})
    with pytest.raises(InvalidConfig, match="Unknown topic config name: foo"):
        full_changes("topic", {}, {"foo": "x"})
    with pytest.raises(InvalidRequest, match=r"Cannot update these configs dynamically: \[num\.partitions\]"):
        full_changes("broker", {}, {"num.partitions": "5"})


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        (
            {"foo": None, "retention.ms": None, "segment.bytes": "x"},
            "Null value not supported for topic configs: foo,retention.ms",
        ),
        ({"segment.bytes": "x", "foo": "1"}, "Unknown topic config name: foo"),
        ({"segment.bytes": "x"}, "Invalid value x for configuration segment.bytes: Not a number of type INT"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}, "conflict topic config setting"),
    ],
)
def test_a_new_topic_refuses(configs: dict[str, str | None], text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        check_topic_configs(configs)
    assert str(caught.value).startswith(text)


def test_a_new_topic_may_have_keys() -> None:
    check_topic_configs({})
    check_topic_configs({"retention.ms": "-1", "cleanup.policy": "compact,delete", "compression.type": "zstd"})


def test_a_value_that_no_record_can_hold_is_refused_also_where_it_grows_bit_by_bit() -> None:
    key = "follower.replication.throttled.replicas"
    half = ",".join(f"{number}:1" for number in range(10_000, 12_500))
    other = ",".join(f"{number}:2" for number in range(10_000, 12_500))
    grown = incremental_changes("topic", {}, [(key, APPEND, half)])[key]
    assert grown is not None
    code, text = refusal("topic", (key, APPEND, other), follower_replication_throttled_replicas=grown)
    assert code == ErrorCode.INVALID_CONFIG
    assert text == "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    long = f"{grown},{other}"
    for refused in (lambda: full_changes("topic", {}, {key: long}), lambda: check_topic_configs({key: long})):
        with pytest.raises(InvalidConfig, match="maximum value size of 32767 bytes"):
            refused()
