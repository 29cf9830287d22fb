"""Tells which call held the event loop for too long, and where in the code it was."""

import asyncio
import gc
import logging
import sys
import threading
import time
from dataclasses import dataclass
from itertools import accumulate, repeat, takewhile
from types import FrameType
from typing import Final

logger = logging.getLogger(__name__)

NANOSECONDS_PER_MS: Final = 1_000_000
LOOKS_PER_LIMIT: Final = 10
"""How often the loop is looked at within the time that a call may take."""
FRAMES_TOLD: Final = 6
LOOPS: Final = ("asyncio.base_events", "asyncio.runners")
"""Whose calls are the loop itself; uvloop has none that could be seen."""


@dataclass(slots=True)
class Seen:
    """A call of the loop that was met in several looks: from when to when, and the processor's time at both."""

    frame: FrameType | None
    turn: int
    first_ns: int
    first_cpu_ns: int
    last_ns: int
    last_cpu_ns: int
    place: str


class LoopWatch:
    """A thread looks at the loop's stack again and again; a timer of the loop tells one of its turns from the next."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ns = limit_ms * NANOSECONDS_PER_MS
        self._interval_s = limit_ms / LOOKS_PER_LIMIT / 1_000
        self._turn = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = threading.Event()
        self._thread_id = 0

    def start(self) -> None:
        """From within the loop that is to be watched; with a limit of 0 it is not."""
        if not self._limit_ns:
            return
        self._thread_id = threading.get_ident()
        self._tick()
        threading.Thread(target=self._look_on, name="levada-loop-watch", daemon=True).start()

    def stop(self) -> None:
        self._is_over.set()
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._turn += 1
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def _look_on(self) -> None:
        clock = time.pthread_getcpuclockid(self._thread_id)
        seen: Seen | None = None
        turn_before = -1
        turned_ns = turned_cpu_ns = 0
        while not self._is_over.wait(self._interval_s):
            if self._turn != turn_before:
                # It turns. Frames are looked at only where it does not: they change too fast to be safe to follow.
                turn_before = self._turn
                turned_ns, turned_cpu_ns = time.perf_counter_ns(), time.clock_gettime_ns(clock)
                if seen is not None:
                    self._tell(seen)
                    seen = None
                continue
            stack = _stack(self._thread_id)
            # What lies below is the loop itself.
            outermost = stack[-1] if stack else None
            now_ns, cpu_ns, turn = time.perf_counter_ns(), time.clock_gettime_ns(clock), self._turn
            if seen is None or seen.frame is not outermost or seen.turn != turn:
                if seen is not None:
                    self._tell(seen)
                begun = (turned_ns, turned_cpu_ns) if seen is None else (now_ns, cpu_ns)
                seen = Seen(outermost, turn, *begun, now_ns, cpu_ns, "?")
            seen.last_ns, seen.last_cpu_ns = now_ns, cpu_ns
            seen.place = _told(stack)

    def _tell(self, seen: Seen) -> None:
        held_ns = seen.last_ns - seen.first_ns
        if held_ns <= self._limit_ns or seen.frame is None:
            return
        # With what the thread itself has worked: on a busy machine it may just not have had its turn.
        logger.warning(
            "event loop held ms=%d cpu_ms=%d at=%s",
            held_ns // NANOSECONDS_PER_MS,
            (seen.last_cpu_ns - seen.first_cpu_ns) // NANOSECONDS_PER_MS,
            seen.place,
        )


def _stack(thread_id: int) -> list[FrameType]:
    """The calls that the loop has made, the innermost first; none of them while it waits."""
    frames: list[FrameType] = []
    is_collected = gc.isenabled()
    # A frame that the thread leaves meanwhile leads to memory that is freed: nothing here may let the thread go on.
    # One call walks them all, and no collection, which takes long and calls Python, comes in between.
    gc.disable()
    try:
        frames.extend(accumulate(repeat("f_back"), getattr, initial=sys._current_frames()[thread_id]))
    except (AttributeError, KeyError):
        # Below the outermost frame there is None, which has no such attribute.
        pass
    finally:
        if is_collected:
            gc.enable()
    return list(takewhile(_is_of_no_loop, frames))


def _is_of_no_loop(frame: object) -> bool:
    return isinstance(frame, FrameType) and frame.f_globals.get("__name__") not in LOOPS


def _told(stack: list[FrameType]) -> str:
    return "<".join(f"{_module(one)}.{one.f_code.co_name}:{one.f_lineno}" for one in stack[:FRAMES_TOLD]) or "?"


def _module(frame: FrameType) -> str:
    """Generated code has no module; its file says what it was made for, as in `<encode FetchResponse v12>`."""
    return str(frame.f_globals.get("__name__") or frame.f_code.co_filename.strip("<>").replace(" ", "_"))
