"""IncrementalAlterConfigs v0-1. Set, delete, append, subtract (KIP-339), levels of loggers (KIP-412); v1 flexible."""

from dataclasses import replace

from levada.broker.broker import Broker
from levada.broker.loggers import change_levels
from levada.broker.route import Request
from levada.metadata.image import BROKER_LOGGER
from levada.model.errors import ApiError, InvalidRequest
from levada.model.numbers import parse_int32
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS = stable_versions(API)


async def handle(message: IncrementalAlterConfigsRequest, request: Request) -> IncrementalAlterConfigsResponse:
    # Loggers belong to this process alone: the controller, which may be another, is not asked.
    loggers = [one for one in message.resources if one.resource_type == BROKER_LOGGER]
    others = [one for one in message.resources if one.resource_type != BROKER_LOGGER]
    answers = [_change_loggers(one, loggers, request.broker, message.validate_only) for one in loggers]
    if others:
        answers += await _ask_controller(replace(message, resources=others), request)
    return IncrementalAlterConfigsResponse(responses=answers)


async def _ask_controller(
    message: IncrementalAlterConfigsRequest, request: Request
) -> list[AlterConfigsResourceResponse]:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        return [_answer(resource, error) for resource in message.resources]
    return response.responses


def _change_loggers(
    resource: AlterConfigsResource, named: list[AlterConfigsResource], broker: Broker, validate_only: bool
) -> AlterConfigsResourceResponse:
    operations = [(config.name, config.config_operation, config.value) for config in resource.configs]
    try:
        if [one.resource_name for one in named].count(resource.resource_name) > 1:
            raise InvalidRequest("Each resource must appear at most once.")
        _check_own_id(resource.resource_name, broker)
        change_levels(operations, validate_only=validate_only)
    except ApiError as error:
        return _answer(resource, error)
    return _answer(resource)


def _check_own_id(name: str, broker: Broker) -> None:
    node_id = parse_int32(name)
    if node_id is None:
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
    if node_id != broker.identity.node_id:
        raise InvalidRequest(f"Unexpected node id. Expected {broker.identity.node_id}, but received {name}")


def _answer(resource: AlterConfigsResource, error: ApiError | None = None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=0 if error is None else error.code,
        error_message=None if error is None else str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
