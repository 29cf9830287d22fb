"""Settings of clients: names, values, and what goes together. What Kafka does was asked of kafka-clients 4.3.1."""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from levada.client.errors import ConfigurationError
from levada.client.options import Options, admin_options, consumer_options, producer_options
from levada.client.options.admin_keys import ADMIN_KEYS
from levada.client.options.consumer_keys import CONSUMER_KEYS
from levada.client.options.meanings import MEANINGS, NO_EFFECT, UNSUPPORTED
from levada.client.options.producer_keys import PRODUCER_KEYS
from levada.model.config import Key

CONFIGS = Path(__file__).parents[2] / "data" / "configs"
TABLES = {"producer": PRODUCER_KEYS, "consumer": CONSUMER_KEYS, "admin": ADMIN_KEYS}
READERS: dict[str, Callable[[str, Mapping[str, object]], Options]] = {
    "producer": producer_options,
    "consumer": consumer_options,
    "admin": admin_options,
}
OURS = {"partition.assignment.strategy": "range,cooperative-sticky"}
SERVER = "localhost:9092"


def producer(**given: object) -> Options:
    return producer_options(SERVER, given)


def consumer(**given: object) -> Options:
    return consumer_options(SERVER, {"group_id": "g", **given})


def dotted(**given: object) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in given.items()}


@pytest.mark.parametrize("table", TABLES)
def test_the_table_is_kafkas(table: str) -> None:
    with (CONFIGS / f"{table}.csv").open(newline="") as file:
        rows = [
            {name: row[name] for name in ("name", "type", "default", "valid_range", "importance")}
            for row in csv.DictReader(file)
        ]
    printed = [
        {
            "name": key.name,
            "type": key.type,
            "default": key.format(key.default),
            "valid_range": str(key.range or ""),
            "importance": f"{key.importance}(internal)" if key.internal else str(key.importance),
        }
        for key in TABLES[table]
    ]
    for row in rows:
        row["default"] = OURS.get(row["name"], row["default"])
    assert [{**row, "default": row["default"] or ""} for row in printed] == [
        {**row, "default": "" if row["default"] in ("null", "(required)") else row["default"]} for row in rows
    ]


@pytest.mark.parametrize("key", dict.fromkeys(key.name for keys in TABLES.values() for key in keys))
def test_a_key_has_an_effect_or_none_or_is_not_supported_yet(key: str) -> None:
    kinds = (key in MEANINGS, key in NO_EFFECT, key in UNSUPPORTED)
    assert sum(kinds) == 1 or (key == "security.protocol" and kinds == (True, False, True))


@pytest.mark.parametrize("table", TABLES)
def test_defaults_are_filled_in(table: str) -> None:
    options = READERS[table](SERVER, {"group_id": "g"} if table == "consumer" else {})
    for key in TABLES[table]:
        if key.name not in ("bootstrap.servers", "group.id", "acks"):
            assert options[key.name] == key.default, key.name
    assert options["bootstrap.servers"] == (SERVER,)
    assert options.addresses == (("localhost", 9092),)
    assert options.warnings == []


def test_the_defaults_that_people_rely_on() -> None:
    options = producer()
    assert options["acks"] == -1
    assert options["enable.idempotence"] is True
    assert options["linger.ms"] == 5
    assert options["batch.size"] == 16_384
    assert options["buffer.memory"] == 32 * 1024 * 1024
    assert options["max.in.flight.requests.per.connection"] == 5
    assert options["key.serializer"] is None
    assert consumer()["enable.auto.commit"] is True
    assert consumer()["partition.assignment.strategy"] == ("range", "cooperative-sticky")


@pytest.mark.parametrize("spelling", ["linger_ms", "linger.ms"])
@pytest.mark.parametrize("value", [20, "20", " 20 "])
def test_names_have_dots_or_underscores_and_values_are_native_or_text(spelling: str, value: object) -> None:
    options = producer_options(SERVER, {spelling: value})
    assert options["linger.ms"] == 20
    assert dict(options.given) == {"linger.ms": value, "bootstrap.servers": SERVER}


def test_values_have_the_type_of_their_key() -> None:
    assert producer(enable_idempotence=False)["enable.idempotence"] is False
    assert producer(enable_idempotence="FALSE")["enable.idempotence"] is False
    assert [producer(acks=acks)["acks"] for acks in ("all", -1, "-1", 1, "1", 0)] == [-1, -1, -1, 1, 1, 0]
    assert consumer(group_protocol="CONSUMER")["group.protocol"] == "consumer"
    assert producer(metadata_recovery_strategy="NONE")["metadata.recovery.strategy"] == "none"
    assert producer(security_protocol="plaintext")["security.protocol"] == "PLAINTEXT"
    assert producer_options(["one:1", "two:2"], {}).addresses == (("one", 1), ("two", 2))


