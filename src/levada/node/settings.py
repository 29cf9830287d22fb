"""From configuration keys to what a node works with."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import abspath
from socket import gethostname

from levada.model.broker_keys import NODE_KEYS
from levada.model.config import Config, ConfigError
from levada.model.config_checks import config_fault
from levada.model.key_meanings import BROKER_MEANINGS
from levada.model.timestamp_types import as_kafka_writes

EVERY_INTERFACE = ("", "0.0.0.0", "::")
"""Addresses to listen on that mean nothing to a client."""

ENOUGH_OPEN_FILES = 1 << 20

MAX_PORT = 65_535
LOCAL = "local"
COORDINATOR_DIRECTORY = "coordinator"

SERVED_KEYS = frozenset(BROKER_MEANINGS)
"""Keys that change something here; the others are accepted with a warning."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    data_directories: tuple[str, ...]
    node_id: int
    coordinator: str
    """Where the cluster's state lives: `local` or `zookeeper://host:port,host:port/path`."""
    listen_host: str
    listen_port: int
    advertised_host: str
    advertised_port: int
    """0 stands for the port that is listened on."""
    config: Config
    open_files_allowed: int

    @property
    def data_directory(self) -> str:
        """The one where more is kept than logs."""
        return self.data_directories[0]


def node_settings(given: Mapping[str, str], open_files_allowed: int = ENOUGH_OPEN_FILES) -> NodeSettings:
    """Check every given key and work out where to listen and where to keep data."""
    config = Config(NODE_KEYS, {key: as_kafka_writes(key, value) for key, value in given.items()})
    if tuple(config["process.roles"] or ()) == ("controller",):
        raise ConfigError(
            "process.roles=controller: these are the settings of a controller alone, and here every broker can be one;"
            " start the file of a broker"
        )
    fault = config_fault(config)
    if fault is not None:
        raise ConfigError(fault)
    host, port = _endpoint(config, "listeners")
    advertised_host, advertised_port = (
        _endpoint(config, "advertised.listeners") if config["advertised.listeners"] else (host, port)
    )
    return NodeSettings(
        data_directories=_data_directories(config),
        node_id=_node_id(config),
        coordinator=_coordinator(config),
        listen_host=host,
        listen_port=port,
        advertised_host=gethostname() if advertised_host in EVERY_INTERFACE else advertised_host,
        advertised_port=advertised_port,
        config=config,
        open_files_allowed=open_files_allowed,
    )


def coordinator_directory(settings: NodeSettings) -> str:
    """Where the local coordinator keeps its files; ConfigError for a coordinator of another kind."""
    kind, _, directory = settings.coordinator.partition(":")
    if kind != LOCAL:
        raise ConfigError(
            f"the coordinator {settings.coordinator} is not served yet; start this broker by itself"
            " with --coordinator local"
        )
    return directory or f"{settings.data_directory}/{COORDINATOR_DIRECTORY}"


def without_meaning(config: Config) -> list[str]:
    """Keys that were given and that nothing here reads."""
    return sorted(set(config.given) - SERVED_KEYS)


def _data_directories(config: Config) -> tuple[str, ...]:
    given = config["log.dirs"]
    directories = tuple(config["log.dir"] if given is None else given)
    if not directories:
        raise ConfigError("log.dirs must name at least one directory")
    counts = Counter(map(abspath, directories))
    for path, count in counts.items():
        if count > 1:
            raise ConfigError(f"log.dirs names {path} more than once")
    return directories


def _node_id(config: Config) -> int:
    node_id = config["node.id"] if config["node.id"] is not None else config["broker.id"]
    if node_id < 0:
        raise ConfigError(f"node.id must be at least 0, not {node_id}")
    return int(node_id)


def _coordinator(config: Config) -> str:
    """A file of the ZooKeeper era chooses its coordinator by naming the ensemble."""
    return f"zookeeper://{config['zookeeper.connect']}" if config["zookeeper.connect"] else LOCAL


def _endpoint(config: Config, key: str) -> tuple[str, int]:
    """The host and port of the listener for clients; one is what this version has.

    Those of Apache's controllers are left out: here brokers ask each other through the coordinator.
    """
    for_controllers = config["controller.listener.names"] or ()
    listeners = [each for each in config[key] if each.partition("://")[0] not in for_controllers]
    if len(listeners) != 1:
        raise ConfigError(f"{key} must name exactly one listener for clients, not {','.join(listeners)!r}")
    name, separator, address = listeners[0].rpartition("://")
    named = (each.strip().partition(":") for each in config["listener.security.protocol.map"].split(","))
    protocol = {listener: protocol for listener, _, protocol in named}.get(name, name)
    return parse_listener(key, f"{protocol}{separator}{address}")


def parse_listener(key: str, text: str) -> tuple[str, int]:
    """`PLAINTEXT://host:port` or `host:port`; IPv6 addresses in brackets."""
    protocol, separator, address = text.rpartition("://")
    if separator and protocol != "PLAINTEXT":
        raise ConfigError(f"{key} {text!r}: only PLAINTEXT listeners are served")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ConfigError(f"{key} must look like HOST:PORT, not {text!r}")
    if int(port) > MAX_PORT:
        raise ConfigError(f"{key}: the port of {text!r} is out of range: it is a number from 0 to {MAX_PORT}")
    return host.removeprefix("[").removesuffix("]"), int(port)
