"""What DescribeConfigs says of a topic, a group, a broker, its loggers, and the default of all brokers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import TypeAlias

from levada.broker.broker_config import NOTHING, BrokerConfig, inherited_value, own_value
from levada.model.config import Dynamic, Key
from levada.model.group_keys import GROUP_KEYS
from levada.model.key_meanings import NO_EFFECT, broker_meaning, group_meaning, topic_meaning
from levada.model.topic_keys import TOPIC_KEYS

UNKNOWN_TYPE = 0

TYPE_CODES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}

_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
SYNONYMS = {
    **dict.fromkeys(_RETENTION, _RETENTION),
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_JITTER, _JITTER),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
"""Broker keys that stand in for each other, the strongest first."""


class ConfigSource(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    GROUP = 8


Levels: TypeAlias = Sequence[tuple[ConfigSource, Mapping[str, str]]]
"""What was set where, the strongest first."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A place that gives, or would give, the value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    name: str
    value: str | None
    """None for a secret."""
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    """From the one that counts to the weakest."""
    type_code: int
    documentation: str

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


def topic_entries(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """The topic's keys, all or those named."""
    return [
        _inheriting_entry(broker, key, overrides, ConfigSource.TOPIC, topic_meaning(key.name))
        for key in TOPIC_KEYS
        if _is_wanted(key.name, names) and (not key.internal or key.name in overrides)
    ]


def group_entries(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """The group's keys, all or those named."""
    return [
        _inheriting_entry(broker, key, overrides, ConfigSource.GROUP, group_meaning(key.name))
        for key in GROUP_KEYS
        if _is_wanted(key.name, names)
    ]


def broker_entries(
    broker: BrokerConfig,
    names: Collection[str] | None = None,
    *,
    is_cluster_default: bool = False,
    actual: Mapping[str, str] = NOTHING,
) -> list[DescribedConfig]:
    """The broker's keys, or what is set for all brokers; all of them or those named.

    `actual` has what the node worked out by itself: its id, what it advertises.
    """
    levels = [(ConfigSource.CLUSTER, broker.cluster)] if is_cluster_default else _levels(broker, actual)
    listed = {name for _, texts in levels for name in texts}
    if not is_cluster_default:
        listed |= {name for name, key in broker.static.keys.items() if not key.internal}
    return [
        _broker_entry(broker, name, levels, actual, has_default=not is_cluster_default)
        for name in sorted(listed)
        if _is_wanted(name, names)
    ]


def logger_entries(levels: Mapping[str, str], names: Collection[str] | None = None) -> list[DescribedConfig]:
    """The level of each logger, all or those named."""
    return [
        DescribedConfig(name, level, False, ConfigSource.LOGGER, False, (), UNKNOWN_TYPE, "")
        for name, level in levels.items()
        if _is_wanted(name, names)
    ]


def _levels(broker: BrokerConfig, actual: Mapping[str, str] = NOTHING) -> Levels:
    given = {**broker.static.given, **actual}
    return [(ConfigSource.BROKER, broker.own), (ConfigSource.CLUSTER, broker.cluster), (ConfigSource.STATIC, given)]


def _is_wanted(name: str, names: Collection[str] | None) -> bool:
    # An empty list asks for everything, as no list does.
    return not names or name in names


def _broker_entry(
    broker: BrokerConfig,
    name: str,
    levels: Levels,
    actual: Mapping[str, str],
    *,
    has_default: bool,
) -> DescribedConfig:
    synonyms = _broker_synonyms(broker, name, levels, has_default=has_default)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    key = broker.keys.get(name)
    if key is None:
        # The broker does not know what such a key holds; it may be a secret.
        return DescribedConfig(name, None, True, source, True, synonyms, UNKNOWN_TYPE, NO_EFFECT)
    if key.is_sensitive:
        value = None
    elif has_default:
        value = actual.get(name, key.format(broker[name]))
    else:
        value = key.format(own_value(key, broker.cluster))
    return DescribedConfig(
        name=name,
        value=value,
        read_only=key.dynamic is Dynamic.READ_ONLY,
        source=source,
        is_sensitive=key.is_sensitive,
        synonyms=synonyms,
        type_code=TYPE_CODES[key.type],
        documentation=broker_meaning(name),
    )


def _inheriting_entry(
    broker: BrokerConfig, key: Key, overrides: Mapping[str, str], source: ConfigSource, documentation: str
) -> DescribedConfig:
    """An entry of a topic or group, which follows the broker where it says nothing itself."""
    value = own_value(key, overrides)
    synonyms: list[Synonym] = []
    if value is not None:
        synonyms.append(Synonym(key.name, key.format(value), source))
    else:
        value = inherited_value(broker, key)
    if key.broker_default is not None:
        synonyms += _broker_synonyms(broker, key.broker_default, _levels(broker))
    elif source is ConfigSource.GROUP:
        synonyms.append(Synonym(key.name, key.format(key.default), ConfigSource.DEFAULT))
    return DescribedConfig(
        name=key.name,
        value=key.format(value),
        read_only=False,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=False,
        synonyms=tuple(synonyms),
        type_code=TYPE_CODES[key.type],
        documentation=documentation,
    )


def _broker_synonyms(
    broker: BrokerConfig, name: str, levels: Levels, *, has_default: bool = True
) -> tuple[Synonym, ...]:
    """Every place that names the key or a synonym, from the strongest source to the weakest."""
    is_secret = name not in broker.keys or broker.keys[name].is_sensitive
    related = SYNONYMS.get(name, (name,))
    found = [
        Synonym(one, None if is_secret else texts[one], source)
        for source, texts in levels
        for one in related
        if one in texts
    ]
    if has_default:
        defaults = {one: broker.keys[one].default for one in related if one in broker.static.keys}
        found += [
            Synonym(one, None if is_secret else broker.keys[one].format(default), ConfigSource.DEFAULT)
            for one, default in defaults.items()
            if default is not None
        ]
    # Kafka lists synonyms only behind the key's own name: log.retention.ms that is set nowhere has none.
    return tuple(dropwhile(lambda synonym: synonym.name != name, found))
