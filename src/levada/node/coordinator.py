"""The coordinator that a node's settings name, opened as a door."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from levada.doors.local import LocalDoor
from levada.metadata.delta import Delta
from levada.metadata.door import Door
from levada.metadata.image import Image
from levada.model.config import ConfigError
from levada.node.settings import NodeSettings
from levada.world.world import World

LOCAL: Final = "local"
ZOOKEEPER: Final = "zookeeper"
COORDINATOR_DIRECTORY: Final = "coordinator"


@dataclass(frozen=True, slots=True)
class Coordinator:
    door: Door
    show: Callable[[Delta, Image], None]
    """Told of every change; shows people the cluster where the coordinator has a place for that."""
    close: Callable[[], Awaitable[None]]


def check_coordinator(settings: NodeSettings) -> None:
    """ConfigError for a coordinator of a kind that there is not."""
    kind = settings.coordinator.partition(":")[0]
    if kind == ZOOKEEPER:
        # Only what uses it pays for it.
        from levada.doors.zookeeper_address import parse_address

        parse_address(settings.coordinator)
    elif kind != LOCAL:
        raise ConfigError(
            f"--coordinator {settings.coordinator}: it is local, local:DIR, or zookeeper://HOST:PORT,.../PATH"
        )


def is_private(settings: NodeSettings) -> bool:
    """Whether it was made for this node alone, so that what lies in its directories is all that its cluster has."""
    return settings.coordinator in (LOCAL, f"{LOCAL}:")


def open_coordinator(world: World, settings: NodeSettings, incarnation: str) -> Coordinator:
    check_coordinator(settings)
    if settings.coordinator.startswith(f"{ZOOKEEPER}:"):
        return _open_zookeeper(world, settings, incarnation)
    directory = settings.coordinator.partition(":")[2] or f"{settings.data_directory}/{COORDINATOR_DIRECTORY}"
    timeout_ms = settings.config["broker.session.timeout.ms"]
    door = LocalDoor(world, directory, settings.node_id, incarnation, timeout_ms)
    door.open()
    return Coordinator(door, lambda _delta, _image: None, door.close)


def _open_zookeeper(world: World, settings: NodeSettings, incarnation: str) -> Coordinator:
    try:
        from levada.doors.zookeeper import ZooKeeperDoor
        from levada.doors.zookeeper_address import parse_address
        from levada.doors.zookeeper_projections import ZooKeeperProjections
    except ImportError as error:
        raise ConfigError(f"a coordinator in ZooKeeper wants pip install 'levada[zookeeper]' ({error})") from error
    address = parse_address(settings.coordinator)
    timeout_ms = settings.config["broker.session.timeout.ms"]
    door = ZooKeeperDoor(world, address.hosts, address.chroot, settings.node_id, incarnation, timeout_ms)
    projections = ZooKeeperProjections(door)

    async def close() -> None:
        await projections.close()
        await door.close()

    return Coordinator(door, projections.follow, close)
