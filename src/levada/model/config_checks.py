"""What Kafka requires of broker keys beyond the range of each."""

from collections.abc import Callable
from typing import Any

from levada.model.cleaner_checks import memory_fault, no_threads_fault
from levada.model.config import Config
from levada.model.group_checks import broker_fault
from levada.model.numbers import parse_int32

_RETENTION = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"

_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "log.retention.hours": (lambda hours: hours != 0, _RETENTION),
    "log.retention.minutes": (lambda minutes: minutes != 0, _RETENTION),
    "log.retention.ms": (lambda milliseconds: milliseconds != 0, _RETENTION),
    "log.roll.jitter.ms": (lambda jitter_ms: jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0"),
    "log.roll.ms": (lambda roll_ms: roll_ms >= 1, "log.roll.ms must be greater than or equal to 1"),
    "max.connections.per.ip.overrides": (
        lambda text: connection_overrides(text) is not None,
        "max.connections.per.ip.overrides must look like host:count,host:count",
    ),
}


def value_fault(name: str, value: Any) -> str | None:
    """What is wrong with one parsed value, or None."""
    if value is None or name not in _RULES:
        return None
    is_fine, requirement = _RULES[name]
    return None if is_fine(value) else requirement


def config_fault(config: Config) -> str | None:
    """What is wrong with the keys that a broker is started with, or None."""
    for name in sorted(config.given):
        fault = value_fault(name, config[name])
        if fault is not None:
            return fault
    fault = no_threads_fault(config.__getitem__) or memory_fault(config.__getitem__)
    if fault is not None:
        return fault
    if 0 < config["queued.max.request.bytes"] < config["socket.request.max.bytes"]:
        return "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    if config["max.connections.per.ip"] == 0 and not config["max.connections.per.ip.overrides"]:
        return "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    return broker_fault(config.__getitem__)


def connection_overrides(text: str) -> dict[str, int] | None:
    """How many connections each named address may have; None if the text is not `host:count,host:count`."""
    counts: dict[str, int] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        # An IPv6 address has colons of its own.
        host, colon, count = pair.rpartition(":")
        number = parse_int32(count.strip()) if count.strip().isdecimal() else None
        if not colon or not host.strip() or number is None:
            return None
        counts[host.strip()] = number
    return counts
