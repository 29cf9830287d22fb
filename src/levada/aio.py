"""The clients for asyncio: the names of `levada`, with calls to be awaited.

>>> from levada.aio import Consumer, Producer
"""

from levada.client.admin import Admin, Append, ConfigResource, NewPartitions, NewTopic, OffsetSpec, Subtract
from levada.client.consumer import Consumer
from levada.client.errors import KafkaError
from levada.client.producer import Producer
from levada.client.types import (
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RebalanceListener,
    RecordMetadata,
    TopicPartition,
)
from levada.records import ConsumerRecord

__all__ = [
    "Admin",
    "Append",
    "ConfigResource",
    "Consumer",
    "ConsumerRecord",
    "GroupMetadata",
    "KafkaError",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "Producer",
    "RebalanceListener",
    "RecordMetadata",
    "Subtract",
    "TopicPartition",
]
