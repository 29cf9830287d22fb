"""What consumers of a classic group tell each other through JoinGroup and SyncGroup."""

from dataclasses import field
from typing import Annotated

from penstock.protocol.declare import IGNORABLE, Bytes, Int32, Since, String, message, struct


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
