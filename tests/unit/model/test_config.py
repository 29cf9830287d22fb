"""Configuration text and what becomes of it."""

import pytest

from levada.model.broker_keys import BROKER_KEYS
from levada.model.config import Config, ConfigError, InvalidValue, Key
from levada.model.config_ranges import OffsetReset
from levada.model.topic_keys import TOPIC_KEYS

TOPIC = {key.name: key for key in TOPIC_KEYS}


def test_defaults_are_kafkas() -> None:
    config = Config(BROKER_KEYS, {})
    assert config["num.partitions"] == 1
    assert config["message.max.bytes"] == 1_048_588
    assert config["auto.create.topics.enable"] is True
    assert config["compression.type"] == "producer"
    assert config["log.retention.hours"] == 168
    assert config["log.cleaner.io.buffer.load.factor"] == 0.9
    assert config["listeners"] == ("PLAINTEXT://:9092",)


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"'num.partiton'; did you mean num.partitions\?"):
        Config(BROKER_KEYS, {"num.partiton": "3"})


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("num.partitions", "0", "num.partitions must be at least 1"),
        ("num.partitions", "three", "num.partitions must be of type int"),
        ("num.partitions", str(2**31), "num.partitions must be of type int"),
        ("num.partitions", "1_0", "num.partitions must be of type int"),
        ("num.partitions", "\u0661", "num.partitions must be of type int"),
        ("auto.create.topics.enable", "yes", "must be of type boolean"),
        ("compression.type", "brotli", "must be one of"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "must be of type double"),
        ("log.cleaner.min.cleanable.ratio", "1e999", "must be of type double"),
        ("compression.gzip.level", "0", "must be between 1 and 9 or equal to -1"),
        ("log.cleanup.policy", "compact,burn", "must be one of: compact, delete"),
        ("log.cleanup.policy", "compact,,delete", "must not have empty members"),
        ("remote.log.storage.manager.impl.prefix", "", "must be non-empty"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config(BROKER_KEYS, {key: text})


def test_values_have_the_type_of_their_key() -> None:
    given = {
        "num.partitions": " 12 ",
        "auto.create.topics.enable": "FALSE",
        "log.cleaner.io.buffer.load.factor": "0.5",
        "log.cleanup.policy": "compact, delete",
        "log.dirs": "/a,/b",
        "compression.gzip.level": "-1",
    }
    config = Config(BROKER_KEYS, given)
    assert config["num.partitions"] == 12
    assert config["auto.create.topics.enable"] is False
    assert config["log.cleaner.io.buffer.load.factor"] == 0.5
    assert config["log.cleanup.policy"] == ("compact", "delete")
    assert config["log.dirs"] == ("/a", "/b")
    assert config.given == given


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        (
            "segment.bytes",
            "99999999999",
            "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "-1",
            "Invalid value -1.0 for configuration min.cleanable.dirty.ratio: Value must be at least 0",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.lz4.level",
            "99",
            "Invalid value 99 for configuration compression.lz4.level: Value must be no more than 17",
        ),
        (
            "cleanup.policy",
            "delete,x",
            "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "compact,", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "leader.replication.throttled.replicas",
            "x",
            (
                "Invalid value [x] for configuration leader.replication.throttled.replicas: "
                "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
                "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            ),
        ),
    ],
)
def test_a_client_is_told_what_kafka_would_say(key: str, text: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        TOPIC[key].parse(text)
    assert caught.value.kafka_text == message


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("cleanup.policy", "", ()),
        ("cleanup.policy", " compact, delete ", ("compact", "delete")),
        ("cleanup.policy", "delete,delete", ("delete",)),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),
        ("retention.ms", "+5", 5),
        ("retention.ms", "-1", -1),
        ("preallocate", " TRUE ", True),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "1", 1),
        ("compression.gzip.level", "9", 9),
    ],
)
def test_what_kafka_accepts_is_accepted(key: str, text: str, value: object) -> None:
    assert TOPIC[key].parse(text) == value


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("double", 0.5, "0.5"),
        ("double", 0.0, "0.0"),
        ("double", 0.0001, "1.0E-4"),
        ("double", 0.001, "0.001"),
        ("double", 12345678.9, "1.23456789E7"),
        ("double", 10_000_000.0, "1.0E7"),
        ("double", -0.00025, "-2.5E-4"),
        ("double", 9_999_999.0, "9999999.0"),
        ("boolean", True, "true"),
        ("list", ("a", "b"), "a,b"),
        ("list", (), ""),
        ("int", -1, "-1"),
        ("string", None, None),
    ],
)
def test_values_are_shown_as_java_shows_them(type_: str, value: object, text: str | None) -> None:
    assert Key("any", type_, None).format(value) == text


@pytest.mark.parametrize(
    ("text", "is_fine"),
    [
        ("latest", True),
        ("by_duration:PT1H30M", True),
        ("by_duration:P1DT0.5S", True),
        ("by_duration:P", False),
        ("by_duration:P1DT", False),
        ("yesterday", False),
    ],
)
def test_a_share_group_begins_at_an_end_or_so_long_ago(text: str, is_fine: bool) -> None:
    assert (OffsetReset().fault(text) is None) is is_fine


@pytest.mark.parametrize(("type_", "bits"), [("short", 16), ("int", 32), ("long", 64)])
def test_a_number_has_the_bits_of_its_type(type_: str, bits: int) -> None:
    key = Key("any", type_, None)
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert (key.parse(str(least)), key.parse(str(most))) == (least, most)
    for outside in (least - 1, most + 1):
        with pytest.raises(InvalidValue):
            key.parse(str(outside))


def test_passwords_are_sensitive() -> None:
    secrets = {key.name for key in BROKER_KEYS if key.is_sensitive}
    assert {"ssl.key.password", "sasl.jaas.config", "delegation.token.secret.key"} <= secrets
    assert "ssl.keystore.location" not in secrets
