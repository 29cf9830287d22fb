"""The records of the metadata log, in the layout of Apache's, and their framing."""

from dataclasses import field
from typing import Annotated

from levada.model.buffers import Buffer
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.declare import Bool, Int8, Int16, Int32, Int64, Message, Since, String, Tag, UInt16, Uuid, struct
from levada.protocol.declare import message as record
from levada.protocol.errors import CodecError, MalformedMessage

FRAME_VERSION = 1
NO_CHANGE = -2
NO_LEADER = -1
UNFENCED, FENCED = -1, 1


class MetadataRecord(Message):
    """Each kind of record in the metadata log is one of these."""

    __slots__ = ()


@struct
class BrokerEndpoint:
    name: String
    host: String
    port: UInt16
    security_protocol: Int16 = 0


@struct
class BrokerFeature:
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@record(api_key=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord(MetadataRecord):
    broker_id: Int32
    is_migrating_zk_broker: Annotated[Bool, Since(2)] = False
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None = None
    fenced: Bool = True
    in_controlled_shutdown: Annotated[Bool, Since(1)] = False
    log_dirs: Annotated[list[Uuid], Since(3), Tag(0)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Since(4), Tag(1)] = None


@record(api_key=1, versions="0", flexible="0+")
class UnregisterBrokerRecord(MetadataRecord):
    broker_id: Int32
    broker_epoch: Int64


@record(api_key=2, versions="0", flexible="0+")
class TopicRecord(MetadataRecord):
    name: String
    topic_id: Uuid


@record(api_key=3, versions="0-2", flexible="0+")
class PartitionRecord(MetadataRecord):
    partition_id: Int32
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    leader: Int32 = NO_LEADER
    leader_recovery_state: Annotated[Int8, Tag(0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[list[Uuid], Since(1)] = field(default_factory=list)
    eligible_leader_replicas: Annotated[list[Int32] | None, Since(2), Tag(1)] = None
    last_known_elr: Annotated[list[Int32] | None, Since(2), Tag(2)] = None


@record(api_key=4, versions="0", flexible="0+")
class ConfigRecord(MetadataRecord):
    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@record(api_key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord(MetadataRecord):
    partition_id: Int32
    topic_id: Uuid
    isr: Annotated[list[Int32] | None, Tag(0)] = None
    leader: Annotated[Int32, Tag(1)] = NO_CHANGE
    replicas: Annotated[list[Int32] | None, Tag(2)] = None
    removing_replicas: Annotated[list[Int32] | None, Tag(3)] = None
    adding_replicas: Annotated[list[Int32] | None, Tag(4)] = None
    leader_recovery_state: Annotated[Int8, Tag(5)] = -1
    directories: Annotated[list[Uuid] | None, Since(1), Tag(8)] = None
    eligible_leader_replicas: Annotated[list[Int32] | None, Since(2), Tag(6)] = None
    last_known_elr: Annotated[list[Int32] | None, Since(2), Tag(7)] = None


@record(api_key=9, versions="0", flexible="0+")
class RemoveTopicRecord(MetadataRecord):
    topic_id: Uuid


@record(api_key=12, versions="0", flexible="0+")
class FeatureLevelRecord(MetadataRecord):
    name: String
    feature_level: Int16


@record(api_key=15, versions="0", flexible="0+")
class ProducerIdsRecord(MetadataRecord):
    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@record(api_key=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord(MetadataRecord):
    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[Int8, Tag(0)] = 0
    in_controlled_shutdown: Annotated[Int8, Since(1), Tag(1)] = 0
    log_dirs: Annotated[list[Uuid], Since(2), Tag(2)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Since(3), Tag(3)] = None


_CLASSES: tuple[type[MetadataRecord], ...] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    BrokerRegistrationChangeRecord,
)
RECORD_TYPES: dict[int, type[MetadataRecord]] = {cls.api_key: cls for cls in _CLASSES}


class UnknownRecord(CodecError):
    """A record of a type or version that a newer release writes."""


def encode_record(one: MetadataRecord) -> bytes:
    """A record in its newest version, behind its frame version, type and version."""
    version = one.versions[-1]
    return bytes((FRAME_VERSION, one.api_key, version)) + encode_bytes(one, version)


def decode_record(data: Buffer) -> MetadataRecord:
    """The record that fills `data`; UnknownRecord for one of a newer release, MalformedMessage for what is none."""
    if len(data) < 3:
        raise MalformedMessage(f"a metadata record of {len(data)} bytes")
    # Each is a varint; no type or version needs a second byte so far.
    frame_version, record_type, version = data[0], data[1], data[2]
    cls = RECORD_TYPES.get(record_type)
    if frame_version != FRAME_VERSION or cls is None or version not in cls.versions:
        raise UnknownRecord(f"metadata record type {record_type} version {version} in frame {frame_version}")
    decoded, end = decode_prefix(cls, version, data, 3)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow {cls.__name__}")
    return decoded
