"""The znodes of a cluster: their paths, and what is in them, in Kafka's JSON where Kafka of that era had them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from levada.metadata.door import DoorError, Member
from levada.metadata.image import PartitionState, TopicState
from levada.model.hashes import uuid_to_text

CLUSTER, CLUSTER_ID = "/cluster", "/cluster/id"
CONTROLLER, CONTROLLER_EPOCH = "/controller", "/controller_epoch"
BROKERS, BROKER_IDS, TOPICS = "/brokers", "/brokers/ids", "/brokers/topics"
CONFIG, TOPIC_CONFIGS, BROKER_CONFIGS = "/config", "/config/topics", "/config/brokers"
HEAD, LOG, PARTS, SNAPSHOTS = "/head", "/log", "/parts", "/snapshots"
DEFAULT_BROKER: Final = "<default>"

PERSISTENT: Final = {
    # First: where there is anything else, but no head, another program has made it.
    HEAD: b"0",
    LOG: b"",
    PARTS: b"",
    SNAPSHOTS: b"",
    CLUSTER: b"",
    BROKERS: b"",
    BROKER_IDS: b"",
    TOPICS: b"",
    CONFIG: b"",
    TOPIC_CONFIGS: b"",
    BROKER_CONFIGS: b"",
    CONTROLLER_EPOCH: b"0",
}
"""What a new cluster begins with, in this order."""

SNAPSHOTS_VERSION: Final = 1


def log_path(number: int) -> str:
    return f"{LOG}/{number:020d}"


def part_path(number: int, mark: bytes, index: int) -> str:
    return f"{PARTS}/{number:020d}-{mark.hex()}-{index:04d}"


def number_of_part(name: str) -> int:
    """Of the entry that a part was written for."""
    return int(name[:20])


def snapshot_path(offset: int) -> str:
    return f"{SNAPSHOTS}/{offset:020d}"


def chunk_path(offset: int, index: int) -> str:
    return f"{snapshot_path(offset)}/{index:04d}"


def broker_path(node_id: int) -> str:
    return f"{BROKER_IDS}/{node_id}"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def _dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _load(data: bytes) -> dict[str, Any]:
    """The object, empty for what is none: other programs may write here too."""
    try:
        read = json.loads(data)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def encode_cluster_id(cluster_id: str) -> bytes:
    return _dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(_load(data).get("id", ""))


def encode_broker(member: Member, now_ms: int) -> bytes:
    """Kafka's, and our `incarnation`."""
    host = f"[{member.host}]" if ":" in member.host else member.host
    return _dump(
        {
            "features": {},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://{host}:{member.port}"] if member.port else [],
            "jmx_port": -1,
            "port": member.port or -1,
            "host": member.host or None,
            "version": 5,
            "timestamp": str(now_ms),
            "incarnation": member.incarnation,
        }
    )


def decode_broker(node_id: int, data: bytes) -> Member:
    read = _load(data)
    port = read.get("port")
    is_there = isinstance(port, int) and port > 0
    return Member(
        node_id, str(read.get("incarnation", "")), str(read.get("host") or ""), int(port) if is_there and port else 0
    )


def encode_controller(node_id: int, incarnation: str, now_ms: int) -> bytes:
    """Kafka's, and our `incarnation`."""
    return _dump({"version": 1, "brokerid": node_id, "timestamp": str(now_ms), "incarnation": incarnation})


def decode_controller(data: bytes) -> tuple[int, str]:
    """The broker, and which of its lives."""
    read = _load(data)
    node_id = read.get("brokerid")
    return (node_id if isinstance(node_id, int) else -1), str(read.get("incarnation", ""))


def encode_topic(topic: TopicState) -> bytes:
    partitions = topic.partitions
    return _dump(
        {
            "removing_replicas": {str(one.index): list(one.removing) for one in partitions if one.removing},
            "partitions": {str(one.index): list(one.replicas) for one in partitions},
            "topic_id": uuid_to_text(topic.topic_id),
            "adding_replicas": {str(one.index): list(one.adding) for one in partitions if one.adding},
            "version": 3,
        }
    )


def encode_partition_state(partition: PartitionState, controller_epoch: int) -> bytes:
    return _dump(
        {
            "controller_epoch": controller_epoch,
            "leader": partition.leader,
            "version": 1,
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.isr),
            "leader_recovery_state": int(partition.is_recovering),
        }
    )


def encode_config(values: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(values)})


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    offset: int
    """Of the last record in it."""
    entry: int
    """The number of the log's entry that comes next."""
    chunks: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """What `/snapshots` says: which snapshots are whole, the oldest first, and with which entry the log begins."""

    kept: tuple[KeptSnapshot, ...] = ()
    log_start: int = 0


def encode_pointer(pointer: Pointer) -> bytes:
    kept = [{"offset": one.offset, "entry": one.entry, "chunks": one.chunks} for one in pointer.kept]
    return _dump({"version": SNAPSHOTS_VERSION, "kept": kept, "log_start": pointer.log_start})


def decode_pointer(data: bytes) -> Pointer:
    if not data:
        return Pointer()
    read = _load(data)
    version = read.get("version")
    if isinstance(version, int) and version > SNAPSHOTS_VERSION:
        raise DoorError(f"{SNAPSHOTS} in ZooKeeper is of version {version}; this release reads {SNAPSHOTS_VERSION}")
    try:
        kept = tuple(KeptSnapshot(int(one["offset"]), int(one["entry"]), int(one["chunks"])) for one in read["kept"])
        return Pointer(kept, int(read["log_start"]))
    except (KeyError, TypeError, ValueError):
        raise DoorError(f"{SNAPSHOTS} in ZooKeeper is damaged: restore it from a copy") from None
