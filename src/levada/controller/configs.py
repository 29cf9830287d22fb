"""Configurations that are changed, of topics, groups and brokers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypedDict, TypeVar

from levada.controller.config_changes import NOTHING, Kind, Refusals, full_changes, incremental_changes
from levada.controller.decision import Context, ControllerDecision
from levada.metadata.image import BROKER, GROUP, TOPIC, Image
from levada.metadata.records import ConfigRecord
from levada.model.errors import ApiError, InvalidRequest, UnknownTopicOrPartition
from levada.model.numbers import parse_int32
from levada.model.topics import check_topic_name
from levada.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from levada.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from levada.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from levada.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class _Resource(Protocol):
    """What a configuration is of, as either request names it."""

    resource_type: int
    resource_name: str


class _Result(TypedDict):
    """What either response says of a resource."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


R = TypeVar("R", bound=_Resource)


def alter(image: Image, request: AlterConfigsRequest, context: Context) -> ControllerDecision[AlterConfigsResponse]:
    """The older way: what is given takes the place of all that was set."""

    def changes(current: Mapping[str, str], resource: AlterConfigsResource) -> dict[str, str | None]:
        names = [config.name for config in resource.configs]
        if len(set(names)) < len(names):
            raise InvalidRequest("Error due to duplicate config keys")
        wanted = {config.name: config.value for config in resource.configs}
        others = _other_level(image, resource, context.defaults.node_id)
        return full_changes(_kind(resource), current, wanted, context.defaults.given, others)

    results, records = _alter(image, request.resources, context.defaults.node_id, changes)
    reply = AlterConfigsResponse(responses=[AlterConfigsResourceResponse(**result) for result in results])
    return ControllerDecision(reply, [] if request.validate_only else records)


def alter_incrementally(
    image: Image, request: IncrementalAlterConfigsRequest, context: Context
) -> ControllerDecision[IncrementalAlterConfigsResponse]:
    def changes(current: Mapping[str, str], resource: IncrementalResource) -> dict[str, str | None]:
        operations = [(config.name, config.config_operation, config.value) for config in resource.configs]
        kind = _kind(resource)
        static = context.defaults.given if kind != Kind.TOPIC else NOTHING
        others = _other_level(image, resource, context.defaults.node_id)
        return incremental_changes(kind, current, operations, static, others)

    results, records = _alter(image, request.resources, context.defaults.node_id, changes)
    reply = IncrementalAlterConfigsResponse(responses=[IncrementalResourceResponse(**result) for result in results])
    return ControllerDecision(reply, [] if request.validate_only else records)


def _alter(
    image: Image,
    resources: Sequence[R],
    node_id: int,
    changes: Callable[[Mapping[str, str], R], dict[str, str | None]],
) -> tuple[list[_Result], list[ConfigRecord]]:
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    results: list[_Result] = []
    records: list[ConfigRecord] = []
    refusals = Refusals()
    for resource in resources:
        result: _Result = {
            "error_code": 0,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        results.append(result)
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            _check_resource(image, resource, node_id)
            current = image.config_of(resource.resource_type, resource.resource_name)
            changed = changes(current, resource)
        except ApiError as error:
            result["error_code"], result["error_message"] = error.code, refusals.text_of(error)
            continue
        records += [
            ConfigRecord(
                resource_type=resource.resource_type, resource_name=resource.resource_name, name=name, value=value
            )
            for name, value in changed.items()
        ]
    return results, records


def _check_resource(image: Image, resource: _Resource, node_id: int) -> None:
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC:
        if not name:
            raise InvalidRequest("Default topic resources are not allowed.")
        check_topic_name(name)
        if name not in image.topics:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        return
    if kind == GROUP:
        if not name:
            raise InvalidRequest("Default group resources are not allowed.")
        return
    if kind != BROKER:
        raise InvalidRequest(f"Unknown resource type {kind}")
    if not name:
        return
    broker_id = parse_int32(name)
    if broker_id is None:
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
    if broker_id != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {name}")


def _kind(resource: _Resource) -> Kind:
    if resource.resource_type == TOPIC:
        return Kind.TOPIC
    if resource.resource_type == GROUP:
        return Kind.GROUP
    return Kind.BROKER if resource.resource_name else Kind.CLUSTER


def _other_level(image: Image, resource: _Resource, node_id: int) -> Mapping[str, str]:
    """Beside a broker's own settings the default of all brokers; beside that, the settings of this one."""
    if resource.resource_type != BROKER:
        return NOTHING
    return image.config_of(BROKER, "" if resource.resource_name else str(node_id))
