"""Every property of a consumer, in the order of their names."""

from levada.client.options.common_keys import COMMON_KEYS
from levada.client.options.durations import OffsetReset
from levada.client.options.security_keys import SECURITY_KEYS
from levada.model.config import Importance, Key
from levada.model.config_ranges import AtLeast, NonEmpty, OneOf

HIGH = Importance.HIGH
LOW = Importance.LOW

_OWN: tuple[Key, ...] = (
    Key("allow.auto.create.topics", "boolean", True),
    Key("auto.commit.interval.ms", "int", 5000, AtLeast(0), importance=LOW),
    Key("auto.offset.reset", "string", "latest", OffsetReset()),
    Key("bootstrap.servers", "list", None, importance=HIGH),
    Key("check.crcs", "boolean", True, importance=LOW),
    Key("client.id", "string", "", importance=LOW),
    Key("client.rack", "string", "", importance=LOW),
    Key("connections.max.idle.ms", "long", 540000),
    Key("default.api.timeout.ms", "int", 60000, AtLeast(0)),
    Key("enable.auto.commit", "boolean", True),
    Key("enable.metrics.push", "boolean", True, importance=LOW),
    Key("exclude.internal.topics", "boolean", True),
    Key("fetch.max.bytes", "int", 52428800, AtLeast(0)),
    Key("fetch.max.wait.ms", "int", 500, AtLeast(0), importance=LOW),
    Key("fetch.min.bytes", "int", 1, AtLeast(0), importance=HIGH),
    Key("group.id", "string", None, importance=HIGH),
    Key("group.instance.id", "string", None, NonEmpty()),
    Key("group.protocol", "string", "classic", OneOf("CONSUMER", "CLASSIC", ignore_case=True), importance=HIGH),
    Key("group.remote.assignor", "string", None),
    Key("heartbeat.interval.ms", "int", 3000, importance=HIGH),
    Key("interceptor.classes", "list", (), importance=LOW),
    Key("internal.throw.on.fetch.stable.offset.unsupported", "boolean", False, importance=LOW, internal=True),
    Key("isolation.level", "string", "read_uncommitted", OneOf("read_committed", "read_uncommitted")),
    Key("key.deserializer", "class", None, importance=HIGH),
    Key("max.partition.fetch.bytes", "int", 1048576, AtLeast(0), importance=HIGH),
    Key("max.poll.interval.ms", "int", 300000, AtLeast(1)),
    Key("max.poll.records", "int", 500, AtLeast(1)),
    Key("partition.assignment.strategy", "list", ("range", "cooperative-sticky")),
    Key("receive.buffer.bytes", "int", 65536, AtLeast(-1)),
    Key("session.timeout.ms", "int", 45000, importance=HIGH),
    Key("share.acknowledgement.mode", "string", "implicit", OneOf("implicit", "explicit")),
    Key("share.acquire.mode", "string", "BATCH_OPTIMIZED", OneOf("batch_optimized", "record_limit")),
    Key("value.deserializer", "class", None, importance=HIGH),
)

CONSUMER_KEYS: tuple[Key, ...] = tuple(sorted((*COMMON_KEYS, *SECURITY_KEYS, *_OWN), key=lambda key: key.name))
