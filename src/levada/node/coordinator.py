"""The coordinator that a node's settings name, opened as a door."""

from typing import Final

from levada.doors.local import LocalDoor
from levada.metadata.door import Door
from levada.model.config import ConfigError
from levada.node.settings import NodeSettings
from levada.world.world import World

LOCAL: Final = "local"
COORDINATOR_DIRECTORY: Final = "coordinator"


def check_coordinator(settings: NodeSettings) -> None:
    """ConfigError for a coordinator of a kind that is not served."""
    if settings.coordinator.partition(":")[0] != LOCAL:
        raise ConfigError(
            f"the coordinator {settings.coordinator} is not served yet; start this broker by itself"
            " with --coordinator local"
        )


def is_private(settings: NodeSettings) -> bool:
    """Whether it was made for this node alone, so that what lies in its directories is all that its cluster has."""
    return settings.coordinator in (LOCAL, f"{LOCAL}:")


def coordinator_directory(settings: NodeSettings) -> str:
    """Where the local coordinator keeps its files."""
    check_coordinator(settings)
    return settings.coordinator.partition(":")[2] or f"{settings.data_directory}/{COORDINATOR_DIRECTORY}"


def open_door(world: World, settings: NodeSettings, incarnation: str) -> Door:
    door = LocalDoor(
        world,
        coordinator_directory(settings),
        settings.node_id,
        incarnation,
        settings.config["broker.session.timeout.ms"],
    )
    door.open()
    return door
