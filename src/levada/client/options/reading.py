"""What the user gave, as keyword arguments or by Kafka's names, native or as text, to values by Kafka's names."""

from collections.abc import Mapping
from operator import index
from typing import Any, SupportsIndex

from levada.client.errors import ConfigurationError
from levada.client.options.objects import RESOLVERS
from levada.model.config import ConfigError, Key
from levada.model.near_names import did_you_mean

KeyTable = Mapping[str, Key]


def by_kafkas_names(keys: KeyTable, given: Mapping[str, object]) -> dict[str, object]:
    """What was given, by dotted names; None counts as not given."""
    named: dict[str, object] = {}
    spelled: dict[str, str] = {}
    for spelling, value in given.items():
        name = spelling if "." in spelling else spelling.replace("_", ".")
        if name not in keys:
            raise ConfigurationError(_unknown(spelling, keys))
        if name in spelled:
            raise ConfigurationError(f"{spelled[name]!r} and {spelling!r} are the same key; give one of them")
        spelled[name] = spelling
        if value is not None:
            named[name] = value
    return named


def read_value(key: Key, value: object) -> Any:
    """The value that was given for a key, of the key's type and within its range."""
    resolve = RESOLVERS.get(key.name)
    try:
        return key.parse(_text(key, value)) if resolve is None else resolve(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key.name} {error}") from None
    except ConfigError as error:
        raise ConfigurationError(str(error)) from None


def _unknown(spelling: str, keys: KeyTable) -> str:
    known = [name for name, key in keys.items() if not key.internal]
    if "." not in spelling:
        known = [name.replace(".", "_") for name in known]
    return f"unknown setting {spelling!r}{did_you_mean(spelling, known)}"


def _text(key: Key, value: object) -> str:
    """A native value as a properties file would have it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) and key.type == "boolean":
        return str(value).lower()
    if isinstance(value, SupportsIndex) and not isinstance(value, bool) and key.type != "boolean":
        return str(index(value))
    if isinstance(value, float) and key.type == "double":
        return repr(value)
    if isinstance(value, list | tuple) and key.type == "list" and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise ConfigurationError(f"must be of type {key.type}, not {value!r}")
