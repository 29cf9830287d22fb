"""Looks after the directories of logs: one that fails goes offline with its replicas, a full one is warned about."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from levada.broker.broker import Broker
from levada.broker.partition import Partition
from levada.model.errors import ApiError
from levada.node.disk_usage import DiskUsage
from levada.node.membership import ClusterMembership
from levada.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryToAssign,
    PartitionToAssign,
    TopicToAssign,
)
from levada.storage.log_directory import LogDirectory
from levada.world.background import OnFatal, cancel_and_wait, start

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0


class DirectoryWatch:
    """Tells the controller where the replicas are, and which of them are out of reach."""

    def __init__(self, broker: Broker, membership: ClusterMembership, usage: DiskUsage, on_fatal: OnFatal) -> None:
        self._broker = broker
        self._membership = membership
        self._usage = usage
        self._on_fatal = on_fatal
        self._woken = asyncio.Event()
        self._failed: list[LogDirectory] = []
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on; what has failed before is dealt with first."""
        self._failed = self._broker.logs.offline
        for directory in self._broker.logs:
            directory.on_failure = self._note_failure
        self._broker.replicas.on_placed = self._woken.set
        self._woken.set()
        self._running = start("watch of log directories", self._run(), self._on_fatal)

    async def stop(self) -> None:
        await cancel_and_wait(self._running)

    def _note_failure(self, directory: LogDirectory) -> None:
        # It may be in the middle of an append: requests that wait for its logs are told later.
        self._failed.append(directory)
        self._woken.set()

    async def _run(self) -> None:
        while True:
            # Not wait_for, which loses a cancellation that comes in the same turn as what it waits for.
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._woken.wait()
            self._woken.clear()
            for directory in self._broker.logs.online:
                directory.probe()
            self._usage.check()
            try:
                await self._take_offline()
                await self._report()
            except (ApiError, OSError) as error:
                logger.error("the controller does not know of all log directories reason=%r", str(error))

    async def _take_offline(self) -> None:
        failed, self._failed = self._failed, []
        if not failed:
            return
        broker = self._broker
        for directory in failed:
            count = broker.replicas.lose(directory)
            logger.error(
                "log directory offline directory=%s replicas=%d reason=%r; it is used again after a restart",
                directory.directory,
                count,
                directory.failure,
            )
        broker.follow_coordinators()
        if not broker.logs.online:
            self._on_fatal("every log directory has failed")
        elif broker.logs.first.is_offline:
            self._on_fatal(f"{broker.logs.first.directory} has failed, which has the cluster's metadata too")
        await self._membership.beat_and_see(broker)

    async def _report(self) -> None:
        """Say where replicas are that the metadata has elsewhere, or nowhere."""
        placed = self._broker.replicas.take_placed()
        by_directory: dict[bytes, dict[bytes, list[PartitionToAssign]]] = {}
        for partition in placed:
            directory_id = self._directory_to_report(partition)
            if directory_id is not None:
                topics = by_directory.setdefault(directory_id, {})
                topics.setdefault(partition.topic_id, []).append(PartitionToAssign(partition_index=partition.index))
        if not by_directory:
            return
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker.identity.node_id,
            broker_epoch=self._broker.epoch,
            directories=[
                DirectoryToAssign(
                    id=directory_id,
                    topics=[TopicToAssign(topic_id=topic, partitions=found) for topic, found in topics.items()],
                )
                for directory_id, topics in by_directory.items()
            ],
        )
        try:
            await self._membership.submit(request, 0)
        except (ApiError, OSError):
            self._broker.replicas.place_again(placed)
            raise

    def _directory_to_report(self, partition: Partition) -> bytes | None:
        """What the metadata does not know yet."""
        key = partition.topic, partition.index
        # Also one that has failed since: the controller must know that what was made there is lost with it.
        holding = next((one for one in self._broker.logs if key in one), None)
        if holding is None:
            return None
        known = partition.state.directory_of(self._broker.identity.node_id)
        return None if known == holding.directory_id else holding.directory_id
