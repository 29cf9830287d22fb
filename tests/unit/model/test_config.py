"""Configuration text and what becomes of it."""

import pytest

from penstock.model.broker_keys import BROKER_KEYS
from penstock.model.config import Config, ConfigError, Key, parse_properties


def test_defaults_are_kafkas() -> None:
    config = Config(BROKER_KEYS, {})
    assert config["num.partitions"] == 1
    assert config["message.max.bytes"] == 1_048_588
    assert config["auto.create.topics.enable"] is True
    assert config["compression.type"] == "producer"
    assert config["log.retention.hours"] == 168
    assert config["log.cleaner.io.buffer.load.factor"] == 0.9
    assert config["listeners"] == ("PLAINTEXT://:9092",)


def test_every_default_is_within_its_own_range() -> None:
    for key in BROKER_KEYS:
        if key.check is not None and key.default is not None:
            for item in key.default if isinstance(key.default, tuple) else (key.default,):
                assert key.check(item) is None, key.name


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"'num.partiton'; the nearest known one is 'num.partitions'"):
        Config(BROKER_KEYS, {"num.partiton": "3"})


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("num.partitions", "0", "num.partitions must be at least 1"),
        ("num.partitions", "three", "num.partitions must be of type int"),
        ("num.partitions", str(2**31), "num.partitions must be of type int"),
        ("auto.create.topics.enable", "yes", "must be of type boolean"),
        ("compression.type", "brotli", "must be one of"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "must be between 0 and 1"),
        ("compression.gzip.level", "0", "must be one of -1, 1"),
        ("log.cleanup.policy", "compact,burn", "must be one of compact, delete"),
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
    assert config.given == set(given)


def test_properties_files_are_read_as_java_does() -> None:
    text = "# comment\n! another\n\nbroker.id=7\nlog.dirs = /tmp/a,\\\n    /tmp/b\nlisteners: PLAINTEXT://:9092\nempty=\nalone\n"
    assert parse_properties(text) == {
        "broker.id": "7",
        "log.dirs": "/tmp/a,/tmp/b",
        "listeners": "PLAINTEXT://:9092",
        "empty": "",
        "alone": "",
    }


def test_names_are_unique() -> None:
    assert len({key.name for key in BROKER_KEYS}) == len(BROKER_KEYS)
    assert all(isinstance(key, Key) for key in BROKER_KEYS)
