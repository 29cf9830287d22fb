"""Whether configurations may be changed as a request wants, and what changes then: before it becomes records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from levada.model.broker_keys import NODE_KEYS, THROTTLE_KEYS
from levada.model.cleaner_checks import THREADS, memory_fault, no_threads_fault, threads_fault
from levada.model.config import Dynamic, InvalidValue, Key
from levada.model.config_checks import value_fault
from levada.model.errors import ApiError, InvalidConfig, InvalidRequest
from levada.model.group_checks import broker_fault, group_fault
from levada.model.group_keys import GROUP_KEYS
from levada.model.near_names import did_you_mean
from levada.model.topic_keys import TOPIC_KEYS

NOTHING: Mapping[str, str] = MappingProxyType({})
LISTENER_PREFIX = "listener.name."
PER_LISTENER_PREFIXES = ("ssl.keystore.", "ssl.truststore.", "ssl.key.")


class Kind(StrEnum):
    """Whose configuration it is."""

    TOPIC = "topic"
    GROUP = "group"
    BROKER = "broker"
    CLUSTER = "cluster"
    """The default of all brokers."""


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Change: TypeAlias = tuple[str, int, str | None]
"""A key, an Operation as it came over the wire, and its value."""

_KEYS: dict[Kind, dict[str, Key]] = {
    Kind.TOPIC: {key.name: key for key in TOPIC_KEYS},
    Kind.GROUP: {key.name: key for key in GROUP_KEYS},
    Kind.BROKER: {key.name: key for key in (*NODE_KEYS, *THROTTLE_KEYS)},
}
_KEYS[Kind.CLUSTER] = _KEYS[Kind.BROKER]


MAX_VALUE_BYTES = 32_767
MOST_SUGGESTIONS = 20
"""In one request: to look for the near name takes some tenths of a millisecond, and is for people."""


class UnknownConfig(InvalidConfig):
    """A name that no key has."""

    def __init__(self, text: str, name: str, kind: Kind) -> None:
        super().__init__(text)
        self.name = name
        self.kind = kind


class Refusals:
    """What the refusals of one request say."""

    def __init__(self) -> None:
        self._suggestions_left = MOST_SUGGESTIONS

    def text_of(self, error: ApiError) -> str:
        if not isinstance(error, UnknownConfig) or not self._suggestions_left:
            return str(error)
        self._suggestions_left -= 1
        return f"{error}{did_you_mean(error.name, _KEYS[error.kind])}"


def incremental_changes(
    kind: str,
    current: Mapping[str, str],
    operations: Sequence[Change],
    static: Mapping[str, str] = NOTHING,
    others: Mapping[str, str] = NOTHING,
) -> dict[str, str | None]:
    """What differs after the operations, None for a key that goes.

    `static` is what this broker was started with; `others` is what holds beside a broker's own settings, the default of
    all brokers, or beside that, its own.
    """
    check_operations(operations)
    wanted = dict(current)
    for name, operation, value in operations:
        match operation:
            case ConfigOperation.SET:
                assert value is not None
                wanted[name] = value
            case ConfigOperation.DELETE:
                wanted.pop(name, None)
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                assert value is not None
                before = _members(_list_now(Kind(kind), name, ConfigOperation(operation), current, static))
                wanted[name] = ",".join(_combined(before, ConfigOperation(operation), _members(value)))
            case _:
                raise InvalidRequest(f"Unknown operations type {operation}")
    _refuse_long(wanted)
    _check(Kind(kind), wanted, static)
    _check_cleaning(Kind(kind), current, wanted, static, others)
    return _differences(current, wanted)


def check_operations(operations: Sequence[Change]) -> None:
    """Refuse what cannot be, whatever the keys are."""
    names = [name for name, _, _ in operations]
    if len(set(names)) < len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    _refuse_nulls(
        name for name, operation, value in operations if value is None and operation != ConfigOperation.DELETE
    )


def full_changes(
    kind: str,
    current: Mapping[str, str],
    wanted: Mapping[str, str | None],
    static: Mapping[str, str] = NOTHING,
    others: Mapping[str, str] = NOTHING,
) -> dict[str, str | None]:
    """What differs when all that was set is replaced by `wanted`, None for a key that goes."""
    _refuse_nulls(name for name, value in wanted.items() if value is None)
    values = {name: value for name, value in wanted.items() if value is not None}
    _refuse_long(values)
    _check(Kind(kind), values, static)
    _check_cleaning(Kind(kind), current, values, static, others)
    return _differences(current, values)


def check_topic_configs(configs: Mapping[str, str | None]) -> None:
    """Refuse what a new topic cannot have."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    values = {name: value for name, value in configs.items() if value is not None}
    _refuse_long(values)
    _check(Kind.TOPIC, values, NOTHING)


