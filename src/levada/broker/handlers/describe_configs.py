"""DescribeConfigs v1-4. v1 synonyms (KIP-226), v3 types and documentation (KIP-569), v4 flexible."""

from levada.broker.broker import Broker
from levada.broker.config_entries import DescribedConfig, broker_entries, group_entries, logger_entries, topic_entries
from levada.broker.loggers import levels
from levada.broker.route import Request
from levada.metadata.image import BROKER, BROKER_LOGGER, GROUP, TOPIC
from levada.model.errors import ApiError, InvalidRequest, UnknownTopicOrPartition
from levada.model.numbers import parse_int32
from levada.model.topics import check_topic_name
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

API = ApiKey.DESCRIBE_CONFIGS
VERSIONS = stable_versions(API)


def handle(message: DescribeConfigsRequest, request: Request) -> DescribeConfigsResponse:
    # Looked up once, however often it is named: a few bytes ask for all that a broker can tell of itself.
    answers: dict[tuple[int, str, frozenset[str]], DescribeConfigsResult] = {}
    results = []
    for resource in message.resources:
        key = resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ())
        if key not in answers:
            answers[key] = _answer(resource, message, request)
        results.append(answers[key])
    return DescribeConfigsResponse(results=results)


def _answer(
    resource: DescribeConfigsResource, message: DescribeConfigsRequest, request: Request
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
    )
    try:
        entries = _entries(resource, request.broker)
    except ApiError as error:
        result.error_code, result.error_message = error.code, str(error)
        return result
    result.configs = [_entry(entry, message) for entry in entries]
    return result


def _entries(resource: DescribeConfigsResource, broker: Broker) -> list[DescribedConfig]:
    name, names = resource.resource_name, frozenset(resource.configuration_keys or ())
    if resource.resource_type == TOPIC:
        check_topic_name(name)
        if name not in broker.image.topics:
            raise UnknownTopicOrPartition
        return topic_entries(broker.config, broker.image.config_of(TOPIC, name), names)
    if resource.resource_type == GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        # The group need not exist: it may be configured before its first member comes.
        return group_entries(broker.config, broker.image.config_of(GROUP, name), names)
    if resource.resource_type == BROKER_LOGGER:
        _check_own_id(name, broker)
        return logger_entries(levels(), names)
    if resource.resource_type != BROKER:
        raise InvalidRequest(f"Resources of type {resource.resource_type} have no configurations here.")
    identity = broker.identity
    if not name:
        return broker_entries(broker.config, names, is_cluster_default=True)
    broker_id = parse_int32(name)
    if broker_id is None:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    if broker_id != identity.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {identity.node_id} or empty string, but received {name}")
    actual = {
        "advertised.listeners": identity.advertised_listeners,
        "node.id": str(identity.node_id),
        "broker.id": str(identity.node_id),
    }
    return broker_entries(broker.config, names, actual=actual)


def _check_own_id(name: str, broker: Broker) -> None:
    """Loggers have no default for all brokers."""
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    broker_id = parse_int32(name)
    if broker_id is None:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    if broker_id != broker.identity.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {broker.identity.node_id} but received {name}")


def _entry(entry: DescribedConfig, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if message.include_synonyms else ())
        ],
        config_type=entry.type_code,
        # Loggers have none, and Kafka says so whether it was asked or not.
        documentation=entry.documentation if message.include_documentation or not entry.documentation else None,
    )
