"""The records of `__consumer_offsets`, in Apache's layout: what each key is about, its value, and their bytes."""

from dataclasses import field
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class, named as one
from typing import Annotated, Any

from levada.coordination.decision import Record
from levada.model.buffers import Buffer
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.declare import (
    IGNORABLE,
    NO_UUID,
    Bytes,
    Int8,
    Int32,
    Int64,
    NullableSince,
    Since,
    String,
    Tag,
    Until,
    Uuid,
    struct,
)
from levada.protocol.declare import message as record
from levada.protocol.errors import MalformedMessage

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1


@record(api_key=1, versions="0")
class OffsetCommitKey:
    group: String
    topic: String
    partition: Int32


@record(api_key=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Annotated[Int32, Since(3), IGNORABLE] = NO_LEADER_EPOCH
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, Since(1), Until(1), IGNORABLE] = NO_TIMESTAMP
    topic_id: Annotated[Uuid, Since(4), Tag(0), IGNORABLE] = NO_UUID


@record(api_key=2, versions="0")
class GroupMetadataKey:
    group: String


@struct
class MemberMetadata:
    member_id: String
    group_instance_id: Annotated[String | None, Since(3), IGNORABLE] = None
    client_id: String
    client_host: String
    rebalance_timeout: Annotated[Int32, Since(1), IGNORABLE] = -1
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


@record(api_key=2, versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Annotated[Int64, Since(2), IGNORABLE] = NO_TIMESTAMP
    members: list[MemberMetadata]


@record(api_key=3, versions="0")
class ConsumerGroupMetadataKey:
    group_id: String


@record(api_key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: Int32
    metadata_hash: Annotated[Int64, Tag(0)] = 0


@record(api_key=4, versions="0")
class ConsumerGroupPartitionMetadataKey:
    group_id: String


@struct
class PartitionMetadata:
    partition: Int32
    racks: list[String]


@struct
class TopicMetadata:
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


@record(api_key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """Left behind by releases before 4.1; it is read, and ended by a record without a value, but not written."""

    topics: list[TopicMetadata]


@record(api_key=5, versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@record(api_key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    # Apache's schema says that it is null by default, but its code reads an absent one as an empty struct, and takes
    # the member for a classic one. So there is no default here: None must be written.
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Tag(0), NullableSince(0)]


@record(api_key=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String


@record(api_key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


@record(api_key=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@struct
class TopicPartition:
    topic_id: Uuid
    partitions: list[Int32]


@record(api_key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition]


@record(api_key=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: Annotated[list[Int32] | None, Tag(0)] = field(default_factory=list)
    """As many as partitions; none where an older release wrote the record."""


@record(api_key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


@record(api_key=16, versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: String
    regular_expression: String


@record(api_key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[String]
    version: Int64
    timestamp: Int64


OFFSET_COMMIT = 1
LEGACY_OFFSET_COMMIT = 0
"""The key type of the oldest offsets; they have the layout of those that followed and are read as such."""

_PAIRS: tuple[tuple[type[Any], type[Any]], ...] = (
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
RECORD_TYPES: dict[int, tuple[type[Any], type[Any]]] = {
    LEGACY_OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    **{key.api_key: (key, value) for key, value in _PAIRS},
}
"""The key and the value of each type that this release knows."""
_NUMBERS: dict[type, bytes] = {key: key.api_key.to_bytes(2, "big") for key, _ in _PAIRS}

_KEY_VERSION = 0


def encode(one: Record) -> tuple[bytes, bytes | None]:
    """Key and value, the value in the version that Apache 4.3 writes."""
    key = _NUMBERS[type(one.key)] + encode_bytes(one.key, _KEY_VERSION)
    if one.value is None:
        return key, None
    version = written_version(one.value)
    return key, version.to_bytes(2, "big") + encode_bytes(one.value, version)


def written_version(value: Any) -> int:
    """The version in which a value is written; older releases can read it after a downgrade."""
    if isinstance(value, OffsetCommitValue):
        # Only version 1 has a place for the expiry that old clients asked for.
        return 4 if value.expire_timestamp == NO_TIMESTAMP else 1
    return 3 if isinstance(value, GroupMetadataValue) else 0


def decode(key: Buffer, value: Buffer | None) -> Record | None:
    """The record; None if its type is not known here, as it is skipped then; MalformedMessage for anything else.

    Bytes that follow a well-formed key or value are ignored, as Apache does.
    """
    record_type = leading_number(key)
    if record_type == OFFSET_COMMIT and value is not None and (commit := _plain_commit(key, value)) is not None:
        return commit
    classes = RECORD_TYPES.get(record_type)
    if classes is None:
        return None
    of_key, of_value = classes
    decoded_key, _ = decode_prefix(of_key, _KEY_VERSION, key, 2)
    if value is None:
        return Record(decoded_key, None)
    version = leading_number(value)
    if version not in of_value.versions:
        raise MalformedMessage(f"{of_value.__name__} has no version {version}")
    decoded_value, _ = decode_prefix(of_value, version, value, 2)
    return Record(decoded_key, decoded_value)


def leading_number(data: Buffer) -> int:
    """The type of a key, the version of a value."""
    if len(data) < 2:
        raise MalformedMessage(f"a key or value of {len(data)} bytes")
    return int.from_bytes(data[:2], "big", signed=True)


_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_UP_TO_METADATA = Struct(">hqiB").unpack_from
_WITHOUT_TOPIC_ID = Struct(">qB").unpack_from
_WITH_TOPIC_ID = Struct(">qBBB16s").unpack_from

_new = object.__new__


def _plain_commit(key: Buffer, value: Buffer) -> Record | None:
    """A commit as it is written today, in half the time that the codec takes; None if it is in any way special.

    Nearly all records of a log are commits, and a coordinator answers no request before it has read all of them.
    """
    try:
        (group_size,) = _SHORT(key, 2)
        group_end = 4 + group_size
        (topic_size,) = _SHORT(key, group_end)
        topic_end = group_end + 2 + topic_size
        committed = _new(OffsetCommitValue)
        version, committed.offset, committed.leader_epoch, compact_size = _UP_TO_METADATA(value, 0)
        metadata_end = 14 + compact_size
        if group_size < 0 or topic_size < 0 or version != 4 or not 0 < compact_size < 128:
            return None
        of = _new(OffsetCommitKey)
        of.group = str(key[4:group_end], "utf-8")
        of.topic = str(key[group_end + 2 : topic_end], "utf-8")
        (of.partition,) = _INT(key, topic_end)
        committed.metadata = str(value[15:metadata_end], "utf-8")
        if len(value) == metadata_end + 9:
            committed.commit_timestamp, tag_count = _WITHOUT_TOPIC_ID(value, metadata_end)
            committed.topic_id = NO_UUID
            is_plain = tag_count == 0
        else:
            committed.commit_timestamp, *tag, committed.topic_id = _WITH_TOPIC_ID(value, metadata_end)
            is_plain = tag == [1, 0, 16]
    except (StructError, ValueError):
        return None
    if not is_plain:
        return None
    committed.expire_timestamp = NO_TIMESTAMP
    of.unknown_tags = committed.unknown_tags = None  # type: ignore[attr-defined]
    return Record(of, committed)
