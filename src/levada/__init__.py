"""Apache Kafka's protocol, log and guarantees in Python.

>>> from levada import Admin, Consumer, Producer

are the blocking clients; `levada.aio` has the same names for asyncio. What they take and give is here too; the rest of
what the admin client knows is in `levada.client.admin`, and every error in `levada.client.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levada.client.admin import Append, ConfigResource, NewPartitions, NewTopic, OffsetSpec, Subtract
    from levada.client.blocking import Admin, Consumer, Producer
    from levada.client.errors import KafkaError
    from levada.client.types import (
        GroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RebalanceListener,
        RecordMetadata,
        TopicPartition,
    )
    from levada.records import ConsumerRecord

    __version__: str

CLIENTS = ("Admin", "Consumer", "Producer")

__all__ = [
    "Admin",
    "Append",  # to a key of a configuration that holds a list
    "ConfigResource",  # what has a configuration
    "Consumer",
    "ConsumerRecord",
    "GroupMetadata",  # for offsets in a transaction
    "KafkaError",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",  # latest, earliest, ...
    "Producer",
    "RebalanceListener",
    "RecordMetadata",
    "Subtract",  # from a key of a configuration that holds a list
    "TopicPartition",
]

_PLACES = {
    **dict.fromkeys(CLIENTS, "levada.client.blocking"),
    **dict.fromkeys(
        ("Append", "ConfigResource", "NewPartitions", "NewTopic", "OffsetSpec", "Subtract"), "levada.client.admin"
    ),
    "ConsumerRecord": "levada.records",
    "KafkaError": "levada.client.errors",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: a broker needs no client.
    if name in __all__:
        return getattr(import_module(_PLACES.get(name, "levada.client.types")), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("levada")
    raise AttributeError(f"module 'levada' has no attribute {name!r}")
