"""From keys to a node's settings."""

import re

import pytest

from levada.broker.broker_config import BrokerConfig, log_config
from levada.broker.settings import Endpoint
from levada.model.config import ConfigError
from levada.model.properties import parse_properties
from levada.node.listeners import ListenerSettings, parse_listener
from levada.node.settings import node_settings, without_meaning

GIVEN = {"listeners": "PLAINTEXT://localhost:9092", "log.dirs": "/data", "node.id": "3"}


def test_the_plain_case() -> None:
    settings = node_settings(GIVEN)
    assert settings.listeners == (ListenerSettings("PLAINTEXT", "localhost", 9092, "localhost", 9092),)
    assert settings.inter_broker_listener == "PLAINTEXT"
    assert (settings.data_directory, settings.node_id) == ("/data", 3)


def test_older_names_work() -> None:
    settings = node_settings({"listeners": "PLAINTEXT://h:1", "log.dir": "/old", "broker.id": "9"})
    assert (settings.data_directory, settings.node_id) == ("/old", 9)


def test_what_is_advertised_is_never_an_address_that_means_every_interface() -> None:
    settings = node_settings({**GIVEN, "listeners": "PLAINTEXT://0.0.0.0:9092"})
    [listener] = settings.listeners
    assert listener.host == "0.0.0.0"
    assert listener.advertised_host not in ("", "0.0.0.0")
    advertised = node_settings({**GIVEN, "advertised.listeners": "PLAINTEXT://public:19092"})
    [listener] = advertised.listeners
    assert (listener.advertised_host, listener.advertised_port) == ("public", 19092)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1", ("h", 1)),
        ("PLAINTEXT://h:1", ("h", 1)),
        (":9092", ("", 9092)),
        ("[::1]:0", ("::1", 0)),
        ("h:65535", ("h", 65535)),
    ],
)
def test_listeners_are_parsed(text: str, expected: tuple[str, int]) -> None:
    assert parse_listener("listeners", text) == expected


@pytest.mark.parametrize("text", ["", "h", "h:", "h:x", "h:65536", "SSL://h:1", "h:-1"])
def test_a_listener_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listener("listeners", text)


@pytest.mark.parametrize(
    "wrong", [{"node.id": "-1"}, {"log.dirs": "/a,/b,/a/"}, {"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}]
)
def test_settings_that_this_version_cannot_honour_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        node_settings({**GIVEN, **wrong})


TWO_LISTENERS = {
    "listeners": "CLIENTS://0.0.0.0:9092,BROKERS://10.0.0.1:9093",
    "advertised.listeners": "CLIENTS://kafka.example:19092,BROKERS://10.0.0.1:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def test_listeners_have_names_and_one_is_for_brokers() -> None:
    settings = node_settings({**GIVEN, **TWO_LISTENERS})
    assert settings.listeners == (
        ListenerSettings("CLIENTS", "0.0.0.0", 9092, "kafka.example", 19092),
        ListenerSettings("BROKERS", "10.0.0.1", 9093, "10.0.0.1", 9093),
    )
    assert settings.inter_broker_listener == "BROKERS"


def test_a_listener_that_is_not_advertised_is_told_to_no_client() -> None:
    settings = node_settings({**GIVEN, **TWO_LISTENERS, "advertised.listeners": "BROKERS://b:1"})
    assert [one.endpoint(5) for one in settings.listeners] == [None, Endpoint("BROKERS", "b", 1)]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"listeners": "A://h:1,A://h:2"}, "listeners names A 2 times"),
        ({"listeners": "A://h:1,B://h:1"}, "listeners has port 1 2 times"),
        ({"advertised.listeners": "OTHER://h:1"}, "OTHER, which is none of the listeners: CLIENTS,BROKERS"),
        ({"advertised.listeners": "CLIENTS://0.0.0.0:1"}, "0.0.0.0 means every interface"),
        ({"inter.broker.listener.name": "OTHER"}, "is none of the advertised listeners, which are CLIENTS,BROKERS"),
        ({"advertised.listeners": "CLIENTS://h:1"}, "is none of the advertised listeners, which are CLIENTS"),
        ({"listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:SSL"}, "only PLAINTEXT listeners are served"),
    ],
)
def test_listeners_that_do_not_fit_together_are_refused(wrong: dict[str, str], reason: str) -> None:
    mapped = {
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,OTHER:PLAINTEXT,CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT"
    }
    with pytest.raises(ConfigError, match=re.escape(reason)):
        node_settings({**GIVEN, **TWO_LISTENERS, **mapped, **wrong})


