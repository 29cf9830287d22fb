"""Random messages that follow their schemas: plausible values where the broker knows some, extremes everywhere."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from levada.protocol.declare import Struct
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.schema import FieldSpec, fields_of
from tests.fuzz.batches import random_records

TOPICS = ("victim-0", "victim-1", "victim-2", "victim-3")
DOOMED_TOPICS = TOPICS[-1:]
"""The only one to be deleted, so that there is something to do with the others."""
GROUPS = ("group-0", "group-0", "group-1", "group-2")

CONFIG_KEYS = (
    "cleanup.policy", "compression.type", "retention.ms", "segment.bytes", "max.message.bytes", "min.insync.replicas",
    "message.timestamp.type", "message.timestamp.after.max.ms", "flush.messages", "index.interval.bytes",
    "leader.replication.throttled.replicas", "preallocate", "log.cleaner.threads", "background.threads",
)  # fmt: skip
CONFIG_VALUES = (
    "compact", "delete", "compact,delete", "zstd", "gzip", "producer", "LogAppendTime", "CreateTime", "true", "0", "1",
    "-1", "1048576", "9223372036854775807", "1e400", "9" * 5_000, "²", "", " ", "a,b,c", "*", "\x00", "\U0001f4a5",
)  # fmt: skip

HARMLESS_COUNTS = (1, 1, 1, 2, 2, 3, 3, -1, -1, -1, 0, -2, -(2**31), 20_001, 2**31 - 1)
"""Of partitions to make: refused, or few. A run must not spend itself on making logs."""

FITTING_CONFIGS = (
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("compression.type", "gzip"),
    ("compression.type", "zstd"),
    ("compression.type", "uncompressed"),
    ("message.timestamp.type", "LogAppendTime"),
    ("max.message.bytes", "100"),
    ("segment.bytes", "1048576"),
    ("index.interval.bytes", "0"),
    ("flush.messages", "1"),
    ("min.insync.replicas", "2"),
)

LEARNED = {
    "group_id": ("group_id",),
    "member_id": ("member_id",),
    "generation_id": ("generation_id", "generation_id_or_member_epoch"),
    "session_id": ("session_id",),
    "protocol_name": ("protocol_name",),
    "high_watermark": ("fetch_offset", "offset", "committed_offset"),
    "log_start_offset": ("fetch_offset", "offset"),
}
"""What an answer tells, and the fields it is good for; names and ids that it only repeats are not among them."""

SEEDS: dict[str, Sequence[Any]] = {
    "topic": TOPICS,
    "topic_name": TOPICS,
    "topic_names": DOOMED_TOPICS,
    "group_id": GROUPS,
    "key": GROUPS,
    "coordinator_keys": GROUPS,
    "member_id": ("",),
    "group_instance_id": (None, None, None, "instance-0", "instance-1"),
    "protocol_type": ("consumer", "consumer", "consumer", "consumer", ""),
    "protocol_name": ("range", "range", "range", "roundrobin"),
    "resource_name": (*TOPICS, *TOPICS, "1", "", "2", "²", "9" * 5_000, "-1"),
    "resource_type": (2, 2, 2, 2, 4, 4, 8, 32, 0),
    "config_operation": (0, 1, 2, 3, 4, -1),
    "configuration_keys": CONFIG_KEYS,
    "value": CONFIG_VALUES,
    "num_partitions": HARMLESS_COUNTS,
    "count": HARMLESS_COUNTS,
    "replication_factor": (-1, 1, 2, 0, 2**15 - 1),
    "broker_ids": (1, 1, 0, 2),
    "partition": (0, 0, 1),
    "partitions": (0, 0, 1),
    "partition_index": (0, 0, 1),
    "partition_indexes": (0, 0, 1),
    "index": (0, 0, 1),
    "acks": (-1, -1, 1, 0),
    "replica_id": (-1, -1, -1, -2, 1, 0),
    "max_wait_ms": (0, 0, 1, 10, -1),
    "min_bytes": (0, 1, 1, 100),
    "max_bytes": (1 << 20, 0, 1, -1, 2**31 - 1),
    "partition_max_bytes": (1 << 20, 0, 1, -1, 2**31 - 1),
    "isolation_level": (0, 1),
    "session_id": (0,),
    "session_epoch": (0, -1, 1, 2),
    "current_leader_epoch": (-1, 0),
    "last_fetched_epoch": (-1, -1, 0, 1),
    "leader_epoch": (0, 1),
    "fetch_offset": (0, 0, 1, 5),
    "offset": (0, 1, -1, -2),
    "timestamp": (-1, -2, -3, -4, -5, -6, 0),
    "session_timeout_ms": (10, 1_000, 6_000, 30_000),
    "rebalance_timeout_ms": (0, 10, 100, 1_000),
    "client_software_name": ("librdkafka", "-"),
    "client_software_version": ("2.0", ""),
    "endpoint_type": (1, 2, 0),
    "election_type": (0, 1),
    "broker_id": (1, 2),
    "response_partition_limit": (0, 1, 2_000, -1),
}

EXTREMES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


class Values:
    """Makes messages. What a broker has told is mixed in by the name of its field: member ids, sessions, offsets.

    One with a parent goes by what it was told itself most of the time, sometimes by what others were.
    """

    def __init__(self, parent: "Values | None" = None, *, never_changes: bool = False) -> None:
        self._parent = parent
        self._never_changes = never_changes
        self._known: dict[str, list[Any]] = {}

    def learn(self, name: str, values: Sequence[Any]) -> None:
        """Values that a field of this name may have; the last few are remembered."""
        known = self._known.setdefault(name, [])
        known.extend(values)
        del known[:-20]
        if self._parent is not None:
            self._parent.learn(name, values)

    def learn_from(self, message: Struct) -> None:
        """Take up what a request or a response says."""
        for spec in fields_of(type(message)):
            value = getattr(message, spec.name)
            if spec.struct is not None:
                parts = value if spec.is_array else [value]
                # What is listed first is enough; a list may be long.
                for part in (parts or ())[:5]:
                    if part is not None:
                        self.learn_from(part)
            elif value:
                for name in LEARNED.get(spec.name, ()):
                    self.learn(name, [value])

    def message(self, chance: random.Random, cls: type[Any], version: int) -> Any:
        made = cls(**{spec.name: self._field(chance, cls, spec, version) for spec in fields_of(cls)})
        if self._never_changes and hasattr(made, "validate_only"):
            made.validate_only = True
        if hasattr(made, "value") and chance.random() < 0.6:
            made.name, made.value = chance.choice(FITTING_CONFIGS)
        if isinstance(made, JoinGroupRequest) and chance.random() < 0.7:
            # What all know, so that there is a group at all.
            made.protocols.append(JoinGroupRequestProtocol(name="range", metadata=b""))
        if hasattr(made, "assignments") and chance.random() < 0.6:
            made.assignments = []
        return made

    def _field(self, chance: random.Random, cls: type[Any], spec: FieldSpec, version: int) -> Any:
        is_left_out = spec.tag is not None and chance.random() < 0.7
        if not spec.lives_in(version) or is_left_out:
            return spec.default_factory() if spec.default_factory and spec.tag is None else spec.default
        if spec.nullable_in(version) and chance.random() < 0.15:
            return None
        if spec.is_array:
            size = chance.choice((0, 1, 1, 1, 2, 3)) if chance.random() < 0.98 else chance.randrange(300)
            return [self._single(chance, cls, spec, version) for _ in range(size)]
        return self._single(chance, cls, spec, version)

    def _single(self, chance: random.Random, cls: type[Any], spec: FieldSpec, version: int) -> Any:
        if spec.struct is not None:
            return self.message(chance, spec.struct, version)
        seeds = _seeds(cls, spec)
        known = () if cls.__name__ == "DeleteTopicState" else self._known_as(spec.name, chance)
        roll = chance.random()
        if known and roll < 0.7:
            return known[-1] if roll < 0.5 else chance.choice(known)
        if seeds and (roll < 0.97 or seeds is HARMLESS_COUNTS):
            return chance.choice(seeds)
        return _MAKERS.get(spec.wire, _integer)(chance, spec)

    def _known_as(self, name: str, chance: random.Random) -> Sequence[Any]:
        own = self._known.get(name, ())
        return self._parent._known.get(name, ()) if self._parent and (not own or chance.random() < 0.1) else own


def _seeds(cls: type[Any], spec: FieldSpec) -> Sequence[Any]:
    if spec.name != "name":
        return SEEDS.get(spec.name, ())
    if "Config" in cls.__name__:
        return CONFIG_KEYS
    if cls.__name__ == "DeleteTopicState":
        return DOOMED_TOPICS
    return SEEDS["protocol_name"] if "Protocol" in cls.__name__ else TOPICS


def _integer(chance: random.Random, spec: FieldSpec) -> int:
    least, most = EXTREMES[spec.wire]
    roll = chance.random()
    if roll < 0.5:
        return chance.randrange(5)
    if roll < 0.8:
        return chance.choice((least, least + 1, -1 if least else 0, most - 1, most))
    return chance.randrange(least, most + 1)


def _string(chance: random.Random, _: FieldSpec) -> str:
    roll = chance.random()
    if roll < 0.6:
        return "".join(chance.choices("abc.-_", k=chance.randrange(4)))
    if roll < 0.9:
        return "".join(
            chance.choices("\x00\x7f\xff\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff", k=chance.randrange(6))
        )
    return chance.choice("a.²\U0001f4a5") * chance.choice((249, 250, 4_096, 8_191))


def _bytes(chance: random.Random, _: FieldSpec) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 4, 100, 10_000)))


_MAKERS: dict[str, Callable[[random.Random, FieldSpec], Any]] = {
    "bool": lambda chance, _: chance.random() < 0.5,
    "float64": lambda chance, _: chance.choice((0.0, -1.0, float("inf"), float("nan"))),
    "uuid": lambda chance, _: chance.choice((bytes(16), b"\xff" * 16, chance.randbytes(16))),
    "string": _string,
    "bytes": _bytes,
    "records": lambda chance, _: random_records(chance),
}
