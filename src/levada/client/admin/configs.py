"""Configurations of topics, brokers, loggers, groups and client metrics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from levada.client.admin.kinds import ConfigKind, ConfigSource, ConfigType
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import BROKER_FAULTS, CONTROLLER_FAULTS, BrokerAnswer, Question, check, verdict
from levada.client.errors import KafkaError
from levada.protocol.messages import alter_configs, incremental_alter_configs
from levada.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from levada.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from levada.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from levada.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
EVERY_KIND_SINCE = 1


class ConfigResource(NamedTuple):
    """What has a configuration: a topic by its name, a broker by its id, `""` for all brokers, a group, ..."""

    kind: ConfigKind
    name: str

    def __str__(self) -> str:
        return f"{ConfigKind(self.kind).name.lower()} {self.name!r}"

    @classmethod
    def topic(cls, name: str) -> "ConfigResource":
        return cls(ConfigKind.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None) -> "ConfigResource":
        """One broker, or with None what holds for every broker that has nothing of its own."""
        return cls(ConfigKind.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def group(cls, group_id: str) -> "ConfigResource":
        return cls(ConfigKind.GROUP, group_id)


class ConfigSynonym(NamedTuple):
    """A place that gives a key a value, which counts where no stronger one does."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    """None where there is none, or where it is a secret."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True)
class Append:
    """A value to add to a key that holds a list."""

    value: str


@dataclass(frozen=True, slots=True)
class Subtract:
    """A value to take out of a key that holds a list."""

    value: str


class ConfigsPart(AdminPart):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
        """The keys of each resource with their values: all of them, or those named.

        >>> orders = ConfigResource.topic("orders")
        >>> (await admin.describe_configs([orders]))[orders]["retention.ms"].value
        '604800000'
        """
        wanted = None if keys is None else list(keys)

        def request(items: Sequence[ConfigResource], _: int) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=item.kind, resource_name=item.name, configuration_keys=wanted)
                    for item in items
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        question: Question[ConfigResource, dict[str, ConfigEntry], DescribeConfigsResponse] = Question(
            what="to describe configurations",
            route=self._routing.brokers(_broker_of),
            request=request,
            read=_read_configs,
            passing=BROKER_FAULTS,
        )
        return await self._requests.each(resources, question, self._requests.deadline(timeout_ms))

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | Append | Subtract | None]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Change some keys and leave the others: text sets a key, None gives it back its default.

        >>> changes = {"retention.ms": None, "cleanup.policy": Append("compact")}
        >>> (await admin.incremental_alter_configs({ConfigResource.topic("payments"): changes})).raise_any()
        """

        def request(items: Sequence[ConfigResource], _: int) -> IncrementalAlterConfigsRequest:
            return IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=item.kind,
                        resource_name=item.name,
                        configs=[_change(name, change) for name, change in changes[item].items()],
                    )
                    for item in items
                ],
                validate_only=validate_only,
            )

        question: Question[ConfigResource, None, IncrementalAlterConfigsResponse] = Question(
            what="to alter configurations",
            route=self._routing.brokers(_broker_of),
            request=request,
            read=_read_altered,
            passing=CONTROLLER_FAULTS | BROKER_FAULTS,
        )
        return await self._requests.each(changes, question, self._requests.deadline(timeout_ms))

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[ConfigResource, None]:
        """Replace all that was ever set for each resource: keys that are not given go back to their defaults.

        Two who do this at once undo each other's work; `incremental_alter_configs` does not have that problem.
        """

        def request(items: Sequence[ConfigResource], _: int) -> AlterConfigsRequest:
            return AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(
                        resource_type=item.kind,
                        resource_name=item.name,
                        configs=[
                            alter_configs.AlterableConfig(name=name, value=value)
                            for name, value in configs[item].items()
                        ],
                    )
                    for item in items
                ],
                validate_only=validate_only,
            )

        question: Question[ConfigResource, None, AlterConfigsResponse] = Question(
            what="to replace configurations",
            route=self._routing.brokers(_broker_of),
            request=request,
            read=_read_altered,
            passing=CONTROLLER_FAULTS | BROKER_FAULTS,
        )
        return await self._requests.each(configs, question, self._requests.deadline(timeout_ms))

    async def list_config_resources(
        self, kinds: Iterable[ConfigKind] = (), *, timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """What has a configuration, of these kinds or of every kind."""
        wanted = list(dict.fromkeys(kinds))
        older: Question[str, list[ConfigResource], ListConfigResourcesResponse] = Question(
            what="to list configurations",
            route=self._routing.any,
            request=lambda _, __: ListConfigResourcesRequest(),
            read=_read_resources,
            at_most=EVERY_KIND_SINCE - 1,
        )
        question: Question[str, list[ConfigResource], ListConfigResourcesResponse] = Question(
            what=older.what,
            route=self._routing.any,
            request=lambda _, __: ListConfigResourcesRequest(resource_types=list(wanted)),
            read=_read_resources,
            at_least=EVERY_KIND_SINCE,
            # Brokers before Kafka 4.1 list client metrics only.
            older=older if wanted == [ConfigKind.CLIENT_METRICS] else None,
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))


def read_entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=ConfigSource(entry.config_source),
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        type=ConfigType(entry.config_type),
        synonyms=tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source)) for synonym in entry.synonyms
        ),
        documentation=entry.documentation or None,
    )


def _broker_of(resource: ConfigResource) -> int | None:
    """A broker's own configuration is with it alone; all else any of them can tell, and passes on."""
    if resource.kind not in (ConfigKind.BROKER, ConfigKind.BROKER_LOGGER) or not resource.name:
        return None
    try:
        return int(resource.name)
    except ValueError:
        # Any broker refuses it.
        return None


def _change(name: str, change: str | Append | Subtract | None) -> incremental_alter_configs.AlterableConfig:
    if isinstance(change, Append | Subtract):
        operation = APPEND if isinstance(change, Append) else SUBTRACT
        return incremental_alter_configs.AlterableConfig(name=name, config_operation=operation, value=change.value)
    return incremental_alter_configs.AlterableConfig(
        name=name, config_operation=DELETE if change is None else SET, value=change
    )


def _read_configs(
    answer: BrokerAnswer[ConfigResource, DescribeConfigsResponse],
) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
    response = answer.response
    found: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
    for result in response.results:
        resource = ConfigResource(ConfigKind(result.resource_type), result.resource_name)
        entries = {entry.name: read_entry(entry) for entry in result.configs}
        found[resource] = verdict(result.error_code, result.error_message, str(resource), entries)
    return found


def _read_altered(
    answer: BrokerAnswer[ConfigResource, IncrementalAlterConfigsResponse | AlterConfigsResponse],
) -> dict[ConfigResource, KafkaError | None]:
    response = answer.response
    found: dict[ConfigResource, KafkaError | None] = {}
    for result in response.responses:
        resource = ConfigResource(ConfigKind(result.resource_type), result.resource_name)
        found[resource] = verdict(result.error_code, result.error_message, str(resource), None)
    return found


def _read_resources(
    answer: BrokerAnswer[str, ListConfigResourcesResponse],
) -> dict[str, list[ConfigResource] | KafkaError]:
    response = answer.response
    check(response.error_code, context=answer.items[0])
    found = [ConfigResource(ConfigKind(one.resource_type), one.resource_name) for one in response.config_resources]
    return {answer.items[0]: found}
