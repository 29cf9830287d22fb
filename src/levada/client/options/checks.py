"""What Kafka's clients require of their settings beyond the range of each, and what is legal but unwise."""

from collections.abc import Iterator, Mapping
from typing import Any

from levada.client.errors import ConfigurationError
from levada.model.group_checks import HEARTBEATS_PER_SESSION
from levada.model.topics import LEGAL, MAX_NAME_LENGTH

Values = dict[str, Any]
Given = Mapping[str, object]

ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
_LONGEST_MS = 2**31 - 1
_MOST_IN_FLIGHT = 5
"""A broker remembers as many batches of a producer, to know a repeated one by."""

_NOT_WITH_CONSUMER = ("heartbeat.interval.ms", "session.timeout.ms", "partition.assignment.strategy")
_NOT_WITH_CLASSIC = ("group.remote.assignor",)


def settle_common(values: Values, given: Given) -> Iterator[str]:
    """Change what follows from other settings; the warnings."""
    if "reconnect.backoff.ms" in given and "reconnect.backoff.max.ms" not in given:
        values["reconnect.backoff.max.ms"] = values["reconnect.backoff.ms"]
    values["metadata.recovery.strategy"] = values["metadata.recovery.strategy"].lower()
    values["security.protocol"] = values["security.protocol"].upper()
    for first, most in (
        ("retry.backoff.ms", "retry.backoff.max.ms"),
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
    ):
        if values[first] > values[most]:
            yield f"{first}={values[first]} is above {most}={values[most]}, which is used from the first time on"


def settle_producer(values: Values, given: Given) -> Iterator[str]:
    values["acks"] = ACKS[values["acks"]]
    _settle_idempotence(values, given)
    needed_ms = min(values["linger.ms"] + values["request.timeout.ms"], _LONGEST_MS)
    if values["delivery.timeout.ms"] < needed_ms:
        if "delivery.timeout.ms" in given:
            raise ConfigurationError(
                f"delivery.timeout.ms={values['delivery.timeout.ms']} must be at least linger.ms + request.timeout.ms, "
                f"which is {needed_ms}"
            )
        values["delivery.timeout.ms"] = needed_ms
        yield f"delivery.timeout.ms is raised to {needed_ms}, which is linger.ms + request.timeout.ms"


def _settle_idempotence(values: Values, given: Given) -> None:
    # Kafka switches idempotence off for acks and retries, but not for the requests in flight (KIP-679).
    asked = "enable.idempotence" in given
    if values["enable.idempotence"]:
        for contradicts, needs in (
            (values["retries"] == 0, "retries above 0"),
            (values["acks"] != -1, "acks=all"),
        ):
            if contradicts and asked:
                raise ConfigurationError(f"enable.idempotence=true needs {needs}")
            if contradicts:
                values["enable.idempotence"] = False
        in_flight = values["max.in.flight.requests.per.connection"]
        if in_flight > _MOST_IN_FLIGHT:
            raise ConfigurationError(
                f"max.in.flight.requests.per.connection={in_flight} is more than the {_MOST_IN_FLIGHT} that an "
                "idempotent producer may have; lower it, or set enable.idempotence=false"
            )
    if values["transactional.id"] is not None and not values["enable.idempotence"]:
        raise ConfigurationError(
            "transactional.id needs idempotence: acks=all, retries above 0, no enable.idempotence=false"
        )


def settle_consumer(values: Values, given: Given) -> Iterator[str]:
    values["group.protocol"] = values["group.protocol"].lower()
    _check_group(values, given)
    for name in _NOT_WITH_CONSUMER if values["group.protocol"] == "consumer" else _NOT_WITH_CLASSIC:
        if name in given:
            raise ConfigurationError(f"{name} cannot be set with group.protocol={values['group.protocol']}")
    if values["group.protocol"] == "classic":
        yield from _check_heartbeats(values)
    if values["fetch.min.bytes"] > values["fetch.max.bytes"]:
        yield (
            f"fetch.min.bytes={values['fetch.min.bytes']} is above fetch.max.bytes={values['fetch.max.bytes']}: "
            "fetches will wait for fetch.max.wait.ms each"
        )
    if values["fetch.max.wait.ms"] >= values["request.timeout.ms"]:
        yield (
            f"fetch.max.wait.ms={values['fetch.max.wait.ms']} is not below request.timeout.ms="
            f"{values['request.timeout.ms']}: fetches of idle partitions will time out"
        )


def _check_group(values: Values, given: Given) -> None:
    group_id, instance_id = values["group.id"], values["group.instance.id"]
    if group_id is None:
        if "enable.auto.commit" in given and values["enable.auto.commit"]:
            raise ConfigurationError("enable.auto.commit=true needs a group.id to commit for")
        values["enable.auto.commit"] = False
    elif not group_id:
        raise ConfigurationError("group.id must not be empty; leave it out for a consumer without a group")
    if instance_id is None:
        return
    if instance_id in (".", "..") or len(instance_id) > MAX_NAME_LENGTH or not LEGAL.issuperset(instance_id):
        raise ConfigurationError(
            f"group.instance.id must be at most {MAX_NAME_LENGTH} letters, digits, '.', '_' and '-', "
            f"not {instance_id!r}"
        )


def _check_heartbeats(values: Values) -> Iterator[str]:
    session_ms, heartbeat_ms = values["session.timeout.ms"], values["heartbeat.interval.ms"]
    if values["group.id"] is None:
        return
    if heartbeat_ms >= session_ms:
        raise ConfigurationError(f"heartbeat.interval.ms={heartbeat_ms} must be below session.timeout.ms={session_ms}")
    if session_ms < HEARTBEATS_PER_SESSION * heartbeat_ms:
        yield (
            f"session.timeout.ms={session_ms} is below three heartbeats (heartbeat.interval.ms={heartbeat_ms}): "
            "a lost one or two will cost the membership"
        )


def settle_admin(values: Values, given: Given) -> Iterator[str]:
    needed_ms = values["request.timeout.ms"]
    if values["default.api.timeout.ms"] < needed_ms:
        if "default.api.timeout.ms" in given:
            raise ConfigurationError(
                f"default.api.timeout.ms={values['default.api.timeout.ms']} must be at least "
                f"request.timeout.ms={needed_ms}"
            )
        values["default.api.timeout.ms"] = needed_ms
        yield f"default.api.timeout.ms is raised to {needed_ms}, which is request.timeout.ms"
