"""The simulated event loop: virtual time, order, deadlocks, failures, and closed doors."""

import asyncio
import gc
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Iterator

import pytest

from levada.sim import SimDeadlock, SimLivelock, SimTimeout, SimUnhandled
from levada.sim.world import loop as loop_module
from levada.sim.world.closed_doors import LeakAroundDoors
from levada.sim.world.loop import NANOSECONDS, SimLoop


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop()
    yield made
    made.close()


def test_a_day_of_sleep_takes_no_time(loop: SimLoop) -> None:
    started = time.monotonic()
    loop.run_until_complete(asyncio.sleep(86_400))
    assert loop.time() == 86_400
    assert time.monotonic() - started < 1


def test_equal_times_run_in_order_of_scheduling(loop: SimLoop) -> None:
    order: list[int] = []
    for number in range(20):
        loop.call_at(1.0, order.append, number)
    loop.call_at(0.5, order.append, -1)
    loop.call_soon(order.append, -2)
    loop.run_until_complete(asyncio.sleep(2))
    assert order == [-2, -1, *range(20)]


def test_time_has_reached_a_timer_when_it_fires(loop: SimLoop) -> None:
    # Here the product with nanoseconds rounds down to a whole number, so that rounding up changes nothing.
    rounded_down = 719269.7499577691
    assert math.ceil(rounded_down * NANOSECONDS) / NANOSECONDS < rounded_down
    chance = random.Random(1)
    deadlines = [chance.random() * 10 ** chance.randint(-3, 5) for _ in range(2000)]
    reached: list[bool] = []

    def note(deadline: float) -> None:
        reached.append(loop.time() >= deadline)

    for deadline in [*deadlines, rounded_down]:
        loop.call_at(deadline, note, deadline)
    loop.run_until_complete(asyncio.sleep(10**7))
    assert reached == [True] * 2001


def test_a_due_timer_is_not_starved_by_ready_callbacks(loop: SimLoop) -> None:
    async def main() -> int:
        fired = asyncio.Event()
        loop.call_later(0, fired.set)
        rounds = 0
        while not fired.is_set():
            rounds += 1
            await asyncio.sleep(0)
        return rounds

    assert loop.run_until_complete(main()) < 5


def test_what_asyncio_offers_works(loop: SimLoop) -> None:
    async def worker(queue: "asyncio.Queue[int]") -> int:
        return await queue.get()

    async def slow() -> None:
        await asyncio.sleep(100)

    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        tasks = [asyncio.create_task(worker(queue)) for _ in range(3)]
        for number in range(3):
            await queue.put(number)
        assert await asyncio.gather(*tasks) == [0, 1, 2]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow(), 3)
        assert loop.time() == 3
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4):
                await slow()
        assert loop.time() == 7
        assert await asyncio.wait_for(asyncio.sleep(1, "done"), 5) == "done"
        lock, condition, event = asyncio.Lock(), asyncio.Condition(), asyncio.Event()
        loop.call_later(1, event.set)
        async with lock, condition:
            await event.wait()
        cancelled = asyncio.create_task(slow())
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert asyncio.get_running_loop() is loop
        assert loop.is_running()

    loop.run_until_complete(main())
    assert not loop.is_running()


def test_run_forever_ends_at_stop(loop: SimLoop) -> None:
    loop.call_later(5, loop.stop)
    loop.call_later(9, pytest.fail)
    loop.run_forever()
    assert loop.time() == 5


def test_waiting_for_nothing_is_a_deadlock(loop: SimLoop) -> None:
    async def lonely() -> None:
        await loop.create_future()

    async def main() -> None:
        task = asyncio.create_task(lonely())
        loop.call_later(10, pytest.fail).cancel()
        await task

    with pytest.raises(SimDeadlock, match="lonely"):
        loop.run_until_complete(main())
    assert loop.time() == 0


def test_spinning_without_time_is_a_livelock(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CALLBACKS_PER_INSTANT", 100)

    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimLivelock):
        loop.run_until_complete(main())


def test_virtual_time_can_be_limited(loop: SimLoop) -> None:
    async def heartbeat() -> None:
        while True:
            await asyncio.sleep(1)

    loop.limit_ns = 10 * 10**9
    with pytest.raises(SimTimeout, match="heartbeat"):
        loop.run_until_complete(heartbeat())
    assert loop.time() == 10


