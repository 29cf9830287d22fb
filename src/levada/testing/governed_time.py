"""Time that a test can stop and move: the clock and the event loop of an embedded broker read it from one source."""

import asyncio
import heapq
import math
import selectors
import threading
import time
from collections.abc import Callable, Collection
from contextvars import Context
from typing import Any, Final, TypeAlias, TypeVarTuple

from levada.broker.delayed import DelayedOperations
from levada.world.real import boot_id

NANOSECONDS: Final = 1_000_000_000
NANOSECONDS_PER_MS: Final = 1_000_000
TIMER_SLACK_NS: Final = 1_000
"""Time moves so far behind a timer's moment, so that no rounding lets the timer come early."""
STEPS: Final = 500
"""Time moves from one timer to the next, but in no more steps than this: a year of heartbeats would take too long."""

Ts = TypeVarTuple("Ts")
Events: TypeAlias = list[tuple[selectors.SelectorKey, int]]

_BOOTTIME: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class GovernedTime:
    """Runs as the machine's until it is frozen or moved. Changed by the broker's thread alone, read by any."""

    def __init__(self) -> None:
        self._shift_ns = -time.monotonic_ns()
        self._frozen_ns: int | None = None
        self._wall_ns = time.time_ns()
        self._boot_ns = time.clock_gettime_ns(_BOOTTIME)
        # While it is being moved
        self._target_ns: int | None = None
        self._least_step_ns = 0
        self._goes_on_after = False
        self._arrived: threading.Event | None = None

    @property
    def is_frozen(self) -> bool:
        return self._frozen_ns is not None

    @property
    def is_moving(self) -> bool:
        return self._target_ns is not None

    def elapsed_ns(self) -> int:
        """Since this source was made, as far as the broker knows."""
        frozen_ns = self._frozen_ns
        return time.monotonic_ns() + self._shift_ns if frozen_ns is None else frozen_ns

    def now_ms(self) -> int:
        return (self._wall_ns + self.elapsed_ns()) // NANOSECONDS_PER_MS

    def monotonic_ms(self) -> int:
        return (self._boot_ns + self.elapsed_ns()) // NANOSECONDS_PER_MS

    def freeze(self) -> None:
        self._frozen_ns = self.elapsed_ns()

    def resume(self) -> None:
        """Run on from here; nothing that was frozen away is made up for."""
        if self._frozen_ns is not None:
            self._shift_ns = self._frozen_ns - time.monotonic_ns()
            self._frozen_ns = None
        self._arrive()

    def move(self, by_ns: int, arrived: threading.Event) -> None:
        """Begin to move on; `arrived` is set when all that was due by then has run."""
        assert self._target_ns is None, "time is being moved already"
        self._goes_on_after = not self.is_frozen
        self._frozen_ns = self.elapsed_ns()
        self._target_ns = self._frozen_ns + by_ns
        self._least_step_ns = by_ns // STEPS
        self._arrived = arrived

    def sleep_for(self, until_timer: float | None, *, is_busy: bool) -> float | None:
        """How long a loop that has nothing to do may sleep: not at all, when time was moved to its next timer."""
        frozen_ns = self._frozen_ns
        if frozen_ns is None:
            return until_timer
        if self._target_ns is None or is_busy:
            # Only a call from outside, such as the test's or a client's, can bring work.
            return None
        if frozen_ns >= self._target_ns:
            self._arrive()
            return 0.0
        left_ns = self._target_ns - frozen_ns
        timer_ns = left_ns if until_timer is None else math.ceil(until_timer * NANOSECONDS) + TIMER_SLACK_NS
        self._frozen_ns = frozen_ns + min(max(timer_ns, self._least_step_ns), left_ns)
        return 0.0

    def _arrive(self) -> None:
        arrived, self._arrived = self._arrived, None
        self._target_ns = None
        if arrived is not None:
            if self._goes_on_after:
                self.resume()
            arrived.set()


class GovernedClock:
    """The Clock door of a broker whose time is governed."""

    perf_ns = staticmethod(time.perf_counter_ns)

    def __init__(self, governed: GovernedTime) -> None:
        self.now_ms = governed.now_ms
        self.monotonic_ms = governed.monotonic_ms
        self.awake_ms = governed.monotonic_ms

    def boot_id(self) -> str:
        return boot_id()


class GovernedLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with its timers in governed time.

    Long polls are the exception: a client, whose time is real, asked to wait so long, and replies behind that one wait
    with it. So they end in real time, also while time is frozen.

    While time is moved, clients are not heard: how many heartbeats come in meanwhile would depend on the machine.
    """

    def __init__(self, governed: GovernedTime, clients: Collection[int]) -> None:
        super().__init__(_IdleSelector(self._sleep_for, self._heard))
        self._governed = governed
        self._clients = clients
        """The descriptors of their connections."""
        self._helpers_at_work = 0
        self._long_polls: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._long_polls_seen = 0
        # Coarser than floats are far in the future, or a timer that is due now would never be.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._governed.elapsed_ns() / NANOSECONDS

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if not isinstance(getattr(callback, "__self__", None), DelayedOperations):
            return super().call_at(when, callback, *args, context=context)
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        due_ns = time.monotonic_ns() + math.ceil((when - self.time()) * NANOSECONDS)
        self._long_polls_seen += 1
        heapq.heappush(self._long_polls, (due_ns, self._long_polls_seen, handle))
        return handle

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], Any], *args: *Ts) -> "asyncio.Future[Any]":
        future = super().run_in_executor(executor, func, *args)
        self.wait_for(future)
        return future

    def wait_for(self, helper: "asyncio.Future[Any]") -> None:
        """Time does not move while a thread or a process works for the broker."""
        self._helpers_at_work += 1
        helper.add_done_callback(self._helper_is_done)

    def _helper_is_done(self, _: "asyncio.Future[Any]") -> None:
        self._helpers_at_work -= 1

    def _sleep_for(self, until_timer: float | None) -> float | None:
        seconds = self._governed.sleep_for(until_timer, is_busy=self._helpers_at_work > 0)
        if not self._long_polls:
            return seconds
        until_poll = max(self._long_polls[0][0] - time.monotonic_ns(), 0) / NANOSECONDS
        return until_poll if seconds is None else min(seconds, until_poll)

    def _heard(self, ready: Events) -> Events:
        """What of the sockets' news the loop is told."""
        while self._long_polls and self._long_polls[0][0] <= time.monotonic_ns():
            handle = heapq.heappop(self._long_polls)[2]
            self.call_soon(self._end_long_poll, handle)
        return [each for each in ready if each[0].fd not in self._clients] if self._governed.is_moving else ready

    def _end_long_poll(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled():
            handle._run()


class _IdleSelector(selectors.DefaultSelector):
    """Asks how long to sleep whenever its loop has nothing to do, and what to tell it afterwards."""

    def __init__(self, sleep_for: Callable[[float | None], float | None], heard: Callable[[Events], Events]) -> None:
        super().__init__()
        self._sleep_for = sleep_for
        self._heard = heard

    def select(self, timeout: float | None = None) -> Events:
        if timeout is None or timeout > 0:
            timeout = self._sleep_for(timeout)
        return self._heard(super().select(timeout))
