"""Every property of a producer, in the order of their names."""

from levada.client.options.common_keys import COMMON_KEYS
from levada.client.options.security_keys import SECURITY_KEYS
from levada.model.config import Importance, Key
from levada.model.config_ranges import AtLeast, Between, BetweenOr, NonEmpty, OneOf

HIGH = Importance.HIGH
LOW = Importance.LOW

_OWN: tuple[Key, ...] = (
    Key("acks", "string", "all", OneOf("all", "-1", "0", "1"), importance=LOW),
    Key("batch.size", "int", 16384, AtLeast(0)),
    Key("bootstrap.servers", "list", None, importance=HIGH),
    Key("buffer.memory", "long", 33554432, AtLeast(0), importance=HIGH),
    Key("client.id", "string", ""),
    Key("compression.gzip.level", "int", -1, BetweenOr(1, 9, -1)),
    Key("compression.lz4.level", "int", 9, Between(1, 17)),
    Key("compression.type", "string", "none", OneOf("none", "gzip", "snappy", "lz4", "zstd"), importance=HIGH),
    Key("compression.zstd.level", "int", 3, Between(-131072, 22)),
    Key("connections.max.idle.ms", "long", 540000),
    Key("delivery.timeout.ms", "int", 120000, AtLeast(0)),
    Key("enable.idempotence", "boolean", True, importance=LOW),
    Key("enable.metrics.push", "boolean", True, importance=LOW),
    Key("interceptor.classes", "list", (), importance=LOW),
    Key("key.serializer", "class", None, importance=HIGH),
    Key("linger.ms", "long", 5, AtLeast(0)),
    Key("max.block.ms", "long", 60000, AtLeast(0)),
    Key("max.in.flight.requests.per.connection", "int", 5, AtLeast(1), importance=LOW),
    Key("max.request.size", "int", 1048576, AtLeast(0)),
    Key("metadata.max.idle.ms", "long", 300000, AtLeast(5000), importance=LOW),
    Key("partitioner.adaptive.partitioning.enable", "boolean", True, importance=LOW),
    Key("partitioner.availability.timeout.ms", "long", 0, AtLeast(0), importance=LOW),
    Key("partitioner.class", "class", None),
    Key("partitioner.ignore.keys", "boolean", False),
    Key("receive.buffer.bytes", "int", 32768, AtLeast(-1)),
    Key("retries", "int", 2147483647, Between(0, 2147483647), importance=HIGH),
    Key("transaction.timeout.ms", "int", 60000, importance=LOW),
    Key("transaction.two.phase.commit.enable", "boolean", False, importance=LOW),
    Key("transactional.id", "string", None, NonEmpty(), importance=LOW),
    Key("value.serializer", "class", None, importance=HIGH),
)

PRODUCER_KEYS: tuple[Key, ...] = tuple(sorted((*COMMON_KEYS, *SECURITY_KEYS, *_OWN), key=lambda key: key.name))