def test_none_is_as_if_it_was_not_given() -> None:
    options = consumer_options(SERVER, {"group_id": None, "fetch_min_bytes": None})
    assert options["group.id"] is None
    assert options["fetch.min.bytes"] == 1
    assert set(options.given) == {"bootstrap.servers"}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("linger", "linger_ms"),
        ("linger_mss", "linger_ms"),
        ("linger.mss", "linger.ms"),
        ("batchsize", "batch_size"),
        ("max.in.flight", "max.in.flight.requests.per.connection"),
        ("max_in_flight_requests", "max_in_flight_requests_per_connection"),
        ("ack", "acks"),
        ("x", None),
        ("bananas", None),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_in_the_same_spelling(name: str, nearest: str | None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        producer_options(SERVER, {name: 1})
    advice = "" if nearest is None else f"; did you mean {nearest}?"
    assert str(caught.value) == f"unknown setting {name!r}{advice}"


def test_a_key_of_another_client_is_unknown() -> None:
    with pytest.raises(ConfigurationError, match="unknown setting 'group_id'"):
        producer(group_id="g")


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'linger_ms' and 'linger\.ms' are the same key"):
        producer_options(SERVER, {"linger_ms": 1, "linger.ms": 1})
    with pytest.raises(ConfigurationError, match="given twice"):
        producer(bootstrap_servers="other:9092")


def test_the_servers_can_come_with_the_other_settings() -> None:
    assert producer_options(None, {"bootstrap.servers": "one:1,two:2"}).addresses == (("one", 1), ("two", 2))
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is missing"):
        producer_options(None, {})
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is empty"):
        admin_options("", {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"linger_ms": -1}, "linger.ms must be at least 0, not '-1'"),
        ({"linger_ms": "soon"}, "linger.ms must be of type long, not 'soon'"),
        ({"linger_ms": 0.5}, "linger.ms must be of type long, not 0.5"),
        ({"linger_ms": True}, "linger.ms must be of type long, not True"),
        ({"batch_size": 2**31}, "batch.size must be of type int, not '2147483648'"),
        ({"enable_idempotence": 1}, "enable.idempotence must be of type boolean, not 1"),
        ({"enable_idempotence": "yes"}, "enable.idempotence must be of type boolean, not 'yes'"),
        ({"acks": 2}, "acks must be one of: all, -1, 0, 1, not '2'"),
        ({"acks": "ALL"}, "acks must be one of: all, -1, 0, 1, not 'ALL'"),
        ({"client_id": b"me"}, "client.id must be of type string, not b'me'"),
        ({"client_id": True}, "client.id must be of type string, not True"),
        (
            {"compression_type": "brotli"},
            "compression.type must be one of: none, gzip, snappy, lz4, zstd, not 'brotli'",
        ),
        ({"compression_gzip_level": 0}, "compression.gzip.level must be between 1 and 9 or equal to -1, not '0'"),
        ({"transactional_id": ""}, "transactional.id must be non-empty, not ''"),
        ({"metadata_max_idle_ms": 100}, "metadata.max.idle.ms must be at least 5000, not '100'"),
        ({"metric_reporters": [1]}, "metric.reporters must be of type list, not [1]"),
    ],
)
def test_a_wrong_value_is_refused_with_what_it_may_be(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        producer(**given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "given",
    [
        {"security_protocol": "SSL"},
        {"security_protocol": "sasl_plaintext"},
        {"sasl_mechanism": "PLAIN"},
        {"sasl_jaas_config": "secret"},
        {"ssl_truststore_location": "/path"},
        {"config_providers": "file"},
        {"transaction_two_phase_commit_enable": True},
    ],
)
def test_what_is_not_supported_yet_is_refused_in_one_line(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="is not supported yet") as caught:
        producer(**given)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_is_not_supported_may_ask_for_nothing() -> None:
    assert producer(transaction_two_phase_commit_enable=False, config_providers="").warnings == []
    with pytest.raises(ConfigurationError, match=r"bootstrap\.controllers is not supported yet"):
        admin_options(SERVER, {"bootstrap_controllers": "localhost:9093"})


def test_a_key_without_meaning_is_accepted_with_one_line() -> None:
    options = producer(metric_reporters="com.example.Reporter", enable_metrics_push=False)
    assert options.warnings == ["metric.reporters has no effect here", "enable.metrics.push has no effect here"]


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": 1}, False),
        ({"acks": 0}, False),
        ({"retries": 0}, False),
        ({"enable_idempotence": False, "acks": 0}, False),
        ({"enable_idempotence": False, "max_in_flight_requests_per_connection": 6}, False),
        ({"acks": "-1", "transactional_id": "x"}, True),
    ],
)
def test_idempotence_yields_to_what_it_cannot_go_with(given: dict[str, object], idempotent: bool) -> None:
    assert producer(**given)["enable.idempotence"] is idempotent


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"acks": 1, "enable_idempotence": True}, "enable.idempotence=true needs acks=all"),
        ({"retries": 0, "enable_idempotence": True}, "enable.idempotence=true needs retries above 0"),
        ({"max_in_flight_requests_per_connection": 6}, "more than the 5"),
        ({"max_in_flight_requests_per_connection": 6, "acks": 1}, "more than the 5"),
        ({"transactional_id": "x", "enable_idempotence": False}, "transactional.id needs idempotence"),
        ({"transactional_id": "x", "acks": 1}, "transactional.id needs idempotence"),
        ({"transactional_id": "x", "retries": 0}, "transactional.id needs idempotence"),
        ({"delivery_timeout_ms": 1000}, "delivery.timeout.ms=1000 must be at least linger.ms + request.timeout.ms"),
    ],
)
def test_settings_of_a_producer_that_contradict_each_other_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace(".", r"\.").replace("+", r"\+")):
        producer(**given)


