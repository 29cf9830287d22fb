"""The tables of keys against Kafka's own definitions, which `tests/data/configs` has as it printed them."""

import csv
from pathlib import Path

import pytest

from levada.model.broker_keys import BROKER_KEYS, LEVADA_KEYS, NODE_KEYS, THROTTLE_KEYS
from levada.model.config import Key
from levada.model.group_keys import GROUP_KEYS
from levada.model.topic_keys import TOPIC_KEYS

CONFIGS = Path(__file__).parents[2] / "data" / "configs"
TABLES = {"broker": BROKER_KEYS, "topic": TOPIC_KEYS, "group": GROUP_KEYS}
NO_DEFAULT = {"null", "(required)"}


def as_printed(key: Key) -> dict[str, str | None]:
    """A key as a row of Kafka's table."""
    return {
        "name": key.name,
        "type": key.type,
        "default": key.format(key.default),
        "valid_range": str(key.range or ""),
        "dynamic": str(key.dynamic),
        "importance": f"{key.importance}(internal)" if key.internal else str(key.importance),
    }


@pytest.mark.parametrize("table", TABLES)
def test_the_table_is_kafkas(table: str) -> None:
    with (CONFIGS / f"{table}.csv").open(newline="") as file:
        rows: list[dict[str, str | None]] = list(csv.DictReader(file))
    for row in rows:
        row.pop("server_default_property", None)
        row["default"] = None if row["default"] in NO_DEFAULT else row["default"]
    assert [as_printed(key) for key in TABLES[table]] == rows


def test_topics_follow_the_broker_keys_that_kafka_names() -> None:
    with (CONFIGS / "topic.csv").open(newline="") as file:
        followed = {row["name"]: row["server_default_property"] or None for row in csv.DictReader(file)}
    assert {key.name: key.broker_default for key in TOPIC_KEYS} == followed


@pytest.mark.parametrize("key", [*TOPIC_KEYS, *GROUP_KEYS], ids=lambda key: key.name)
def test_what_is_followed_is_a_broker_key_of_the_same_type(key: Key) -> None:
    if key.broker_default is not None:
        followed = next(one for one in BROKER_KEYS if one.name == key.broker_default)
        assert followed.type == key.type
        assert followed.default in (None, key.default)


@pytest.mark.parametrize("key", [*NODE_KEYS, *THROTTLE_KEYS, *TOPIC_KEYS, *GROUP_KEYS], ids=lambda key: key.name)
def test_a_default_is_what_its_own_text_means(key: Key) -> None:
    text = key.format(key.default)
    if text is not None:
        assert key.parse(text) == key.default


def test_a_name_has_one_definition() -> None:
    for keys in ((*NODE_KEYS, *THROTTLE_KEYS), TOPIC_KEYS, GROUP_KEYS):
        assert len({key.name for key in keys}) == len(keys)


def test_keys_of_our_own_say_so() -> None:
    assert all(key.name.startswith("levada.") for key in LEVADA_KEYS)
