"""What Kafka requires of the timings of groups beyond the range of each key, and what is legal but unwise."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

BrokerValue: TypeAlias = Callable[[str], Any]
"""What a key of the broker holds."""

HEARTBEATS_PER_SESSION = 3
"""A session that ends sooner takes a member for dead over a lost heartbeat or two."""


class _Bounded(NamedTuple):
    """A key of groups that the broker bounds with keys of its own."""

    name: str
    least: str | None
    most: str
    follows_broker: bool = True
    """Whether the broker's own value is held against the bounds where a group has none."""

    @property
    def broker_name(self) -> str:
        return f"group.{self.name}"


def _between(name: str, *, follows_broker: bool = True) -> _Bounded:
    kind, _, what = name.partition(".")
    return _Bounded(name, f"group.{kind}.min.{what}", f"group.{kind}.max.{what}", follows_broker)


KINDS = ("consumer", "share", "streams")

_BOUNDED: tuple[_Bounded, ...] = (
    _between("consumer.heartbeat.interval.ms"),
    _between("consumer.session.timeout.ms"),
    _between("consumer.assignment.interval.ms", follows_broker=False),
    _between("share.heartbeat.interval.ms"),
    _between("share.session.timeout.ms"),
    _between("share.record.lock.duration.ms"),
    _between("share.delivery.count.limit"),
    _between("share.partition.max.record.locks"),
    _between("share.assignment.interval.ms", follows_broker=False),
    _between("streams.heartbeat.interval.ms"),
    _between("streams.session.timeout.ms"),
    _Bounded("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
    _between("streams.assignment.interval.ms", follows_broker=False),
)
"""In the order in which Kafka looks at them."""


def group_fault(values: Mapping[str, Any], broker: BrokerValue) -> str | None:
    """What is wrong with the values that a group has of its own, on top of the broker's; or None."""
    held = {one.name: values.get(one.name, broker(one.broker_name)) for one in _BOUNDED}
    for one in _BOUNDED:
        if not one.follows_broker and one.name not in values:
            continue
        if one.least is not None and held[one.name] < broker(one.least):
            return f"{one.name} must be greater than or equal to {one.least}"
        if held[one.name] > broker(one.most):
            return f"{one.name} must be less than or equal to {one.most}"
    for kind in KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if held[session] <= held[heartbeat]:
            return f"{session} must be greater than {heartbeat}"
    return None


def broker_fault(broker: BrokerValue) -> str | None:
    """What is wrong with a broker's own values and the bounds it sets for groups, or None."""
    return next(_broker_faults(broker), None)


def session_warning(session: str, session_ms: int, heartbeat: str, heartbeat_ms: int) -> str | None:
    """What to say of a session, by the keys of it and of the heartbeat, that is too short for its heartbeats."""
    if session_ms >= HEARTBEATS_PER_SESSION * heartbeat_ms:
        return None
    return (
        f"{session}={session_ms} is below three times {heartbeat}={heartbeat_ms}: members may be taken for dead that "
        f"are not; set {session} to at least {HEARTBEATS_PER_SESSION * heartbeat_ms} "
        f"or {heartbeat} to at most {max(1, session_ms // HEARTBEATS_PER_SESSION)}"
    )


def _broker_faults(broker: BrokerValue) -> Iterator[str]:
    for one in _BOUNDED:
        name = one.broker_name
        if one.least is not None and broker(one.most) < broker(one.least):
            yield f"{one.most} must be greater than or equal to {one.least}"
        if one.least is not None and broker(name) < broker(one.least):
            yield f"{name} must be greater than or equal to {one.least}"
        if broker(name) > broker(one.most):
            yield f"{name} must be less than or equal to {one.most}"
    for kind in KINDS:
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if broker(heartbeat) >= broker(session):
            yield f"{heartbeat} must be less than {session}"
