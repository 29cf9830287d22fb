"""A group coordinator over one real partition of `__consumer_offsets`."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from levada.broker.flushing import Flushing
from levada.broker.group_coordinator import GroupCoordinator
from levada.broker.partition import Partition
from levada.groups import GroupCluster, GroupCounts, GroupMachine, GroupSettings
from levada.metadata.image import Image, PartitionState
from levada.model.metrics import Timer
from levada.storage.log_config import LogConfig
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk
from levada.world.real import RealClock, RealEntropy, real_world
from tests.logs import opened

NODE = 1
ALONE = GroupCluster(Image, lambda _: {})


def offsets_partition(directory: Path, index: int = 0, flushed_by: AsyncDisk | None = None) -> Partition:
    """With a device to flush to, every commit waits for it."""
    flushing = Flushing(flushed_by or real_world().async_disk, RealClock(), Timer(0))
    config = LogConfig() if flushed_by is None else LogConfig(flush_messages=1)
    partition = Partition("__consumer_offsets", bytes(16), index, opened(directory, config), flushing.begin)
    lead(partition, epoch=0)
    return partition


def lead(partition: Partition, *, epoch: int, leader: int = NODE) -> None:
    partition.follow(PartitionState(0, (NODE,), (NODE,), leader=leader, leader_epoch=epoch), NODE)


def coordinator_of(
    settings: GroupSettings,
    clock: Clock,
    new_machine: Callable[[], GroupMachine] | None = None,
    image: Callable[[], Image] = Image,
) -> GroupCoordinator:
    entropy, disk = RealEntropy(), real_world().async_disk
    cluster = GroupCluster(image, lambda _: {})
    return GroupCoordinator(
        new_machine or (lambda: GroupMachine(settings, cluster, entropy.random_bytes, GroupCounts())), clock, disk
    )


async def loaded(coordinator: GroupCoordinator, partition: Partition) -> None:
    coordinator.follow(1, {0: partition})
    while coordinator.is_loading:
        await asyncio.sleep(0.001)
