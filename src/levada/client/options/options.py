"""The settings of a client: read, checked against each other, defaults filled in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from levada.client.errors import ConfigurationError
from levada.client.options.addresses import parse_addresses
from levada.client.options.admin_keys import ADMIN_KEYS
from levada.client.options.checks import Given, Values, settle_admin, settle_common, settle_consumer, settle_producer
from levada.client.options.consumer_keys import CONSUMER_KEYS
from levada.client.options.meanings import NO_EFFECT, UNSUPPORTED
from levada.client.options.older_keys import understand
from levada.client.options.producer_keys import PRODUCER_KEYS
from levada.client.options.reading import KeyTable, by_kafkas_names, read_value

_Settle = Callable[[Values, Given], Iterator[str]]


class Options:
    """Values by Kafka's dotted name, with every choice of words as the default spells it; `acks` is -1, 0 or 1.

    >>> options = producer_options("localhost:9092", {"linger_ms": 20, "acks": "all"})
    >>> options["linger.ms"], options["acks"], options["batch.size"]
    (20, -1, 16384)
    """

    __slots__ = ("_values", "given", "limits", "warnings")

    def __init__(self, values: Values, given: Given, warnings: list[str], limits: Mapping[str, int]) -> None:
        self._values = values
        self.limits = limits
        """By older names of keys that count records."""
        self.given: Mapping[str, object] = given
        """What the user gave, by dotted name, as it was given."""
        self.warnings = warnings
        """Lines about what is legal, but does nothing here or is unwise."""

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each of `bootstrap.servers`."""
        return parse_addresses(self._values["bootstrap.servers"])


def producer_options(bootstrap: str | Sequence[str] | None, given: Mapping[str, object]) -> Options:
    return _options("producer", _PRODUCER, bootstrap, given, settle_producer)


def consumer_options(bootstrap: str | Sequence[str] | None, given: Mapping[str, object]) -> Options:
    return _options("consumer", _CONSUMER, bootstrap, given, settle_consumer)


def admin_options(bootstrap: str | Sequence[str] | None, given: Mapping[str, object]) -> Options:
    return _options("admin", _ADMIN, bootstrap, given, settle_admin)


def _options(
    kind: str, keys: KeyTable, bootstrap: str | Sequence[str] | None, given: Mapping[str, object], settle: _Settle
) -> Options:
    read = understand(kind, given, knows_servers=bootstrap is not None)
    named = by_kafkas_names(keys, read.given)
    if bootstrap is not None:
        if "bootstrap.servers" in named:
            raise ConfigurationError("the servers are given twice, as the first argument and as bootstrap.servers")
        named["bootstrap.servers"] = bootstrap
    if "bootstrap.servers" not in named:
        raise ConfigurationError("bootstrap.servers is missing; give the address of a broker, such as 'localhost:9092'")
    values: Values = {name: key.default for name, key in keys.items()}
    for name, value in named.items():
        if name in UNSUPPORTED and not _asks_for_nothing(name, value):
            raise ConfigurationError(f"{name} is not supported yet: {UNSUPPORTED[name]}")
        values[name] = read_value(keys[name], value)
    parse_addresses(values["bootstrap.servers"])
    warnings = [*read.warnings, *(f"{name} has no effect here" for name in named if name in NO_EFFECT)]
    warnings += settle_common(values, named)
    warnings += settle(values, named)
    return Options(values, named, warnings, read.limits)


def _asks_for_nothing(name: str, value: object) -> bool:
    """Whether the value of an unsupported key is what we do anyway."""
    if name == "security.protocol":
        return isinstance(value, str) and value.strip().upper() == "PLAINTEXT"
    if name == "transaction.two.phase.commit.enable":
        return str(value).strip().lower() == "false"
    return value in ("", [], ())


_PRODUCER: KeyTable = {key.name: key for key in PRODUCER_KEYS}
_CONSUMER: KeyTable = {key.name: key for key in CONSUMER_KEYS}
_ADMIN: KeyTable = {key.name: key for key in ADMIN_KEYS}
