"""Every property that a group can have, with the broker property that it follows where it has none of its own."""

from functools import partial

from levada.model.config import Dynamic, Key
from levada.model.config_ranges import AtLeast, OffsetReset, OneOf

_key = partial(Key, dynamic=Dynamic.ALWAYS)

GROUP_KEYS: tuple[Key, ...] = (
    _key(
        "consumer.assignment.interval.ms",
        "int",
        1000,
        AtLeast(0),
        broker_default="group.consumer.assignment.interval.ms",
    ),
    _key(
        "consumer.heartbeat.interval.ms", "int", 5000, AtLeast(1), broker_default="group.consumer.heartbeat.interval.ms"
    ),
    _key("consumer.session.timeout.ms", "int", 45000, AtLeast(1), broker_default="group.consumer.session.timeout.ms"),
    _key("share.assignment.interval.ms", "int", 1000, AtLeast(0), broker_default="group.share.assignment.interval.ms"),
    _key("share.auto.offset.reset", "string", "latest", OffsetReset()),
    _key("share.delivery.count.limit", "int", 5, AtLeast(2), broker_default="group.share.delivery.count.limit"),
    _key("share.heartbeat.interval.ms", "int", 5000, AtLeast(1), broker_default="group.share.heartbeat.interval.ms"),
    _key("share.isolation.level", "string", "read_uncommitted", OneOf("read_committed", "read_uncommitted")),
    _key(
        "share.partition.max.record.locks",
        "int",
        2000,
        AtLeast(100),
        broker_default="group.share.partition.max.record.locks",
    ),
    _key(
        "share.record.lock.duration.ms",
        "int",
        30000,
        AtLeast(1000),
        broker_default="group.share.record.lock.duration.ms",
    ),
    _key("share.renew.acknowledge.enable", "boolean", True),
    _key("share.session.timeout.ms", "int", 45000, AtLeast(1), broker_default="group.share.session.timeout.ms"),
    _key(
        "streams.assignment.interval.ms", "int", 1000, AtLeast(0), broker_default="group.streams.assignment.interval.ms"
    ),
    _key(
        "streams.heartbeat.interval.ms", "int", 5000, AtLeast(1), broker_default="group.streams.heartbeat.interval.ms"
    ),
    _key(
        "streams.initial.rebalance.delay.ms",
        "int",
        3000,
        AtLeast(0),
        broker_default="group.streams.initial.rebalance.delay.ms",
    ),
    _key("streams.num.standby.replicas", "int", 0, AtLeast(0), broker_default="group.streams.num.standby.replicas"),
    _key("streams.session.timeout.ms", "int", 45000, AtLeast(1), broker_default="group.streams.session.timeout.ms"),
)
