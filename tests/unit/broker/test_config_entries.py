"""What DescribeConfigs answers, against what a broker of Apache Kafka 4.3 answered with the same settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from levada.broker.broker_config import BrokerConfig
from levada.broker.config_entries import (
    ConfigSource,
    DescribedConfig,
    Synonym,
    broker_entries,
    group_entries,
    topic_entries,
)
from levada.model.broker_keys import BROKER_KEYS, NODE_KEYS
from levada.model.config import Config
from levada.model.key_meanings import NO_EFFECT

APACHE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "configs" / "apache-described.json").read_text()
)
"""The settings, and each entry as [name, value, read only, source, sensitive, type, synonyms]."""
IDS = {"node.id": "1", "broker.id": "1"}


def apaches() -> BrokerConfig:
    return BrokerConfig(Config(NODE_KEYS, APACHE["static"]), APACHE["cluster"], APACHE["own"])


def plain(cluster: dict[str, str] | None = None, own: dict[str, str] | None = None, **given: str) -> BrokerConfig:
    static = Config(NODE_KEYS, {name.replace("_", "."): text for name, text in given.items()})
    return BrokerConfig(static, cluster or {}, own or {})


def as_recorded(entry: DescribedConfig) -> list[Any]:
    synonyms = [[one.name, one.value, one.source] for one in entry.synonyms]
    value = [entry.name, entry.value, entry.read_only, entry.source, entry.is_sensitive, entry.type_code]
    return [*value, synonyms]


def one(entries: list[DescribedConfig], name: str) -> DescribedConfig:
    return next(entry for entry in entries if entry.name == name)


@pytest.mark.parametrize(("recorded", "overrides"), [("topic", APACHE["topic"]), ("plain topic", {})])
def test_a_topic_is_described_as_apache_does(recorded: str, overrides: dict[str, str]) -> None:
    assert [as_recorded(entry) for entry in topic_entries(apaches(), overrides)] == APACHE["described"][recorded]


def test_a_group_is_described_as_apache_does() -> None:
    assert [as_recorded(entry) for entry in group_entries(apaches(), {})] == APACHE["described"]["group"]


def test_the_default_of_all_brokers_has_only_what_was_set() -> None:
    entries = broker_entries(apaches(), is_cluster_default=True)
    assert [as_recorded(entry) for entry in entries] == APACHE["described"]["cluster"]


def test_a_broker_is_described_as_apache_does() -> None:
    recorded = {row[0]: row for row in APACHE["described"]["broker"]}
    entries = broker_entries(apaches(), list(recorded), actual=IDS)
    assert {entry.name: as_recorded(entry) for entry in entries} == recorded


def test_a_broker_has_every_key_that_is_not_internal() -> None:
    names = [entry.name for entry in broker_entries(plain())]
    assert set(names) >= {key.name for key in BROKER_KEYS if not key.internal}
    assert "unstable.api.versions.enable" not in names
    assert "zookeeper.connect" not in names
    assert names == sorted(names)


def test_a_key_that_is_not_listed_is_when_it_was_given() -> None:
    entry = one(broker_entries(plain(zookeeper_connect="host:2181")), "zookeeper.connect")
    assert (entry.value, entry.source, entry.read_only) == ("host:2181", ConfigSource.STATIC, True)


def test_what_is_advertised_is_shown_even_when_it_was_not_given() -> None:
    real = "PLAINTEXT://host.example:9092"
    entry = one(broker_entries(plain(), actual={"advertised.listeners": real}), "advertised.listeners")
    assert (entry.value, entry.source, entry.is_default) == (real, ConfigSource.STATIC, False)
    assert entry.synonyms == (Synonym("advertised.listeners", real, ConfigSource.STATIC),)


def test_a_secret_is_never_shown() -> None:
    entry = one(broker_entries(plain(ssl_key_password="hunter2")), "ssl.key.password")
    assert entry.is_sensitive
    assert "hunter2" not in str(entry)


def test_some_keys_can_be_asked_for() -> None:
    broker = plain(cluster={"max.connections": "5", "message.max.bytes": "6"})
    wanted = ["max.connections", "unknown.key"]
    assert [entry.name for entry in broker_entries(broker, wanted)] == ["max.connections"]
    assert [entry.name for entry in broker_entries(broker, wanted, is_cluster_default=True)] == ["max.connections"]
    assert [entry.name for entry in topic_entries(broker, {}, ["segment.ms", "unknown.key"])] == ["segment.ms"]
    assert len(topic_entries(broker, {}, [])) == len(topic_entries(broker, {}))


def test_a_group_follows_the_brokers_key_of_nearly_its_name() -> None:
    name = "consumer.session.timeout.ms"
    entry = one(group_entries(plain(), {name: "50000"}), name)
    default = Synonym("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT)
    assert entry.synonyms == (Synonym(name, "50000", ConfigSource.GROUP), default)


def test_a_topic_value_that_is_no_longer_legal_counts_as_absent() -> None:
    entry = one(topic_entries(plain(), {"retention.ms": "for ever"}), "retention.ms")
    assert (entry.value, entry.source) == ("604800000", ConfigSource.DEFAULT)


def test_types_and_sources_have_their_numbers_on_the_wire() -> None:
    entries = broker_entries(plain())
    names = ("auto.create.topics.enable", "broker.rack", "broker.id", "offsets.topic.replication.factor")
    assert [one(entries, name).type_code for name in names] == [1, 2, 3, 4]
    names = ("log.retention.ms", "log.cleaner.min.cleanable.ratio", "log.dirs", "principal.builder.class")
    assert [one(entries, name).type_code for name in names] == [5, 6, 7, 8]
    assert one(entries, "ssl.key.password").type_code == 9
    assert [int(source) for source in ConfigSource] == [1, 2, 3, 4, 5, 6, 8]


def test_an_entry_says_what_the_key_means_here() -> None:
    assert one(topic_entries(plain(), {}), "retention.ms").documentation.startswith("How long records are kept")
    assert one(topic_entries(plain(), {}), "preallocate").documentation == NO_EFFECT
    assert "event loop" in one(broker_entries(plain()), "num.network.threads").documentation
