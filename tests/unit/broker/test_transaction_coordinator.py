"""The driver of transaction coordinators: decisions become markers; those of a coordinator that was replaced stop."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from levada.broker.flushing import Flushing
from levada.broker.partition import Partition
from levada.broker.transaction_coordinator import TransactionCoordinator
from levada.model.error_codes import ErrorCode
from levada.model.metrics import Timer
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.storage.log_config import LogConfig
from levada.transactions import Marker, MarkerWork, TransactionMachine, TransactionSettings, TransactionState
from levada.world.real import RealClock, real_world
from tests.logs import opened
from tests.unit.broker.hosted_groups import lead

WAIT_SECONDS = 10
CLASSIC = 3


class Partitions:
    """Where markers go: each send waits until it is let on, and knows the epoch it was sent with."""

    def __init__(self) -> None:
        self.sent: list[tuple[MarkerWork, int, Callable[[Sequence[Marker]], None]]] = []
        self.cancelled = 0
        self.is_open = asyncio.Event()

    async def send(self, work: MarkerWork, epoch: int, complete: Callable[[Sequence[Marker]], None]) -> None:
        self.sent.append((work, epoch, complete))
        try:
            await self.is_open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        complete(work.markers)


class Coordinator:
    def __init__(self, directory: Path) -> None:
        clock, disk = RealClock(), real_world().async_disk
        flushing = Flushing(disk, clock, Timer(0))
        log = opened(directory, LogConfig())
        self.partition = Partition("__transaction_state", bytes(16), 0, log, flushing.begin)
        lead(self.partition, epoch=0)
        numbers = iter(range(1_000, 2_000))
        self.partitions = Partitions()
        self.inner = TransactionCoordinator(
            lambda: TransactionMachine(TransactionSettings(), lambda: next(numbers)),
            clock,
            disk,
            self.partitions.send,
        )

    async def load(self) -> "Coordinator":
        self.inner.follow(1, {0: self.partition})
        while self.inner.is_loading:
            await asyncio.sleep(0.001)
        return self

    async def begin(self) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        reply: InitProducerIdResponse = await self.inner.submit(
            "t", lambda machine, token, now_ms: machine.init_producer_id(token, request, 4, now_ms)
        )
        code: ErrorCode = await self.inner.submit(
            "t",
            lambda machine, token, now_ms: machine.add_partitions(
                token, "t", reply.producer_id, reply.producer_epoch, [("orders", 0)], CLASSIC, now_ms
            ),
        )
        assert code == ErrorCode.NONE
        return reply

    async def commit(self, producer: InitProducerIdResponse) -> None:
        request = EndTxnRequest(
            transactional_id="t",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        reply: EndTxnResponse = await self.inner.submit(
            "t", lambda machine, token, now_ms: machine.end(token, request, CLASSIC, now_ms)
        )
        assert reply.error_code == ErrorCode.NONE
        await asyncio.sleep(0)

    def state(self) -> TransactionState:
        [machine] = self.inner.machines()
        return machine.transactions["t"].state


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, WAIT_SECONDS))


def test_a_decision_is_answered_at_once_and_complete_when_its_markers_are_written(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path).load()
        await coordinator.commit(await coordinator.begin())
        assert coordinator.state() is TransactionState.PREPARE_COMMIT
        coordinator.partitions.is_open.set()
        while coordinator.state() is not TransactionState.COMPLETE_COMMIT:
            await asyncio.sleep(0.001)
        coordinator.inner.close()

    run(main())


def test_a_restarted_coordinator_sends_the_markers_of_what_was_decided(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Coordinator(tmp_path).load()
        await first.commit(await first.begin())
        first.inner.close()
        second = await Coordinator(tmp_path).load()
        await asyncio.sleep(0)
        [(work, _, _)] = second.partitions.sent
        assert work.transactional_ids == ("t",)
        second.inner.close()

    run(main())


def test_markers_of_a_coordinator_that_lost_its_place_stop_and_complete_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path).load()
        await coordinator.commit(await coordinator.begin())
        [(work, old_epoch, complete)] = coordinator.partitions.sent
        lead(coordinator.partition, epoch=1, leader=2)
        coordinator.inner.follow(1, {0: coordinator.partition})
        lead(coordinator.partition, epoch=2)
        await coordinator.load()
        await asyncio.sleep(0)
        assert coordinator.partitions.cancelled == 1
        # A word that was on its way is nothing to the successor, which sends with its own epoch.
        complete(work.markers)
        assert coordinator.state() is TransactionState.PREPARE_COMMIT
        assert [epoch for _, epoch, _ in coordinator.partitions.sent] == [old_epoch, 2]
        coordinator.inner.close()

    run(main())