def test_several_directories_are_kept_in_their_order() -> None:
    settings = node_settings({**GIVEN, "log.dirs": "/b, /a,relative"})
    assert settings.data_directories == ("/b", "/a", "relative")
    assert settings.data_directory == "/b"


def test_log_dirs_goes_before_log_dir() -> None:
    assert node_settings({**GIVEN, "log.dir": "/old", "log.dirs": "/a,/b"}).data_directories == ("/a", "/b")


@pytest.mark.parametrize("twice", ["/a,/b,/a/", "/a,/b/../a", "relative,./relative"])
def test_a_directory_that_is_named_twice_is_refused(twice: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs names .+ more than once"):
        node_settings({**GIVEN, "log.dirs": twice})


@pytest.mark.parametrize("none", ["", " ", ","])
def test_a_broker_has_at_least_one_directory(none: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs must name at least one directory"):
        node_settings({**GIVEN, "log.dirs": none})


def test_a_broker_must_have_an_id() -> None:
    assert node_settings({**GIVEN, "node.id": "0"}).node_id == 0
    with pytest.raises(ConfigError, match=r"node\.id must be at least 0, not -1"):
        node_settings({"listeners": "h:1", "log.dirs": "/data"})


def test_keys_without_meaning_here_are_known() -> None:
    settings = node_settings({**GIVEN, "num.network.threads": "3", "num.partitions": "2"})
    assert without_meaning(settings.config) == ["num.network.threads"]


ZOOKEEPER_ERA = """\
# A file as Kafka 1.1 came with, grown in use.
broker.id=7
listeners=PLAINTEXT://broker7.example:9092
log.dirs=/var/lib/kafka
zookeeper.connect=zoo1:2181,zoo2:2181/kafka
zookeeper.connection.timeout.ms=6000
zookeeper.session.timeout.ms=6000
num.network.threads=3
num.io.threads=8
queued.max.requests=500
leader.imbalance.per.broker.percentage=10
leader.imbalance.check.interval.seconds=300
auto.leader.rebalance.enable=true
unclean.leader.election.enable=false
delete.topic.enable=true
log.retention.hours=72
log.retention.bytes=1073741824
min.insync.replicas=2
message.max.bytes=2000000
log.flush.interval.messages=10000
log.flush.interval.ms=1000
socket.send.buffer.bytes=102400
inter.broker.protocol.version=1.1
log.message.format.version=1.1
"""


def test_a_file_of_the_zookeeper_era_becomes_settings() -> None:
    settings = node_settings(parse_properties(ZOOKEEPER_ERA))
    assert (settings.node_id, settings.data_directory) == (7, "/var/lib/kafka")
    assert [(one.host, one.port) for one in settings.listeners] == [("broker7.example", 9092)]
    assert settings.coordinator == "zookeeper://zoo1:2181,zoo2:2181/kafka"
    logs = log_config(BrokerConfig(settings.config))
    assert (logs.retention_ms, logs.retention_bytes) == (72 * 3_600_000, 1 << 30)
    assert (logs.flush_messages, logs.flush_ms) == (10_000, 1000)
    assert (logs.max_message_bytes, logs.min_insync_replicas) == (2_000_000, 2)
    assert settings.config["delete.topic.enable"] is True


def test_its_threads_are_accepted_and_said_to_mean_nothing() -> None:
    ignored = without_meaning(node_settings(parse_properties(ZOOKEEPER_ERA)).config)
    assert {"num.network.threads", "num.io.threads", "queued.max.requests"} <= set(ignored)
    assert "zookeeper.connect" not in ignored
    assert "min.insync.replicas" not in ignored


def test_without_zookeeper_the_coordinator_is_local() -> None:
    assert node_settings(GIVEN).coordinator == "local"
    assert node_settings({**GIVEN, "zookeeper.connect": ""}).coordinator == "local"


def test_keys_that_cannot_go_together_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.ms must be unlimited"):
        node_settings({**GIVEN, "log.retention.hours": "0"})
