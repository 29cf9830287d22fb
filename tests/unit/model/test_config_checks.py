"""What is required beyond the range of each key."""

import pytest

from levada.model.broker_keys import NODE_KEYS
from levada.model.config import Config
from levada.model.config_checks import config_fault, connection_overrides


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"log.retention.hours": "0"}, "log.retention.ms must be unlimited"),
        ({"log.retention.minutes": "0"}, "log.retention.ms must be unlimited"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        ({"queued.max.request.bytes": "5"}, "must be larger or equal to socket.request.max.bytes"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "localhost"}, "must look like host:count"),
    ],
)
def test_keys_that_kafka_would_not_start_with(given: dict[str, str], fault: str) -> None:
    assert fault in (config_fault(Config(NODE_KEYS, given)) or "")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"log.retention.ms": "-1", "log.retention.hours": "-5"},
        {"log.roll.ms": "1", "log.roll.jitter.ms": "0"},
        {"queued.max.request.bytes": "-1"},
        {"queued.max.request.bytes": "0"},
        {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "localhost:1"},
    ],
)
def test_keys_that_it_would_start_with(given: dict[str, str]) -> None:
    assert config_fault(Config(NODE_KEYS, given)) is None


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("a:1, b:20", {"a": 1, "b": 20}),
        ("::1:5", {"::1": 5}),
        ("a", None),
        ("a:b", None),
        (":5", None),
        ("a:-5", None),
    ],
)
def test_limits_for_some_addresses(text: str, counts: dict[str, int] | None) -> None:
    assert connection_overrides(text) == counts