def test_a_failing_callback_fails_the_run(loop: SimLoop) -> None:
    def fail() -> None:
        raise ValueError("in a callback")

    loop.call_later(1, fail)
    with pytest.raises(SimUnhandled, match="in a callback") as failure:
        loop.run_until_complete(asyncio.sleep(5))
    assert isinstance(failure.value.__cause__, ValueError)
    assert loop.time() == 1


def test_a_task_that_fails_unseen_fails_the_run(loop: SimLoop) -> None:
    async def fail() -> None:
        raise ValueError("in a task")

    kept: list[asyncio.Task[None]] = []

    async def main(keep: bool) -> None:
        task = asyncio.create_task(fail())
        if keep:
            kept.append(task)
        del task
        await asyncio.sleep(1)

    def run_and_look(*, keep: bool) -> None:
        loop.run_until_complete(main(keep))
        # From Python 3.13 on, a dropped task lives as long as its error does, and is found here.
        loop.check_failures()

    with pytest.raises(SimUnhandled, match="in a task"):
        run_and_look(keep=False)
    loop.run_until_complete(main(keep=True))
    with pytest.raises(SimUnhandled, match="in a task"):
        loop.check_failures()
    loop.check_failures()


def test_a_handler_of_the_node_does_not_hide_a_failure(loop: SimLoop) -> None:
    loop.set_exception_handler(lambda _, context: None)
    assert loop.get_exception_handler() is not None
    loop.call_soon(lambda: [][0])
    with pytest.raises(SimUnhandled):
        loop.run_until_complete(asyncio.sleep(1))


def test_the_result_or_error_of_the_main_comes_out(loop: SimLoop) -> None:
    async def fail() -> None:
        raise KeyError("main")

    assert loop.run_until_complete(asyncio.sleep(1, "result")) == "result"
    with pytest.raises(KeyError):
        loop.run_until_complete(fail())
    loop.check_failures()


def test_the_collector_is_off_during_a_run(loop: SimLoop) -> None:
    async def main() -> bool:
        return gc.isenabled()

    assert gc.isenabled()
    assert loop.run_until_complete(main()) is False
    assert gc.isenabled()


def test_dropped_async_generators_are_closed(loop: SimLoop) -> None:
    closed: list[str] = []

    async def numbers(name: str) -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)
            closed.append(name)

    async def main() -> None:
        dropped = numbers("dropped")
        await anext(dropped)
        del dropped
        await asyncio.sleep(2)
        assert closed == ["dropped"]
        held = [numbers("a"), numbers("b")]
        for generator in held:
            await anext(generator)
        await loop.shutdown_asyncgens()
        assert closed == ["dropped", "a", "b"]

    loop.run_until_complete(main())


def test_ways_around_the_doors_are_refused(loop: SimLoop) -> None:
    async def main() -> None:
        ways: list[Callable[[], object]] = [
            lambda: loop.run_in_executor(None, print),
            lambda: loop.create_server(asyncio.Protocol, "localhost", 0),
            lambda: loop.create_connection(asyncio.Protocol, "localhost", 1),
            lambda: loop.add_reader(0, print),
            lambda: loop.call_soon_threadsafe(print),
            lambda: loop.add_signal_handler(15, print),
            lambda: loop.getaddrinfo("localhost", 1),
        ]
        for way in ways:
            with pytest.raises(LeakAroundDoors, match="leaks around the doors"):
                way()
        with pytest.raises(LeakAroundDoors):
            await asyncio.to_thread(print)
        with pytest.raises(LeakAroundDoors):
            await asyncio.open_connection("localhost", 1)
        with pytest.raises(LeakAroundDoors):
            await asyncio.create_subprocess_exec("true")

    loop.run_until_complete(main())


def test_no_method_of_the_loop_is_forgotten() -> None:
    """Whatever asyncio adds must be implemented or refused, not left to NotImplementedError."""
    inherited = [
        name
        for name, method in vars(asyncio.AbstractEventLoop).items()
        if callable(method) and not name.startswith("_") and getattr(SimLoop, name) is method
    ]
    assert inherited == []


def test_a_closed_loop_takes_nothing() -> None:
    loop = SimLoop()
    loop.close()
    assert loop.is_closed()
    with pytest.raises(RuntimeError):
        loop.call_soon(print)
    with pytest.raises(RuntimeError):
        loop.call_later(1, print)


def test_closing_ends_waiting_coroutines_unseen() -> None:
    loop = SimLoop()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            raise ValueError("no caller hears this")

    async def main() -> None:
        kept.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(1)

    kept: list[asyncio.Task[None]] = []
    loop.run_until_complete(main())
    loop.close()
    kept.clear()
    gc.collect()
