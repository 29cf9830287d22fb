"""From keys to a node's settings."""

import pytest

from penstock.model.config import ConfigError
from penstock.node.settings import node_settings, parse_listener, without_meaning

GIVEN = {"listeners": "PLAINTEXT://localhost:9092", "log.dirs": "/data", "node.id": "3"}


def test_the_plain_case() -> None:
    settings = node_settings(GIVEN)
    assert (settings.listen_host, settings.listen_port) == ("localhost", 9092)
    assert (settings.advertised_host, settings.advertised_port) == ("localhost", 9092)
    assert (settings.data_directory, settings.node_id) == ("/data", 3)


def test_older_names_work() -> None:
    settings = node_settings({"listeners": "PLAINTEXT://h:1", "log.dir": "/old", "broker.id": "9"})
    assert (settings.data_directory, settings.node_id) == ("/old", 9)


def test_what_is_advertised_is_never_an_address_that_means_every_interface() -> None:
    settings = node_settings({**GIVEN, "listeners": "PLAINTEXT://0.0.0.0:9092"})
    assert settings.listen_host == "0.0.0.0"
    assert settings.advertised_host not in ("", "0.0.0.0")
    advertised = node_settings({**GIVEN, "advertised.listeners": "PLAINTEXT://public:19092"})
    assert (advertised.advertised_host, advertised.advertised_port) == ("public", 19092)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("h:1", ("h", 1)), ("PLAINTEXT://h:1", ("h", 1)), (":9092", ("", 9092)), ("[::1]:0", ("::1", 0))],
)
def test_listeners_are_parsed(text: str, expected: tuple[str, int]) -> None:
    assert parse_listener("listeners", text) == expected


@pytest.mark.parametrize("text", ["", "h", "h:", "h:x", "h:65536", "SSL://h:1", "h:-1"])
def test_a_listener_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listener("listeners", text)


@pytest.mark.parametrize(
    "wrong", [{"node.id": "-1"}, {"log.dirs": "/a,/b"}, {"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}]
)
def test_settings_that_this_version_cannot_honour_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        node_settings({**GIVEN, **wrong})


def test_keys_without_meaning_here_are_known() -> None:
    settings = node_settings({**GIVEN, "num.network.threads": "3", "num.partitions": "2"})
    assert without_meaning(settings.config) == ["num.network.threads"]
