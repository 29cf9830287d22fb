"""From configuration keys to what a node works with."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import abspath

from levada.model.broker_keys import NODE_KEYS
from levada.model.config import Config, ConfigError
from levada.model.config_checks import config_fault
from levada.model.key_meanings import BROKER_MEANINGS
from levada.model.timestamp_types import as_kafka_writes
from levada.node.listeners import ListenerSettings, inter_broker_listener, listeners_of

ENOUGH_OPEN_FILES = 1 << 20

LOCAL = "local"

SERVED_KEYS = frozenset(BROKER_MEANINGS)
"""Keys that change something here; the others are accepted with a warning."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    data_directories: tuple[str, ...]
    node_id: int
    coordinator: str
    """Where the cluster's state lives: `local` or `zookeeper://host:port,host:port/path`."""
    listeners: tuple[ListenerSettings, ...]
    inter_broker_listener: str
    config: Config
    open_files_allowed: int

    @property
    def data_directory(self) -> str:
        """The one where more is kept than logs."""
        return self.data_directories[0]


def node_settings(
    given: Mapping[str, str], open_files_allowed: int = ENOUGH_OPEN_FILES, *, coordinator: str | None = None
) -> NodeSettings:
    """Check every given key and work out where to listen and where to keep data; a coordinator wins over the keys'."""
    config = Config(NODE_KEYS, {key: as_kafka_writes(key, value) for key, value in given.items()})
    if tuple(config["process.roles"] or ()) == ("controller",):
        raise ConfigError(
            "process.roles=controller: these are the settings of a controller alone, and here every broker can be one;"
            " start the file of a broker"
        )
    fault = config_fault(config)
    if fault is not None:
        raise ConfigError(fault)
    listeners = listeners_of(config)
    return NodeSettings(
        data_directories=_data_directories(config),
        node_id=_node_id(config),
        coordinator=coordinator or _coordinator(config),
        listeners=listeners,
        inter_broker_listener=inter_broker_listener(config, listeners),
        config=config,
        open_files_allowed=open_files_allowed,
    )


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
