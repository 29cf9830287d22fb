"""Keys of cleaning that a broker does not start with."""

import pytest

from levada.model.broker_keys import NODE_KEYS
from levada.model.config import Config, ConfigError
from levada.model.config_checks import config_fault
from levada.node.settings import node_settings

MEMORY_TEXT = "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, None),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads must be at least 1, not 0"),
        ({"log.cleaner.dedupe.buffer.size": "1048577"}, None),
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, MEMORY_TEXT),
        ({"log.cleaner.dedupe.buffer.size": "0"}, MEMORY_TEXT),
        ({"log.cleaner.threads": "127"}, None),
        ({"log.cleaner.threads": "128"}, MEMORY_TEXT),
        ({"log.cleaner.threads": "128", "log.cleaner.dedupe.buffer.size": "200000000"}, None),
    ],
)
def test_each_thread_has_its_memory(given: dict[str, str], fault: str | None) -> None:
    assert config_fault(Config(NODE_KEYS, given)) == fault


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("log.cleaner.threads", "-1", "at least 0"),
        ("log.cleaner.threads", "many", "of type int"),
        ("log.cleaner.io.buffer.size", "-1", "at least 0"),
        ("log.cleaner.backoff.ms", "-1", "at least 0"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "no more than 1"),
        ("log.cleaner.io.max.bytes.per.second", "fast", "of type double"),
        ("log.cleaner.dedupe.buffer.size", "128M", "of type long"),
        ("log.cleaner.enable", "maybe", "of type boolean"),
        ("log.cleanup.policy", "shred", "one of: compact, delete"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(key: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}.*{reason}"):
        node_settings({"log.dirs": "/d", "node.id": "1", "listeners": "h:1", key: text})
