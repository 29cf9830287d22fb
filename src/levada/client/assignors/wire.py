"""Subscriptions and assignments as members of a classic group send them to each other.

Both begin with their version. What is written is version 3, as Java's consumer does; what is read may be any version,
and of a newer one the fields known here.
"""

from collections.abc import Iterable, Sequence

from levada.client.assignors.spec import Partition, Subscription
from levada.model.buffers import Buffer
from levada.protocol.messages import consumer_protocol
from levada.protocol.messages.consumer_protocol import (
    NEWEST_VERSION,
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopic,
)


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """The metadata of one protocol in JoinGroup; older versions leave out what they have no field for."""
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(subscription.owned_partitions).items()
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return consumer_protocol.encode_subscription(message, version)


def decode_subscription(data: Buffer, group_instance_id: str | None = None) -> Subscription:
    """What the leader finds for a member in the answer to its JoinGroup; MalformedMessage if it is no consumer's."""
    message = consumer_protocol.decode_subscription(data)
    return Subscription(
        topics=message.topics,
        user_data=message.user_data,
        owned_partitions=[(owned.topic, number) for owned in message.owned_partitions for number in owned.partitions],
        generation_id=message.generation_id,
        rack_id=message.rack_id,
        group_instance_id=group_instance_id,
    )


def encode_assignment(
    partitions: Sequence[Partition], user_data: bytes | None = None, version: int = NEWEST_VERSION
) -> bytes:
    """A member's part of SyncGroup; topics are in the order in which they first come."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedTopic(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return consumer_protocol.encode_assignment(message, version)


def decode_assignment(data: Buffer) -> tuple[list[Partition], bytes | None]:
    """The partitions that the leader gave, and the user data of its assignor; MalformedMessage if it is neither.

    A member that the leader knew nothing of gets no bytes at all, which stand for no partitions.
    """
    if not data:
        return [], None
    message = consumer_protocol.decode_assignment(data)
    partitions = [(topic.topic, number) for topic in message.assigned_partitions for number in topic.partitions]
    return partitions, message.user_data


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found