def _refuse_long(values: Mapping[str, str]) -> None:
    """No record could be read again that has a longer one: a list may come to that, a part at a time."""
    if any(len(value) > MAX_VALUE_BYTES // 4 and len(value.encode()) > MAX_VALUE_BYTES for value in values.values()):
        raise InvalidConfig(
            f"The configuration value cannot be added because it exceeds the maximum value size of {MAX_VALUE_BYTES}"
            " bytes."
        )


def _refuse_nulls(names: Iterable[str]) -> None:
    nulls = list(names)
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")


def _differences(current: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {name: None for name in current if name not in wanted}
    changed.update({name: value for name, value in wanted.items() if current.get(name) != value})
    return changed


def _list_now(
    kind: Kind, name: str, operation: ConfigOperation, current: Mapping[str, str], static: Mapping[str, str]
) -> str:
    """What a list is appended to: what was set, else what the broker was started with, else the default."""
    key = _KEYS[kind].get(name)
    is_broker = kind in (Kind.BROKER, Kind.CLUSTER)
    if is_broker and key is None:
        raise UnknownConfig(f"Unknown config name: {name}", name, kind)
    if key is None or key.type != "list":
        if is_broker:
            raise InvalidConfig(f"Config value {operation.name.lower()} is not allowed for config key: {name}")
        raise InvalidConfig(f"Can't {operation.name} to key {name} because its type is not LIST.")
    if name in current:
        return current[name]
    return static.get(name if is_broker else key.broker_default or "", key.format(key.default) or "")


def _members(text: str) -> list[str]:
    return [member.strip() for member in text.split(",") if member.strip()]


def _combined(members: list[str], operation: ConfigOperation, others: list[str]) -> list[str]:
    """What is there already is not appended again; each that is subtracted takes the first of its kind along."""
    if operation is ConfigOperation.APPEND:
        present = set(members)
        return members + [other for other in dict.fromkeys(others) if other not in present]
    doomed = Counter(others)
    kept = []
    for member in members:
        if doomed[member]:
            doomed[member] -= 1
        else:
            kept.append(member)
    return kept


def _check(kind: Kind, configs: Mapping[str, str], static: Mapping[str, str]) -> None:
    """Refuse a configuration that must not be, as a whole: what was legal before may not go with what is new."""
    if kind in (Kind.BROKER, Kind.CLUSTER):
        _check_broker(configs, static, is_cluster_default=kind is Kind.CLUSTER)
        return
    for name in sorted(configs):
        if name not in _KEYS[kind]:
            raise UnknownConfig(f"Unknown {kind} config name: {name}", name, kind)
    values = _parsed(kind, configs, InvalidConfig)
    if kind is Kind.TOPIC:
        _check_topic_values({key.name: key.default for key in TOPIC_KEYS} | values)
    else:
        _check_group_values(values, static)


def _check_topic_values(values: Mapping[str, Any]) -> None:
    least_ms, most_ms = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if least_ms > most_ms:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({least_ms}) > max.compaction.lag.ms ({most_ms})"
        )
    if values["remote.storage.enable"]:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def _check_group_values(values: Mapping[str, Any], static: Mapping[str, str]) -> None:
    """Only what the broker was started with bounds a group: none of these bounds can change while it runs."""
    fault = group_fault(values, lambda name: _broker_value(static, name))
    if fault is not None:
        raise InvalidConfig(fault)


def _broker_value(static: Mapping[str, str], name: str) -> Any:
    """What a broker was started with."""
    key = _KEYS[Kind.BROKER][name]
    return key.parse(static[name]) if name in static else key.default


def _check_broker(configs: Mapping[str, str], static: Mapping[str, str], *, is_cluster_default: bool) -> None:
    dynamics = {name: key.dynamic for name, key in _KEYS[Kind.BROKER].items() if name in configs}
    read_only = [name for name, dynamic in dynamics.items() if dynamic is Dynamic.READ_ONLY]
    _refuse("Cannot update these configs dynamically", read_only)
    per_listener = [name for name in dynamics if name.startswith(PER_LISTENER_PREFIXES)]
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix", per_listener
    )
    values = _parsed(Kind.BROKER, configs, InvalidRequest)
    if is_cluster_default:
        per_broker = [name for name, dynamic in dynamics.items() if dynamic is Dynamic.PER_BROKER]
        prefixed = [name for name in configs if name.startswith(LISTENER_PREFIX)]
        text = "Cannot update these configs at default cluster level, broker id must be specified"
        _refuse(text, [*per_broker, *prefixed])
    for name, value in values.items():
        fault = value_fault(name, value)
        if fault is not None:
            raise InvalidRequest(f"requirement failed: {fault}")
    fault = broker_fault(lambda name: values[name] if name in values else _broker_value(static, name))
    if fault is not None:
        raise InvalidRequest(fault)


def _check_cleaning(
    kind: Kind,
    current: Mapping[str, str],
    wanted: Mapping[str, str],
    static: Mapping[str, str],
    others: Mapping[str, str],
) -> None:
    """Hold the keys of cleaning against each other as they would be on this broker, and against what they are."""
    if kind not in (Kind.BROKER, Kind.CLUSTER):
        return

    def held(level: Mapping[str, str], name: str) -> Any:
        levels = (static, others, level) if kind is Kind.BROKER else (static, level, others)
        return _broker_value({**levels[0], **levels[1], **levels[2]}, name)

    fault = no_threads_fault(lambda name: held(wanted, name))
    if fault is not None:
        raise InvalidRequest(fault)
    fault = memory_fault(lambda name: held(wanted, name))
    if fault is not None:
        raise InvalidRequest(f"requirement failed: {fault}")
    fault = threads_fault(held(current, THREADS), held(wanted, THREADS))
    if fault is not None:
        # Kafka wraps what a part of it that is to change refuses.
        inner = f"org.apache.kafka.common.config.ConfigException: {fault}"
        raise InvalidRequest(f"Invalid value {inner} for configuration Invalid dynamic configuration")


def _refuse(text: str, names: list[str]) -> None:
    if names:
        raise InvalidRequest(f"{text}: [{', '.join(sorted(names))}]")


def _parsed(kind: Kind, configs: Mapping[str, str], error_class: type[ApiError]) -> dict[str, Any]:
    """The values of known keys; a broker's unknown ones are kept for plugins that know them, as Kafka does."""
    keys = _KEYS[kind]
    try:
        return {name: keys[name].parse(text) for name, text in sorted(configs.items()) if name in keys}
    except InvalidValue as error:
        raise error_class(error.kafka_text) from None
