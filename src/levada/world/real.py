"""The real world: the machine's clock, chance, files, sockets and processes, and the event loop to run on."""

import asyncio
import gc
import os
import random
import resource
import time
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import TypeVar

from levada.world.real_async_disk import RealAsyncDisk
from levada.world.real_disk import RealDisk
from levada.world.real_net import RealNet
from levada.world.real_workers import RealWorkers
from levada.world.world import ClientWorld, World

try:
    import uvloop
except ImportError:
    _uvloop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    _loop_name = "asyncio"
else:
    _uvloop_factory = uvloop.new_event_loop
    _loop_name = "uvloop"

T = TypeVar("T")


@cache
def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


class RealClock:
    is_system_time = True
    """Compiled code may read the time itself instead of asking here."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.clock_gettime_ns(_MONOTONIC) // 1_000_000

    def awake_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    boot_id = staticmethod(boot_id)

    # Not a method around it: dispatch asks twice a request.
    perf_ns = staticmethod(time.perf_counter_ns)


# CLOCK_MONOTONIC stands still while the machine sleeps, and a lease must not; macOS has no BOOTTIME, but its
# MONOTONIC counts sleep.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class RealEntropy:
    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def random_bytes(self, size: int) -> bytes:
        return os.urandom(size)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


ROOM_TO_KEEP = 8 << 20


@cache
def keep_freed_memory() -> None:
    """Have the C library keep what is freed for what comes next, up to some megabytes.

    glibc gives the end of its heap back to the kernel as soon as 128 KiB are free there, only to ask for it again a
    moment later, and each page then costs more than to copy what goes into it. A large block that is freed teaches it
    to keep up to twice as much (`mallopt(3)`, M_TRIM_THRESHOLD); this one is never touched, so it costs nothing.
    """
    bytes(ROOM_TO_KEEP)


def spare_garbage_collector() -> None:
    """What is there when a broker has started stays: to look through all of it again and again would hold the loop."""
    gc.collect()
    gc.freeze()
    # Young objects die by their counts nearly always; few are in cycles, and those can wait. What one look goes
    # through is bounded by the first two numbers: the elements of a large request, 60,000 of them, took it 56 ms.
    gc.set_threshold(10_000, 1, 6_000)


UNLIMITED_FILES = 1 << 20
"""What Linux allows at most unless it is told otherwise."""


def open_files_allowed() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED_FILES if soft == resource.RLIM_INFINITY else soft


def allow_open_files() -> int:
    """Let this process have as many open files as it may have at all, as Java does for Apache's broker; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNLIMITED_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            # The kernel may have a limit of its own, below this one.
            return soft
    return open_files_allowed()


def real_world(worker_limit: int = 1) -> World:
    keep_freed_memory()
    return World(
        clock=RealClock(),
        entropy=RealEntropy(),
        disk=RealDisk(),
        async_disk=RealAsyncDisk(),
        net=RealNet(),
        workers=RealWorkers(worker_limit),
    )


def real_client_world() -> ClientWorld:
    keep_freed_memory()
    return ClientWorld(clock=RealClock(), entropy=RealEntropy(), net=RealNet(), is_real=True)


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop for a thread of one's own: uvloop's, or asyncio's where uvloop is not installed."""
    return asyncio.new_event_loop() if _uvloop_factory is None else _uvloop_factory()


def loop_name() -> str:
    """The event loop that `run` uses, for the start line of a log."""
    return _loop_name


def run(main: Coroutine[object, object, T]) -> T:
    """Run `main` to its end on uvloop, or on asyncio where uvloop is not installed."""
    with asyncio.Runner(loop_factory=_uvloop_factory) as runner:
        return runner.run(main)
