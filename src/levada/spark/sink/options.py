"""The options of the sink, read and checked once, when a write is planned."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from levada.client.errors import ConfigurationError
from levada.client.options import producer_options
from levada.client.options.admin_keys import ADMIN_KEYS
from levada.spark.options import (
    API_TIMEOUT,
    PATIENCE_MS,
    OptionError,
    client_settings,
    flag,
    option_ms,
    refuse_unknown,
    whole_number,
)

KNOWN = (
    "kafka.bootstrap.servers",
    "topic",
    "includeHeaders",
    "delivery",
    "transactionTimeout",
    "txnAppId",
    "txnVersion",
    # Spark adds these by itself.
    "checkpointLocation",
    "path",
    "queryName",
)

REFUSED = {
    "key.serializer": "the column 'key' is text or bytes already",
    "value.serializer": "the column 'value' is text or bytes already",
    "transactional.id": "the sink names its transactions itself",
    "transaction.timeout.ms": "use the option 'transactionTimeout'",
    "transaction.two.phase.commit.enable": "the sink's transactions end with the batch",
}

DEFAULTS = {"batch.size": "524288", "linger.ms": "20", "max.block.ms": PATIENCE_MS}
"""A task writes as fast as it can and waits for no single row: larger batches than a program's."""

DEFAULT_TRANSACTION_TIMEOUT_MS = 15 * 60_000
"""What brokers allow at most unless they are told otherwise (`transaction.max.timeout.ms`)."""

ADMIN_SETTINGS = frozenset(key.name for key in ADMIN_KEYS)


class Delivery(Enum):
    """What a reader of committed records may see of a write."""

    EXACTLY_ONCE = "exactly-once"
    """All of a batch or none of it, once."""
    ATOMIC_TASKS = "atomic-tasks"
    """All that a task wrote or none of it; tasks that are repeated write again."""
    AT_LEAST_ONCE = "at-least-once"
    """Each row at once; tasks that are repeated write again."""


@dataclass(frozen=True, slots=True)
class Version:
    """A write that may be repeated: the second time with the same or a lower number changes nothing."""

    app_id: str
    number: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    settings: Mapping[str, str]
    """Of producers, by Kafka's names, without a transactional id."""
    topic: str | None
    writes_headers: bool
    delivery: Delivery | None
    """None where the user has not said: exactly once if the brokers can."""
    transaction_timeout_ms: int
    version: Version | None

    @property
    def admin_settings(self) -> dict[str, str]:
        given = {name: value for name, value in self.settings.items() if name in ADMIN_SETTINGS}
        return {API_TIMEOUT: PATIENCE_MS, **given}


def read_options(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Raise OptionError for the first that cannot be used."""
    refuse_unknown(options, KNOWN)
    settings = {**DEFAULTS, **client_settings(options, REFUSED)}
    delivery = _delivery(options)
    _check_settings(settings, delivery)
    return SinkOptions(
        settings=settings,
        topic=options.get("topic") or None,
        writes_headers=flag(options, "includeHeaders", True),
        delivery=delivery,
        transaction_timeout_ms=_transaction_timeout_ms(options),
        version=_version(options, delivery, is_stream=is_stream),
    )


def _delivery(options: Mapping[str, str]) -> Delivery | None:
    given = options.get("delivery")
    if given is None:
        return None
    try:
        return Delivery(given.strip().lower())
    except ValueError:
        known = ", ".join(each.value for each in Delivery)
        raise OptionError(f"option 'delivery' must be one of {known}, not {given!r}") from None


def _check_settings(settings: Mapping[str, str], delivery: Delivery | None) -> None:
    transactional = {} if delivery is Delivery.AT_LEAST_ONCE else {"transactional.id": "checked"}
    try:
        producer_options(None, {**settings, **transactional})
    except ConfigurationError as error:
        raise OptionError(f"options 'kafka.*': {error}") from None


def _transaction_timeout_ms(options: Mapping[str, str]) -> int:
    given = options.get("transactionTimeout")
    if given is None:
        return DEFAULT_TRANSACTION_TIMEOUT_MS
    found = option_ms(given)
    if not found:
        raise OptionError(f"option 'transactionTimeout' must be a time such as 15m, 90s or 60000, not {given!r}")
    return found


def _version(options: Mapping[str, str], delivery: Delivery | None, *, is_stream: bool) -> Version | None:
    app_id, number = options.get("txnAppId"), whole_number(options, "txnVersion", at_least=0)
    if app_id is None and number is None:
        return None
    if is_stream:
        raise OptionError("options 'txnAppId' and 'txnVersion' are for batch writes: a stream numbers its own batches")
    if not app_id or number is None:
        raise OptionError("options 'txnAppId' and 'txnVersion' belong together: give both, or none")
    if delivery not in (None, Delivery.EXACTLY_ONCE):
        raise OptionError("options 'txnAppId' and 'txnVersion' need delivery=exactly-once")
    return Version(app_id, number)
