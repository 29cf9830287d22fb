"""The coordinators of transactions: one for each partition of `__transaction_state` that this broker leads."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias

from levada.broker.coordinators import LOAD_BUFFER_SIZE, Coordinator, HostedShard
from levada.broker.partition import Partition
from levada.coordination.shard import Token
from levada.transactions import MARKERS, Marker, MarkerWork, TransactionMachine
from levada.transactions.records import decode, encode
from levada.world.background import OnFatal, start
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk

SendMarkers: TypeAlias = Callable[[MarkerWork, int, Callable[[Sequence[Marker]], None]], Coroutine[Any, Any, None]]
"""Writes markers with the epoch of the coordinator that decided, and says which ones all their partitions have now."""


class TransactionCoordinator(Coordinator[TransactionMachine]):
    """What is decided is finished by `send_markers`."""

    def __init__(
        self,
        new_machine: Callable[[], TransactionMachine],
        clock: Clock,
        disk: AsyncDisk,
        send_markers: SendMarkers,
        *,
        on_fatal: OnFatal | None = None,
        load_buffer_size: int = LOAD_BUFFER_SIZE,
    ) -> None:
        super().__init__(new_machine, encode, decode, clock, disk, on_fatal=on_fatal, load_buffer_size=load_buffer_size)
        self._send_markers = send_markers
        self._sending: dict[asyncio.Task[None], HostedShard[TransactionMachine]] = {}

    def follow(self, partition_count: int, partitions: Mapping[int, Partition]) -> None:
        super().follow(partition_count, partitions)
        # Another coordinator, or this one's successor, finds decisions in the journal. What the old one still sends
        # must stop: a producer of the classic flow keeps its epoch, so a partition's leader could not tell its markers
        # from those of the next transaction.
        for task in [task for task, shard in self._sending.items() if shard.is_closed]:
            task.cancel()

    def deliver(self, token: Token[Any], reply: object, shard: HostedShard[TransactionMachine]) -> None:
        if token is not MARKERS:
            super().deliver(token, reply, shard)
        elif isinstance(reply, MarkerWork):
            sending = self._send_markers(reply, shard.leader_epoch, lambda markers: self._complete(markers, shard))
            task = start("sending of transaction markers", sending, self._on_fatal)
            self._sending[task] = shard
            task.add_done_callback(lambda done: self._sending.pop(done, None))

    def close(self) -> None:
        for task in list(self._sending):
            task.cancel()
        super().close()

    def _complete(self, markers: Sequence[Marker], shard: HostedShard[TransactionMachine]) -> None:
        if markers and shard.is_serving:
            now_ms = self.now_ms()
            shard.run(lambda machine: machine.all_markers_written(markers, now_ms))
