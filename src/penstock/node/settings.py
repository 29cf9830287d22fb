"""From configuration keys to what a node works with."""

from collections.abc import Mapping
from dataclasses import dataclass
from socket import gethostname

from penstock.model.broker_keys import BROKER_KEYS
from penstock.model.config import Config, ConfigError, Key

PENSTOCK_KEYS = (
    # A view of a receive buffer that is kept too long reads these bytes instead of another request's.
    Key("penstock.poison.buffers", "boolean", False),
)

EVERY_INTERFACE = ("", "0.0.0.0", "::")
"""Addresses to listen on that mean nothing to a client."""

ENOUGH_OPEN_FILES = 1 << 20

SERVED_KEYS = frozenset(
    {
        "advertised.listeners",
        "auto.create.topics.enable",
        "broker.id",
        "fetch.max.bytes",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "listeners",
        "log.dir",
        "log.dirs",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.message.timestamp.type",
        "log.cleanup.policy",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "message.max.bytes",
        "node.id",
        "num.partitions",
        "num.recovery.threads.per.data.dir",
        "offset.metadata.max.bytes",
        "producer.id.expiration.check.interval.ms",
        "producer.id.expiration.ms",
        "socket.request.max.bytes",
        *(key.name for key in PENSTOCK_KEYS),
    }
)
"""Keys that change something here; the others are accepted with a warning."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    data_directory: str
    node_id: int
    listen_host: str
    listen_port: int
    advertised_host: str
    advertised_port: int
    """0 stands for the port that is listened on."""
    config: Config
    open_files_allowed: int


def node_settings(given: Mapping[str, str], open_files_allowed: int = ENOUGH_OPEN_FILES) -> NodeSettings:
    """Check every given key and work out where to listen and where to keep data."""
    config = Config((*BROKER_KEYS, *PENSTOCK_KEYS), given)
    host, port = _endpoint(config, "listeners")
    advertised_host, advertised_port = (
        _endpoint(config, "advertised.listeners") if config["advertised.listeners"] else (host, port)
    )
    return NodeSettings(
        data_directory=_data_directory(config),
        node_id=_node_id(config),
        listen_host=host,
        listen_port=port,
        advertised_host=gethostname() if advertised_host in EVERY_INTERFACE else advertised_host,
        advertised_port=advertised_port,
        config=config,
        open_files_allowed=open_files_allowed,
    )


def retention_ms(config: Config) -> int:
    """How long records are kept: milliseconds win over minutes, minutes over hours; below 0 is for ever."""
    for key, unit_ms in (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ):
        if config[key] is not None:
            return -1 if config[key] < 0 else int(config[key]) * unit_ms
    raise AssertionError("log.retention.hours has a default")


def without_meaning(config: Config) -> list[str]:
    """Keys that were given and that nothing here reads."""
    return sorted(config.given - SERVED_KEYS)


def _data_directory(config: Config) -> str:
    directories = config["log.dirs"] or config["log.dir"]
    if len(directories) != 1:
        raise ConfigError("log.dirs names several directories; this version keeps its data in one")
    return str(directories[0])


def _node_id(config: Config) -> int:
    node_id = config["node.id"] if config["node.id"] is not None else config["broker.id"]
    if node_id < 0:
        raise ConfigError(f"node.id must be at least 0, not {node_id}")
    return int(node_id)


def _endpoint(config: Config, key: str) -> tuple[str, int]:
    """The host and port of the first listener; one is what this version has."""
    listeners = config[key]
    if len(listeners) != 1:
        raise ConfigError(f"{key} must name exactly one listener, not {','.join(listeners)!r}")
    return parse_listener(key, listeners[0])


def parse_listener(key: str, text: str) -> tuple[str, int]:
    """`PLAINTEXT://host:port` or `host:port`; IPv6 addresses in brackets."""
    protocol, separator, address = text.rpartition("://")
    if separator and protocol != "PLAINTEXT":
        raise ConfigError(f"{key} {text!r}: only PLAINTEXT listeners are served")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{key} must look like HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
