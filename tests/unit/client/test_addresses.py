"""Addresses and durations as Java reads them; what it says was asked of kafka-clients 4.3.1 and java.time."""

import pytest

from levada.client.errors import ConfigurationError
from levada.client.options import OffsetResetStrategy, parse_addresses, parse_duration_ms, parse_offset_reset


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("one:9092,two:9093", [("one", 9092), ("two", 9093)]),
        (" one:9092 , two:9093 ,", [("one", 9092), ("two", 9093)]),
        ("one:9092,one:9092", [("one", 9092)]),
        ("PLAINTEXT://localhost:9092", [("localhost", 9092)]),
        ("foo://localhost:9092", [("localhost", 9092)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("::1:9092", [("::1", 9092)]),
        ("PLAINTEXT://[fe80::1%eth0]:9092", [("fe80::1%eth0", 9092)]),
        ("1.2.3.4:65535", [("1.2.3.4", 65535)]),
        ("under_score:0", [("under_score", 0)]),
        (":9092", [("localhost", 9092)]),
    ],
)
def test_addresses_that_kafka_takes(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == tuple(addresses)
    assert parse_addresses([text]) == tuple(addresses)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("localhost", "must have the form host:port, not 'localhost'; did you mean 'localhost:9092'"),
        ("localhost:", "must have the form host:port, not 'localhost:'"),
        ("localhost:65536", "the port of 'localhost:65536' is out of range: it is a number from 0 to 65535"),
        ("localhost:+1", "must have the form"),
        ("localhost:-1", "must have the form"),
        ("localhost:\u0661", "must have the form"),
        ("a b:9092", "must have the form"),
        ("localhost:9092/path", "must have the form"),
        ("x://a://localhost:9092", "must have the form"),
        ("one:9092,two", "must have the form host:port, not 'two'"),
        ("SSL://one:9093", "asks for SSL, and only PLAINTEXT is supported yet"),
        ("", "is empty"),
        (",", "is empty"),
    ],
)
def test_addresses_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_addresses(text)
    assert str(caught.value).startswith("bootstrap.servers")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P1DT1H", 90_000_000),
        ("pt1h", 3_600_000),
        ("PT1.5S", 1_500),
        ("PT1,5S", 1_500),
        ("PT1.S", 1_000),
        ("PT-1S", -1_000),
        ("PT-1.5S", -1_500),
        ("PT-0.5S", -500),
        ("-PT1H", -3_600_000),
        ("+PT1H", 3_600_000),
        ("PT+5M", 300_000),
        ("-P1DT-2H", -79_200_000),
        ("PT0.001S", 1),
    ],
)
def test_durations_are_javas(text: str, millis: int) -> None:
    assert parse_duration_ms(text) == millis


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1W", "P1DT", "PT.5S", "PT0.0000000001S", "PT1H1H", "PT1M1H", "PT1S ", "P106751991168D", "1H"],
)
def test_what_java_does_not_take_for_a_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration_ms(text)


def test_where_to_begin() -> None:
    assert parse_offset_reset("earliest") == OffsetResetStrategy("earliest")
    assert parse_offset_reset("by_duration:P7D") == OffsetResetStrategy("by_duration", 604_800_000)
    for wrong in ("", "Latest", "by_duration", "by_duration:", "by_duration:PT-1S"):
        with pytest.raises(ValueError):
            parse_offset_reset(wrong)
