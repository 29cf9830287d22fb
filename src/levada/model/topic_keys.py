"""Every property that a topic can have, with the broker property that it follows where it has none of its own."""

from functools import partial

from levada.model.config import Dynamic, Key
from levada.model.config_ranges import AtLeast, Between, BetweenOr, OneOf, ThrottledReplicas

_key = partial(Key, dynamic=Dynamic.ALWAYS)

TOPIC_KEYS: tuple[Key, ...] = (
    _key("cleanup.policy", "list", ("delete",), OneOf("compact", "delete"), broker_default="log.cleanup.policy"),
    _key("compression.gzip.level", "int", -1, BetweenOr(1, 9, -1), broker_default="compression.gzip.level"),
    _key("compression.lz4.level", "int", 9, Between(1, 17), broker_default="compression.lz4.level"),
    _key(
        "compression.type",
        "string",
        "producer",
        OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        broker_default="compression.type",
    ),
    _key("compression.zstd.level", "int", 3, Between(-131072, 22), broker_default="compression.zstd.level"),
    _key("delete.retention.ms", "long", 86400000, AtLeast(0), broker_default="log.cleaner.delete.retention.ms"),
    _key("file.delete.delay.ms", "long", 60000, AtLeast(0), broker_default="log.segment.delete.delay.ms"),
    _key("flush.messages", "long", 9223372036854775807, AtLeast(1), broker_default="log.flush.interval.messages"),
    _key("flush.ms", "long", 9223372036854775807, AtLeast(0), broker_default="log.flush.interval.ms"),
    _key("follower.replication.throttled.replicas", "list", (), ThrottledReplicas()),
    _key("index.interval.bytes", "int", 4096, AtLeast(0), broker_default="log.index.interval.bytes"),
    _key("internal.segment.bytes", "int", None, internal=True),
    _key("leader.replication.throttled.replicas", "list", (), ThrottledReplicas()),
    _key("local.retention.bytes", "long", -2, AtLeast(-2), broker_default="log.local.retention.bytes"),
    _key("local.retention.ms", "long", -2, AtLeast(-2), broker_default="log.local.retention.ms"),
    _key(
        "max.compaction.lag.ms",
        "long",
        9223372036854775807,
        AtLeast(1),
        broker_default="log.cleaner.max.compaction.lag.ms",
    ),
    _key("max.message.bytes", "int", 1048588, AtLeast(0), broker_default="message.max.bytes"),
    _key(
        "message.timestamp.after.max.ms",
        "long",
        3600000,
        AtLeast(0),
        broker_default="log.message.timestamp.after.max.ms",
    ),
    _key(
        "message.timestamp.before.max.ms",
        "long",
        9223372036854775807,
        AtLeast(0),
        broker_default="log.message.timestamp.before.max.ms",
    ),
    _key(
        "message.timestamp.type",
        "string",
        "CreateTime",
        OneOf("CreateTime", "LogAppendTime"),
        broker_default="log.message.timestamp.type",
    ),
    _key("min.cleanable.dirty.ratio", "double", 0.5, Between(0, 1), broker_default="log.cleaner.min.cleanable.ratio"),
    _key("min.compaction.lag.ms", "long", 0, AtLeast(0), broker_default="log.cleaner.min.compaction.lag.ms"),
    _key("min.insync.replicas", "int", 1, AtLeast(1), broker_default="min.insync.replicas"),
    _key("preallocate", "boolean", False, broker_default="log.preallocate"),
    _key("remote.log.copy.disable", "boolean", False),
    _key("remote.log.delete.on.disable", "boolean", False),
    _key("remote.storage.enable", "boolean", False),
    _key("retention.bytes", "long", -1, broker_default="log.retention.bytes"),
    _key("retention.ms", "long", 604800000, AtLeast(-1), broker_default="log.retention.ms"),
    _key("segment.bytes", "int", 1073741824, AtLeast(1048576), broker_default="log.segment.bytes"),
    _key("segment.index.bytes", "int", 10485760, AtLeast(4), broker_default="log.index.size.max.bytes"),
    _key("segment.jitter.ms", "long", 0, AtLeast(0), broker_default="log.roll.jitter.ms"),
    _key("segment.ms", "long", 604800000, AtLeast(1), broker_default="log.roll.ms"),
    _key("unclean.leader.election.enable", "boolean", False, broker_default="unclean.leader.election.enable"),
)
