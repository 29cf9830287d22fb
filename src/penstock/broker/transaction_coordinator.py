"""The coordinators of transactions: one for each partition of `__transaction_state` that this broker leads."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.broker.coordinators import Coordinator
from penstock.broker.flushing import Flushing
from penstock.coordination.shard import Token
from penstock.transactions import MARKERS, MarkerWork, TransactionMachine
from penstock.transactions.records import decode, encode
from penstock.world.clock import Clock
from penstock.world.disk import AsyncDisk


class TransactionCoordinator(Coordinator[TransactionMachine]):
    """What is decided is finished by `send_markers`, which the node gives."""

    def __init__(
        self, new_machine: Callable[[], TransactionMachine], clock: Clock, disk: AsyncDisk, flushing: Flushing
    ) -> None:
        super().__init__(new_machine, encode, decode, clock, disk, flushing)
        self.send_markers: Callable[[MarkerWork], asyncio.Task[None]] | None = None
        self._sending: dict[asyncio.Task[None], None] = {}

    def deliver(self, token: Token, reply: Any) -> None:
        if token is not MARKERS:
            super().deliver(token, reply)
            return
        if isinstance(reply, MarkerWork):
            assert self.send_markers is not None
            task = self.send_markers(reply)
            # A task that nobody holds may be collected before it has run.
            self._sending[task] = None
            task.add_done_callback(lambda done: self._sending.pop(done, None))

    def markers_written(self, transactional_id: str, producer_epoch: int) -> None:
        """All partitions have the markers; a coordinator that is another by now finds out for itself."""
        shard = self.shard_at(self.partition_of(transactional_id))
        if shard is not None:
            now_ms = self.now_ms()
            shard.run(lambda machine: machine.markers_written(transactional_id, producer_epoch, now_ms))

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The leader epoch of its partition, by which markers of a coordinator that was replaced are refused."""
        shard = self.shard_at(self.partition_of(transactional_id))
        return -1 if shard is None else shard.leader_epoch

    def close(self) -> None:
        for task in list(self._sending):
            task.cancel()
        super().close()
