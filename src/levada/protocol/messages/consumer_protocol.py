"""What consumers of a classic group tell each other through JoinGroup and SyncGroup."""

from dataclasses import field
from struct import Struct
from typing import Annotated, TypeVar

from levada.model.buffers import Buffer
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.declare import IGNORABLE, Bytes, Int32, Since, String, message, struct
from levada.protocol.errors import MalformedMessage

T = TypeVar("T")

NEWEST_VERSION = 3

_VERSION = Struct(">h")


@struct
class OwnedTopic:
    topic: String
    partitions: list[Int32]


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: Annotated[list[OwnedTopic], Since(1), IGNORABLE] = field(default_factory=list)
    generation_id: Annotated[Int32, Since(2), IGNORABLE] = -1
    rack_id: Annotated[String | None, Since(3), IGNORABLE] = None


@struct
class AssignedTopic:
    topic: String
    partitions: list[Int32]


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[AssignedTopic]
    user_data: Bytes | None = None


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """What a member's metadata says in JoinGroup; MalformedMessage if it is no consumer's."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_subscribed_topics(data: Buffer) -> list[str]:
    """The topics alone, as version 0 has them: all begin so, and some clients claim a version and leave out fields."""
    decoded, _ = decode_prefix(ConsumerProtocolSubscription, 0, data, _after_version(data))
    return decoded.topics


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = NEWEST_VERSION) -> bytes:
    # Sorted, so that a member that joins again with the same subscription sends the same bytes.
    ordered = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            OwnedTopic(topic=owned.topic, partitions=sorted(owned.partitions))
            for owned in sorted(subscription.owned_partitions, key=lambda owned: owned.topic)
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    return _VERSION.pack(version) + encode_bytes(ordered, version)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """What a leader has assigned to a member in SyncGroup; MalformedMessage if it is no consumer's."""
    return _decode(ConsumerProtocolAssignment, data)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = NEWEST_VERSION) -> bytes:
    return _VERSION.pack(version) + encode_bytes(assignment, version)


def _decode(cls: type[T], data: Buffer) -> T:
    """Newer versions only append fields: they are read as the newest one known here, and what follows is left."""
    position = _after_version(data)
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"{cls.__name__} has no version {version}")
    decoded, _ = decode_prefix(cls, min(version, NEWEST_VERSION), data, position)
    return decoded


def _after_version(data: Buffer) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage("what consumers tell each other begins with a version")
    return _VERSION.size
