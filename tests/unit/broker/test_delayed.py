"""Parked operations: when they expire, that leaving is cheap, and what stays behind of many."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import TypeVarTuple

import pytest

from levada.broker.delayed import PRUNE_ABOVE, TICK_MS, DelayedOperation, DelayedOperations
from levada.sim.world.loop import SimLoop
from levada.sim.world.tasks import SimTimerHandle
from tests.unit.world.loops import LOOPS, run_on

MANY = 100_000

Ts = TypeVarTuple("Ts")


class Operation(DelayedOperation):
    kind = "Test"

    __slots__ = ("expired_at", "number")

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.number = number
        self.expired_at: float | None = None

    def expire(self) -> None:
        assert self.expired_at is None
        self.expired_at = asyncio.get_running_loop().time()


class OtherOperation(Operation):
    kind = "Other"

    __slots__ = ()


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop()
    yield made
    made.close()


def test_an_operation_expires_at_its_time_or_within_a_tick_after_it(loop: SimLoop) -> None:
    async def main() -> None:
        delayed, chance = DelayedOperations(), random.Random(1)
        parked: list[tuple[float, Operation]] = []
        for number in range(2_000):
            await asyncio.sleep(chance.random() * 0.02)
            delay_ms = chance.choice((0, 1, 9, 10, 11, 500, chance.randrange(100_000)))
            parked.append((loop.time() * 1_000 + delay_ms, Operation(number)))
            delayed.park(parked[-1][1], delay_ms)
        await asyncio.sleep(200)
        for due_ms, operation in parked:
            assert operation.expired_at is not None
            assert -1e-6 <= operation.expired_at * 1_000 - due_ms <= TICK_MS + 1e-6
        assert delayed.expired == {"Test": 2_000}
        assert delayed.parked == {"Test": 0}

    loop.run_until_complete(main())


@pytest.mark.parametrize("name", LOOPS)
def test_no_loop_lets_an_operation_expire_early(name: str) -> None:
    async def main() -> None:
        delayed, loop = DelayedOperations(), asyncio.get_running_loop()
        parked = [(loop.time() + number / 1_000, Operation(number)) for number in range(100)]
        for number, (_, operation) in enumerate(parked):
            delayed.park(operation, number)
        while delayed.parked["Test"]:
            await asyncio.sleep(0.01)
        # uvloop's clock counts whole milliseconds.
        assert all(due - 0.0011 <= (operation.expired_at or 0) for due, operation in parked)

    run_on(name, main())


def test_a_shorter_wait_is_not_held_up_by_a_longer_one(loop: SimLoop) -> None:
    async def main() -> None:
        delayed = DelayedOperations()
        waits_ms = (5_000, 100, 2_000, 10, 60_000)
        operations = [Operation() for _ in waits_ms]
        for operation, wait_ms in zip(operations, waits_ms):
            delayed.park(operation, wait_ms)
        await asyncio.sleep(100)
        assert [operation.expired_at for operation in operations] == [5, 0.1, 2, 0.01, 60]

    loop.run_until_complete(main())


def test_what_left_does_not_expire_and_may_wait_again(loop: SimLoop) -> None:
    async def main() -> None:
        delayed, operation = DelayedOperations(), Operation()
        delayed.park(operation, 100)
        assert delayed.parked["Test"] == 1
        delayed.cancel(operation)
        delayed.cancel(operation)
        await asyncio.sleep(1)
        assert operation.expired_at is None
        assert delayed.parked["Test"] == 0
        delayed.park(operation, 100)
        await asyncio.sleep(1)
        assert operation.expired_at == pytest.approx(1.1)

    loop.run_until_complete(main())


def test_an_operation_that_expires_may_end_and_park_others(loop: SimLoop) -> None:
    async def main() -> None:
        delayed = DelayedOperations()
        victim, follower = Operation(), Operation()

        class Unkind(Operation):
            __slots__ = ()

            def expire(self) -> None:
                super().expire()
                delayed.cancel(victim)
                delayed.park(follower, 50)

        delayed.park(Unkind(), 100)
        delayed.park(victim, 100)
        await asyncio.sleep(1)
        assert victim.expired_at is None
        assert follower.expired_at == pytest.approx(0.15)

    loop.run_until_complete(main())


def test_kinds_are_counted_apart(loop: SimLoop) -> None:
    async def main() -> None:
        delayed = DelayedOperations()
        others = [OtherOperation() for _ in range(3)]
        for operation in (Operation(), *others):
            delayed.park(operation, 100)
        delayed.cancel(others[0])
        assert delayed.parked == {"Test": 1, "Other": 2}
        await asyncio.sleep(1)
        assert delayed.parked == {"Test": 0, "Other": 0}
        assert delayed.expired == {"Test": 1, "Other": 2}

    loop.run_until_complete(main())


def test_closing_ends_all_in_the_order_of_their_times_and_what_comes_later(loop: SimLoop) -> None:
    async def main() -> None:
        delayed, ended = DelayedOperations(), []

        class Noted(Operation):
            __slots__ = ()

            def expire(self) -> None:
                ended.append(self.number)

        for number, wait_ms in enumerate((900, 100, 500)):
            delayed.park(Noted(number), wait_ms)
        delayed.close()
        assert ended == [1, 2, 0]
        delayed.park(Noted(3), 100)
        assert ended == [1, 2, 0, 3]
        await asyncio.sleep(10)
        assert ended == [1, 2, 0, 3]

    loop.run_until_complete(main())


class CountingLoop(SimLoop):
    """How often a timer was set."""

    timers = 0

    def call_at_ns(
        self, when_ns: int, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> SimTimerHandle:
        self.timers += 1
        return super().call_at_ns(when_ns, callback, *args, context=context)


def test_many_operations_share_one_timer_and_idle_for_nothing() -> None:
    loop = CountingLoop()

    async def main() -> None:
        delayed = DelayedOperations()
        operations = [Operation(number) for number in range(MANY)]
        for operation in operations:
            delayed.park(operation, 30_000)
        assert loop.timers == 1
        assert delayed.parked["Test"] == MANY
        for operation in operations[::2]:
            delayed.cancel(operation)
        await asyncio.sleep(29.9)
        assert delayed.expired["Test"] == 0
        await asyncio.sleep(1)
        assert delayed.expired["Test"] == MANY // 2
        # Two sleeps of this test, and the one timer.
        assert loop.timers == 3

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_waits_of_every_length_that_are_cut_short_leave_nothing_behind(loop: SimLoop) -> None:
    async def main() -> None:
        delayed, chance = DelayedOperations(), random.Random(2)
        staying = Operation()
        delayed.park(staying, 2**31 - 1)
        for _ in range(20_000):
            operation = Operation()
            delayed.park(operation, chance.randrange(2**31))
            delayed.cancel(operation)
        assert len(delayed._buckets) <= 2 * PRUNE_ABOVE
        assert len(delayed._ticks) == len(delayed._buckets)
        await asyncio.sleep((2**31 + TICK_MS) / 1_000)
        assert staying.expired_at is not None
        assert not delayed._buckets

    loop.run_until_complete(main())


def test_parking_and_leaving_cost_the_same_however_many_wait() -> None:
    async def main() -> tuple[float, float]:
        delayed, chance = DelayedOperations(), random.Random(3)
        operations = [Operation(number) for number in range(MANY)]
        chance.shuffle(operations)

        def seconds_for(some: list[Operation]) -> float:
            started = time.perf_counter()
            for operation in some:
                delayed.park(operation, 600_000 + operation.number % 1_000)
            for operation in some[::-1]:
                delayed.cancel(operation)
                delayed.park(operation, 600_000)
            return time.perf_counter() - started

        few = min(seconds_for(operations[start : start + 1_000]) for start in range(0, 5_000, 1_000))
        seconds_for(operations[5_000:-5_000])
        last = min(seconds_for(operations[start : start + 1_000]) for start in range(MANY - 5_000, MANY, 1_000))
        return few, last

    few, last = asyncio.run(main())
    assert last < 10 * few
