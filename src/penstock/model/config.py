"""Configuration: what a key may hold, how text becomes its value, and what to say when it cannot."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], str | None]
"""What is wrong with a value, or None."""

_BITS = {"short": 16, "int": 32, "long": 64}


class ConfigError(Exception):
    """A configuration that a broker refuses to start with; the text names the key and the way out."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    type: str
    default: Any
    check: Check | None = None

    def parse(self, text: str) -> Any:
        """The value that `text` stands for."""
        try:
            value = _parse(self.type, text.strip())
        except ValueError:
            raise ConfigError(f"{self.name} must be of type {self.type}, not {text!r}") from None
        for item in value if self.type == "list" else (value,):
            fault = self.check(item) if self.check else None
            if fault:
                raise ConfigError(f"{self.name} {fault}, not {text!r}")
        return value


def at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"must be at least {low}"


def between(low: float, high: float) -> Check:
    return lambda value: None if low <= value <= high else f"must be between {low} and {high}"


def one_of(*choices: object, ignore_case: bool = False) -> Check:
    def check(value: object) -> str | None:
        found = str(value).upper() in choices if ignore_case else value in choices
        return None if found else f"must be one of {', '.join(map(str, choices))}"

    return check


def parse_properties(text: str) -> dict[str, str]:
    """A Java properties file: `key=value` or `key: value`, comments with # or !, a backslash continues a line."""
    properties: dict[str, str] = {}
    logical = ""
    for line in text.splitlines():
        logical += line.lstrip()
        if logical.startswith(("#", "!")):
            logical = ""
            continue
        if (len(logical) - len(logical.rstrip("\\"))) % 2:
            logical = logical[:-1]
            continue
        if logical.strip():
            separator = min((at for at in (logical.find("="), logical.find(":")) if at >= 0), default=len(logical))
            properties[logical[:separator].strip()] = logical[separator + 1 :].strip()
        logical = ""
    return properties


class Config:
    """Values by key; what was not given has its default."""

    def __init__(self, keys: Iterable[Key], given: Mapping[str, str]) -> None:
        known = {key.name: key for key in keys}
        for name in given:
            if name not in known:
                raise ConfigError(_unknown(name, known))
        self._values = {name: key.default for name, key in known.items()}
        self._values.update({name: known[name].parse(text) for name, text in given.items()})
        self.given = frozenset(given)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def _unknown(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.0)
    return f"unknown configuration key {name!r}; the nearest known one is {near[0]!r}"


def _parse(type_: str, text: str) -> Any:
    if type_ in _BITS:
        number = int(text)
        if not -(2 ** (_BITS[type_] - 1)) <= number < 2 ** (_BITS[type_] - 1):
            raise ValueError(text)
        return number
    if type_ == "double":
        return float(text)
    if type_ == "boolean":
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if type_ == "list":
        return tuple(item.strip() for item in text.split(",") if item.strip())
    return text
