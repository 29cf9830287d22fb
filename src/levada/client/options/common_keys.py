"""The properties that producer, consumer and admin client share, with the same default in each."""

from levada.model.config import Importance, Key
from levada.model.config_ranges import AtLeast, OneOf

LOW = Importance.LOW

COMMON_KEYS: tuple[Key, ...] = (
    Key(
        "client.dns.lookup",
        "string",
        "use_all_dns_ips",
        OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    Key("config.providers", "list", (), importance=LOW),
    Key("metadata.max.age.ms", "long", 300000, AtLeast(0), importance=LOW),
    Key("metadata.recovery.rebootstrap.trigger.ms", "long", 300000, AtLeast(0), importance=LOW),
    Key(
        "metadata.recovery.strategy",
        "string",
        "rebootstrap",
        OneOf("REBOOTSTRAP", "NONE", ignore_case=True),
        importance=LOW,
    ),
    Key("metric.reporters", "list", ("org.apache.kafka.common.metrics.JmxReporter",), importance=LOW),
    Key("metrics.num.samples", "int", 2, AtLeast(1), importance=LOW),
    Key("metrics.recording.level", "string", "INFO", OneOf("INFO", "DEBUG", "TRACE"), importance=LOW),
    Key("metrics.sample.window.ms", "long", 30000, AtLeast(0), importance=LOW),
    Key("reconnect.backoff.max.ms", "long", 1000, AtLeast(0), importance=LOW),
    Key("reconnect.backoff.ms", "long", 50, AtLeast(0), importance=LOW),
    Key("request.timeout.ms", "int", 30000, AtLeast(0)),
    Key("retry.backoff.max.ms", "long", 1000, AtLeast(0), importance=LOW),
    Key("retry.backoff.ms", "long", 100, AtLeast(0), importance=LOW),
    Key("send.buffer.bytes", "int", 131072, AtLeast(-1)),
    Key("socket.connection.setup.timeout.max.ms", "long", 30000),
    Key("socket.connection.setup.timeout.ms", "long", 10000),
)