@pytest.mark.parametrize(
    ("given", "delivery_timeout_ms"),
    [
        ({"linger_ms": 200_000}, 230_000),
        ({"request_timeout_ms": 130_000}, 130_005),
        ({"linger_ms": 2**31}, 2**31 - 1),
        ({"linger_ms": 3_000_000_000, "delivery_timeout_ms": 2**31 - 1}, 2**31 - 1),
    ],
)
def test_the_delivery_timeout_follows_where_it_was_not_given(given: dict[str, Any], delivery_timeout_ms: int) -> None:
    options = producer(**given)
    assert options["delivery.timeout.ms"] == delivery_timeout_ms
    assert len(options.warnings) == ("delivery_timeout_ms" not in given)


def test_backoffs_that_are_given_by_half() -> None:
    assert producer(reconnect_backoff_ms=5_000)["reconnect.backoff.max.ms"] == 5_000
    assert producer(reconnect_backoff_ms=20)["reconnect.backoff.max.ms"] == 20
    assert producer(retry_backoff_ms=5_000).warnings == [
        "retry.backoff.ms=5000 is above retry.backoff.max.ms=1000, which is used from the first time on"
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group_id": ""}, "group.id must not be empty"),
        ({"group_id": "  "}, "group.id must not be empty"),
        ({"group_id": None, "enable_auto_commit": True}, "enable.auto.commit=true needs a group.id"),
        ({"group_protocol": "consumer", "session_timeout_ms": 1000}, "session.timeout.ms cannot be set"),
        ({"group_protocol": "consumer", "heartbeat_interval_ms": 1000}, "heartbeat.interval.ms cannot be set"),
        ({"group_protocol": "Consumer", "partition_assignment_strategy": "range"}, "strategy cannot be set"),
        ({"group_remote_assignor": "uniform"}, "group.remote.assignor cannot be set with group.protocol=classic"),
        ({"session_timeout_ms": 1000}, "heartbeat.interval.ms=3000 must be below session.timeout.ms=1000"),
        ({"session_timeout_ms": 3000}, "heartbeat.interval.ms=3000 must be below session.timeout.ms=3000"),
        ({"group_instance_id": ""}, "group.instance.id must be non-empty"),
        ({"group_instance_id": "a b/c"}, "group.instance.id must be at most 249 letters"),
        ({"group_instance_id": ".."}, "group.instance.id must be at most 249 letters"),
        ({"group_instance_id": "n" * 250}, "group.instance.id must be at most 249 letters"),
        ({"isolation_level": "READ_COMMITTED"}, "isolation.level must be one of"),
        ({"auto_offset_reset": "LATEST"}, "auto.offset.reset must be either 'earliest', 'latest', 'none'"),
        ({"auto_offset_reset": "by_duration:-PT1H"}, "auto.offset.reset must be either"),
        ({"auto_offset_reset": "by_duration:"}, "auto.offset.reset must be either"),
        ({"share_acknowledgement_mode": "explicit"}, "share.acknowledgement.mode is not supported yet"),
    ],
)
def test_settings_of_a_consumer_that_kafka_refuses_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message.replace(".", r"\.")):
        consumer(**given)


