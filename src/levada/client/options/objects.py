"""The keys that hold names of Java's classes in Kafka: here a name, an object of Python's, or Java's own name."""

from collections.abc import Callable, Iterable

from levada.client.errors import ConfigurationError
from levada.client.serializers import resolve_deserializer, resolve_serializer

_ASSIGNORS = {
    "Range": "range",
    "RoundRobin": "roundrobin",
    "Sticky": "sticky",
    "CooperativeSticky": "cooperative-sticky",
}
_PARTITIONERS: dict[str, str | None] = {
    "default": None,
    "round_robin": "round_robin",
    "hot_key": "hot_key",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "kafka.producer.DefaultPartitioner": None,
    "kafka.producer.ByteArrayPartitioner": None,
}


def resolve_partitioner(value: object) -> object:
    """None for the built-in one, `round_robin`, `hot_key`, or the user's own."""
    if isinstance(value, str):
        name = value.strip()
        if name in _PARTITIONERS:
            return _PARTITIONERS[name]
        raise ConfigurationError(f"must be one of {', '.join(_PARTITIONERS)} or a callable, not {value!r}")
    if not callable(value):
        raise ConfigurationError(f"must be a name or a callable, not {value!r}")
    return value


def resolve_assignors(value: object) -> tuple[object, ...]:
    """Names as the group protocol has them, and objects of the user's; each once, the preferred first."""
    assignors: list[object] = []
    for item in _items(value):
        assignor = _assignor(item)
        if assignor not in assignors:
            assignors.append(assignor)
    if not assignors:
        raise ConfigurationError("must have at least one assignor")
    return tuple(assignors)


def resolve_interceptors(value: object) -> tuple[object, ...]:
    """Objects or classes, in the order of their calls."""
    items = tuple(_items(value))
    for item in items:
        if isinstance(item, str):
            raise ConfigurationError(f"must be classes or objects of Python's, not names such as {item!r}")
    return items


RESOLVERS: dict[str, Callable[[object], object]] = {
    "key.serializer": resolve_serializer,
    "value.serializer": resolve_serializer,
    "key.deserializer": resolve_deserializer,
    "value.deserializer": resolve_deserializer,
    "partitioner.class": resolve_partitioner,
    "partition.assignment.strategy": resolve_assignors,
    "interceptor.classes": resolve_interceptors,
}
"""What becomes of a value, by key; a ConfigurationError's text goes on where the key's name ends."""


def _items(value: object) -> Iterable[object]:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return value if isinstance(value, list | tuple) else (value,)


def _assignor(item: object) -> object:
    if not isinstance(item, str):
        return item
    name = item.strip()
    java = name.removeprefix("class ").removeprefix("org.apache.kafka.clients.consumer.").removesuffix("Assignor")
    found = name if name in _ASSIGNORS.values() else _ASSIGNORS.get(java)
    if found is None:
        raise ConfigurationError(f"must be of {', '.join(_ASSIGNORS.values())} or objects, not {item!r}")
    return found
