"""The sink's options: what they mean, and one line for each that cannot be used."""

import pickle

import pytest

from levada.spark.options import OptionError
from levada.spark.sink.options import Delivery, SinkOptions, Version, read_options

BROKERS = {"kafka.bootstrap.servers": "localhost:9092"}


def read(**options: str) -> SinkOptions:
    return read_options({**BROKERS, **options}, is_stream=False)


def refusal(options: dict[str, str], *, is_stream: bool = False) -> str:
    with pytest.raises(OptionError) as refused:
        read_options(options, is_stream=is_stream)
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_brokers_alone_will_do() -> None:
    options = read()
    assert options.settings["bootstrap.servers"] == "localhost:9092"
    assert options.delivery is None
    assert options.topic is None
    assert options.writes_headers
    assert options.transaction_timeout_ms == 15 * 60_000
    assert options.version is None


def test_options_can_be_sent_to_other_machines() -> None:
    options = read(topic="orders", delivery="at-least-once")
    assert pickle.loads(pickle.dumps(options)) == options


def test_settings_of_producers_go_to_producers_and_win_over_ours() -> None:
    options = read(**{"kafka.linger.ms": "1", "kafka.compression.type": "zstd"})
    assert options.settings["linger.ms"] == "1"
    assert options.settings["compression.type"] == "zstd"


def test_the_admin_client_is_given_only_settings_that_it_knows() -> None:
    assert read(**{"kafka.compression.type": "zstd", "kafka.client.id": "me"}).admin_settings == {
        "bootstrap.servers": "localhost:9092",
        "client.id": "me",
        # A broker that is being started again is waited for.
        "default.api.timeout.ms": "60000",
    }


def test_what_spark_adds_is_taken() -> None:
    assert read(checkpointLocation="/somewhere", path="orders").topic is None


@pytest.mark.parametrize(("text", "delivery"), [(each.value.upper(), each) for each in Delivery])
def test_each_way_of_delivery_has_a_name(text: str, delivery: Delivery) -> None:
    assert read(delivery=text).delivery is delivery


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("60000", 60_000), ("90s", 90_000), ("2 min", 120_000), ("1h", 3_600_000)]
)
def test_the_timeout_of_transactions_is_a_time(text: str, milliseconds: int) -> None:
    assert read(transactionTimeout=text).transaction_timeout_ms == milliseconds


def test_a_numbered_write_has_an_application_and_a_number() -> None:
    assert read(txnAppId="daily", txnVersion="7").version == Version("daily", 7)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "option 'kafka.bootstrap.servers' is missing: name a broker, such as localhost:9092"),
        ({**BROKERS, "topci": "orders"}, "unknown option 'topci'; did you mean topic?"),
        (
            {**BROKERS, "kafka.key.serializer": "x"},
            "option 'kafka.key.serializer' is not supported: the column 'key' is text or bytes already",
        ),
        (
            {**BROKERS, "kafka.transactional.id": "x"},
            "option 'kafka.transactional.id' is not supported: the sink names its transactions itself",
        ),
        (
            {**BROKERS, "kafka.transaction.timeout.ms": "1"},
            "option 'kafka.transaction.timeout.ms' is not supported: use the option 'transactionTimeout'",
        ),
        (
            {**BROKERS, "kafka.lingre.ms": "1"},
            "options 'kafka.*': unknown setting 'lingre.ms'; did you mean linger.ms?",
        ),
        (
            {**BROKERS, "delivery": "twice"},
            "option 'delivery' must be one of exactly-once, atomic-tasks, at-least-once, not 'twice'",
        ),
        (
            {**BROKERS, "transactionTimeout": "soon"},
            "option 'transactionTimeout' must be a time such as 15m, 90s or 60000, not 'soon'",
        ),
        ({**BROKERS, "includeHeaders": "maybe"}, "option 'includeHeaders' must be true or false, not 'maybe'"),
        ({**BROKERS, "txnAppId": "daily"}, "options 'txnAppId' and 'txnVersion' belong together: give both, or none"),
        ({**BROKERS, "txnVersion": "-1"}, "option 'txnVersion' must be at least 0, not -1"),
        (
            {**BROKERS, "txnAppId": "daily", "txnVersion": "1", "delivery": "at-least-once"},
            "options 'txnAppId' and 'txnVersion' need delivery=exactly-once",
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_in_one_line(options: dict[str, str], expected: str) -> None:
    assert refusal(options) == expected


def test_a_stream_numbers_its_own_batches() -> None:
    assert "for batch writes" in refusal({**BROKERS, "txnAppId": "daily", "txnVersion": "1"}, is_stream=True)


def test_transactions_need_the_acknowledgement_of_all_replicas() -> None:
    assert "acks" in refusal({**BROKERS, "kafka.acks": "1"})
    assert read(**{"kafka.acks": "1", "delivery": "at-least-once"}).settings["acks"] == "1"
