"""Settings of topics, brokers, their loggers, groups and client metrics."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from levada.cli.configs.entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    DEFAULT,
    GROUPS,
    TOPICS,
    Entities,
)
from levada.cli.kit.refusals import Refused, warn
from levada.cli.kit.terminal import paint, print_json
from levada.client.admin import ConfigEntry, ConfigKind, ConfigResource, ConfigSource
from levada.client.errors import ClusterAuthorizationFailed, UnsupportedVersion
from levada.model.errors import InvalidTopic
from levada.model.topics import check_topic_name

if TYPE_CHECKING:
    from levada.client.blocking import Admin

KINDS: Final = {
    TOPICS: ConfigKind.TOPIC,
    BROKERS: ConfigKind.BROKER,
    BROKER_LOGGERS: ConfigKind.BROKER_LOGGER,
    CLIENT_METRICS: ConfigKind.CLIENT_METRICS,
    GROUPS: ConfigKind.GROUP,
}

CHANGED: Final = {
    ConfigKind.TOPIC: ConfigSource.TOPIC,
    ConfigKind.BROKER: ConfigSource.BROKER,
    ConfigKind.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
    ConfigKind.GROUP: ConfigSource.GROUP,
}
"""The source of settings that were changed for the one entity; loggers show all they have."""

SOURCE_NAMES: Final = {
    ConfigSource.UNKNOWN: "UNKNOWN",
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.BROKER_DEFAULT: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT: "DEFAULT_CONFIG",
    ConfigSource.BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ConfigSource.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP: "DYNAMIC_GROUP_CONFIG",
}
"""As Kafka's tool prints them."""


def check_name(entities: Entities) -> None:
    """Refused for a topic that cannot exist: it is not merely absent."""
    if entities.type == TOPICS and entities.name is not None:
        try:
            check_topic_name(entities.name)
        except InvalidTopic as error:
            raise Refused(str(error)) from None


def describe(admin: "Admin", entities: Entities, *, is_all: bool, as_json: bool) -> None:
    names = _names(admin, entities, is_all=is_all)
    if names is None:
        text = f"The {entities.type[:-1]} '{entities.name}' doesn't exist and doesn't have dynamic config."
        if as_json:
            warn(text)
            print_json([])
        else:
            print(text)
        return
    described = {name: _entries(admin, ConfigResource(KINDS[entities.type], name), is_all=is_all) for name in names}
    if as_json:
        print_json([_json(entities.type, name, entries) for name, entries in described.items()])
        return
    for name, entries in described.items():
        print(paint(heading(entities.type, name, is_all=is_all), "bold"))
        for entry in entries:
            print(line(entry))


def heading(type_: str, name: str, *, is_all: bool) -> str:
    if name == DEFAULT:
        return f"Default configs for {type_} in the cluster are:"
    return f"{'All' if is_all else 'Dynamic'} configs for {type_[:-1]} {name} are:"


def line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{SOURCE_NAMES[one.source]}:{one.name}={_value(one.value)}" for one in entry.synonyms)
    sensitive = "true" if entry.is_sensitive else "false"
    return f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _json(type_: str, name: str, entries: Sequence[ConfigEntry]) -> dict[str, Any]:
    return {
        "entity_type": type_,
        "entity_name": None if name == DEFAULT else name,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "source": SOURCE_NAMES[entry.source],
                "sensitive": entry.is_sensitive,
                "synonyms": [
                    {"source": SOURCE_NAMES[one.source], "name": one.name, "value": one.value} for one in entry.synonyms
                ],
            }
            for entry in entries
        ],
    }


def _names(admin: "Admin", entities: Entities, *, is_all: bool) -> list[str] | None:
    """Those to describe; None for one that is not there. If all settings of one are wanted, the broker says so."""
    if entities.name is not None and is_all:
        return [entities.name]
    known = _known(admin, entities.type, entities.name)
    if entities.name is None:
        return known
    return [entities.name] if entities.name in known else None


def _known(admin: "Admin", type_: str, name: str | None) -> list[str]:
    if type_ == TOPICS:
        return sorted(admin.list_topics(include_internal=True))
    if type_ in (BROKERS, BROKER_LOGGERS):
        return [*(str(broker.broker_id) for broker in admin.describe_cluster().brokers), DEFAULT]
    if type_ == CLIENT_METRICS:
        return sorted(one.name for one in admin.list_config_resources([ConfigKind.CLIENT_METRICS]))
    groups = {group.group_id for group in admin.list_groups()}
    try:
        groups |= {one.name for one in admin.list_config_resources([ConfigKind.GROUP])}
    except (ClusterAuthorizationFailed, UnsupportedVersion):
        # Brokers before Kafka 4.1 do not list them, so this group may have some all the same.
        groups |= {name} if name is not None else set()
    return sorted(groups)


def _entries(admin: "Admin", resource: ConfigResource, *, is_all: bool) -> list[ConfigEntry]:
    entries = admin.describe_configs([resource], include_synonyms=True)[resource].values()
    source = CHANGED.get(resource.kind)
    if resource == ConfigResource.broker(None):
        source = ConfigSource.BROKER_DEFAULT
    shown = [entry for entry in entries if is_all or source is None or entry.source == source]
    return sorted(shown, key=lambda entry: entry.name)


def alter(admin: "Admin", entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    resource = ConfigResource(KINDS[entities.type], entities.name or DEFAULT)
    if entities.type == BROKER_LOGGERS:
        loggers = admin.describe_configs([resource])[resource]
        unknown = [name for name in (*deleted, *added) if name not in loggers]
        if unknown:
            raise Refused(
                f"Invalid broker logger(s): {','.join(unknown)};"
                f" see `levada configs --describe --broker-logger {resource.name}`"
            )
    admin.incremental_alter_configs({resource: {**dict.fromkeys(deleted), **added}}).raise_any()
