"""Configuration: what a key may hold, how text becomes its value, and what to say when it cannot."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import isinf
from typing import Any

from levada.model.config_ranges import ValueRange
from levada.model.near_names import did_you_mean

_BITS = {"short": 16, "int": 32, "long": 64}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FRACTION = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class ConfigError(Exception):
    """A configuration that a broker refuses to start with; the text names the key and the way out."""


class InvalidValue(ConfigError):
    """A value that its key cannot hold. `kafka_text` is what Kafka tells a client that sends it."""

    def __init__(self, text: str, kafka_text: str) -> None:
        super().__init__(text)
        self.kafka_text = kafka_text


class Dynamic(StrEnum):
    """Where a key can be changed while brokers run."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    ALWAYS = "yes"
    """Keys of topics and groups."""


class Importance(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    type: str
    default: Any
    range: ValueRange | None = None
    dynamic: Dynamic = Dynamic.READ_ONLY
    importance: Importance = Importance.MEDIUM
    internal: bool = False
    """Not listed unless it was given."""
    broker_default: str | None = None
    """The broker property that a topic or group without this key follows."""

    @property
    def is_sensitive(self) -> bool:
        return self.type == "password"

    def parse(self, text: str) -> Any:
        """The value that `text` stands for."""
        try:
            value = _parse(self.type, text.strip())
        except ValueError:
            raise self._invalid(text, f"must be of type {self.type}", text, _not_of(self.type)) from None
        if self.type == "list" and self.range is not None and "" in value:
            kafka_text = f"Configuration '{self.name}' values must not be empty."
            raise InvalidValue(f"{self.name} must not have empty members, as {text!r} does", kafka_text)
        fault = self.range.fault(value) if self.range else None
        if fault:
            kafka_reason = f"{fault.subject or self.name} {fault.reason}"
            raise self._invalid(text, fault.reason, fault.value, kafka_reason)
        return tuple(filter(None, value)) if self.type == "list" else value

    def format(self, value: Any) -> str | None:
        """The text that a value is shown as, in Java's manner."""
        if value is None:
            return None
        if self.type == "list":
            return ",".join(value)
        if self.type == "boolean":
            return str(value).lower()
        return _java_double(value) if self.type == "double" else str(value)

    def _invalid(self, text: str, reason: str, at_fault: object, kafka_reason: str) -> InvalidValue:
        kafka_text = f"Invalid value {at_fault} for configuration {self.name}: {kafka_reason}"
        return InvalidValue(f"{self.name} {reason}, not {text!r}", kafka_text)


class Config:
    """Values by key; what was not given has its default."""

    def __init__(self, keys: Iterable[Key], given: Mapping[str, str]) -> None:
        self.keys: Mapping[str, Key] = {key.name: key for key in keys}
        self.given: Mapping[str, str] = dict(given)
        """The texts of what was given."""
        for name in given:
            if name not in self.keys:
                raise ConfigError(_unknown(name, self.keys))
        self._values = {name: key.default for name, key in self.keys.items()}
        self._values.update({name: self.keys[name].parse(text) for name, text in given.items()})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def _unknown(name: str, known: Iterable[str]) -> str:
    return f"unknown configuration key {name!r}{did_you_mean(name, known)}"


def _parse(type_: str, text: str) -> Any:
    """A value of a type; ValueError where Java's own parsers would have none."""
    if type_ in _BITS:
        if not _WHOLE.fullmatch(text) or not -(2 ** (_BITS[type_] - 1)) <= int(text) < 2 ** (_BITS[type_] - 1):
            raise ValueError(text)
        return int(text)
    if type_ == "double":
        if not _FRACTION.fullmatch(text) or isinf(float(text)):
            raise ValueError(text)
        return float(text)
    if type_ == "boolean":
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if type_ == "list":
        return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()
    return text


def _not_of(type_: str) -> str:
    if type_ == "boolean":
        return "Expected value to be either true or false"
    return f"Not a number of type {type_.upper()}"


def _java_double(value: float) -> str:
    """Java writes exponents from 10^7 on and below 10^-3, and always a point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "values are finite"
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"