def test_what_kafka_takes_of_a_consumer_is_taken() -> None:
    assert consumer(group_id=None)["enable.auto.commit"] is False
    assert consumer(group_id=None, group_protocol="consumer")["enable.auto.commit"] is False
    assert consumer(group_id=None, group_instance_id="i")["group.instance.id"] == "i"
    assert consumer(group_id=None, session_timeout_ms=1000)["session.timeout.ms"] == 1000
    assert consumer(auto_offset_reset="by_duration:PT0S")["auto.offset.reset"] == "by_duration:PT0S"
    assert consumer(group_protocol="consumer", group_remote_assignor="mine")["group.remote.assignor"] == "mine"


def test_a_session_below_three_heartbeats_is_warned_of() -> None:
    warnings = consumer(session_timeout_ms=8_999, heartbeat_interval_ms=3_000).warnings
    assert len(warnings) == 1
    assert "session.timeout.ms=8999 is below three heartbeats (heartbeat.interval.ms=3000)" in warnings[0]
    assert consumer(session_timeout_ms=9_000, heartbeat_interval_ms=3_000).warnings == []


def test_fetch_settings_that_work_against_each_other_are_warned_of() -> None:
    assert "fetch.max.bytes=10" in consumer(fetch_min_bytes=100, fetch_max_bytes=10).warnings[0]
    assert "request.timeout.ms=100" in consumer(request_timeout_ms=100).warnings[0]


def test_the_time_for_a_call_of_the_admin_client_is_at_least_that_for_a_request() -> None:
    assert admin_options(SERVER, {"request_timeout_ms": 90_000})["default.api.timeout.ms"] == 90_000
    with pytest.raises(ConfigurationError, match=r"default\.api\.timeout\.ms=10 must be at least"):
        admin_options(SERVER, {"default_api_timeout_ms": 10})


def own(*_: object) -> Any: ...


class Own:
    name = "own"


OWN = Own()


def test_partitioners_go_by_name_or_are_ones_own() -> None:
    java = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    given = ("default", "round_robin", "hot_key", java, own)
    assert [producer(partitioner_class=value)["partitioner.class"] for value in given] == [
        None,
        "round_robin",
        "hot_key",
        "round_robin",
        own,
    ]
    for wrong in ("roundabout", "com.example.Mine", 7):
        with pytest.raises(ConfigurationError, match=r"partitioner\.class must be"):
            producer(partitioner_class=wrong)


@pytest.mark.parametrize(
    ("value", "assignors"),
    [
        ("range", ("range",)),
        ("cooperative-sticky, range", ("cooperative-sticky", "range")),
        (["sticky", "roundrobin", "sticky"], ("sticky", "roundrobin")),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", ("cooperative-sticky",)),
        ("class org.apache.kafka.clients.consumer.RoundRobinAssignor", ("roundrobin",)),
        (OWN, (OWN,)),
        ([OWN, "range"], (OWN, "range")),
    ],
)
def test_assignors_go_by_name_or_are_ones_own(value: object, assignors: tuple[object, ...]) -> None:
    assert consumer(partition_assignment_strategy=value)["partition.assignment.strategy"] == assignors


@pytest.mark.parametrize("value", ["", "rang", "com.example.Mine", []])
def test_an_unknown_assignor_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"partition\.assignment\.strategy must"):
        consumer(partition_assignment_strategy=value)


def test_serializers_are_callables_in_the_end() -> None:
    assert producer(key_serializer="str")["key.serializer"]("k") == b"k"
    assert producer(value_serializer=own)["value.serializer"] is own
    assert consumer(value_deserializer="bytes")["value.deserializer"] is None
    with pytest.raises(ConfigurationError, match=r"^value\.serializer must be one of bytes, str, json"):
        producer(value_serializer="avro")


def test_interceptors_are_objects_of_python() -> None:
    assert producer(interceptor_classes=[Own, OWN])["interceptor.classes"] == (Own, OWN)
    assert producer(interceptor_classes=OWN)["interceptor.classes"] == (OWN,)
    assert producer(interceptor_classes="")["interceptor.classes"] == ()
    with pytest.raises(ConfigurationError, match=r"interceptor\.classes must be classes or objects"):
        producer(interceptor_classes="com.example.Interceptor")


def test_a_properties_file_can_be_handed_over() -> None:
    given = dotted(acks="all", batch_size="32768", enable_idempotence="true", compression_type="zstd")
    assert producer_options(None, {"bootstrap.servers": "a:1,b:2", **given})["batch.size"] == 32_768


def test_no_key_has_an_underscore() -> None:
    """So that the two spellings never meet."""
    keys: list[Key] = [key for table in TABLES.values() for key in table]
    assert not [key.name for key in keys if "_" in key.name]
