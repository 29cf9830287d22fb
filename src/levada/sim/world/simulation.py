"""A whole simulated world from one seed: machines, their processes and doors, crashes, and the run itself."""

import asyncio
import contextlib
import functools
import gc
import importlib
import random
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from levada.sim.world.disk import EPOCH_MS, SimAsyncDisk, SimDisk
from levada.sim.world.filesystem import FileSystem
from levada.sim.world.incarnation import Incarnation
from levada.sim.world.loop import SimLoop
from levada.sim.world.network import SimNet, SimNetwork
from levada.sim.world.seeds import derive
from levada.sim.world.trace import Trace
from levada.world.disk import Disk
from levada.world.workers import WorkerError
from levada.world.world import World

NANOSECONDS_PER_MS: Final = 1_000_000
DATA_DIRECTORY: Final = "/data"
LIMIT_MS: Final = 24 * 3_600_000
WORKER_DELAY_MS: Final = (1, 500)
MANY_OBJECTS: Final = 100_000

T = TypeVar("T")


class HostCrashed(Exception):
    """What the test gets that waits for something a crashed process did."""


@dataclass(slots=True, eq=False)
class _Process:
    incarnation: Incarnation
    # With the task, which nothing else needs to hold while it waits.
    mains: dict[int, tuple["asyncio.Future[Any]", "asyncio.Future[Any]"]] = field(default_factory=dict)
    mains_started: int = 0


@dataclass(slots=True, eq=False)
class Machine:
    """What outlives the processes of a host: its disk, and the clock since it was switched on."""

    host: str
    file_system: FileSystem
    boot_ns: int
    skew_ms: int = 0
    dark: bool = False
    starts: int = 0
    processes: dict[str, _Process] = field(default_factory=dict)


class SimClock:
    def __init__(self, loop: SimLoop, machine: Machine) -> None:
        self._loop = loop
        self._machine = machine

    def now_ms(self) -> int:
        return EPOCH_MS + self._machine.skew_ms + self._loop.now_ns // NANOSECONDS_PER_MS

    def monotonic_ms(self) -> int:
        return (self._loop.now_ns - self._machine.boot_ns) // NANOSECONDS_PER_MS

    def awake_ms(self) -> int:
        return self.monotonic_ms()

    def boot_id(self) -> str:
        return f"{self._machine.host} {self._machine.boot_ns}"

    def perf_ns(self) -> int:
        return self._loop.now_ns


class SimEntropy:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def random_bytes(self, size: int) -> bytes:
        return self._chance.randbytes(size)

    def below(self, bound: int) -> int:
        return self._chance.randrange(bound)


class SimWorkers:
    """Runs a task in the process itself after a delay; it sees the same disk as its node."""

    def __init__(self, disk: Disk, chance: random.Random) -> None:
        self._disk = disk
        self._chance = chance
        self._deaths = 0

    async def run(self, task: str, argument: bytes) -> bytes:
        await asyncio.sleep(self._chance.randint(*WORKER_DELAY_MS) / 1_000)
        if self._deaths:
            self._deaths -= 1
            raise WorkerError(f"the worker of {task} died with exit code -9")
        module_name, _, function_name = task.partition(":")
        try:
            function: Callable[[bytes, Disk], bytes] = getattr(importlib.import_module(module_name), function_name)
            return function(argument, self._disk)
        except Exception as error:
            raise WorkerError(f"{task} raised: {error!r}") from error

    async def compute(self, call: Callable[[], T]) -> T:
        await asyncio.sleep(self._chance.randint(*WORKER_DELAY_MS) / 1_000)
        return call()

    async def close(self) -> None:
        """Nothing outlives a call."""

    def kill_next(self) -> None:
        """Let the next task's worker die instead of answering."""
        self._deaths += 1


class Simulation:
    """One run from one seed. Use it as a context manager: leaving it ends what still waits, unseen.

    A process begins with `world` (doors only) or `start` (doors and a main). Code runs as part of a process when it was
    started by `start` or `spawn`, or when it is called back by that process's doors; `crash` ends all of it at once.
    """

    def __init__(self, seed: int, *, recording: bool = False) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.trace = Trace(lambda: self.loop.now_ns, recording=recording)
        self.network = SimNetwork(self.loop, self.trace, self.chance("network"))
        self._machines: dict[str, Machine] = {}

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        for machine in self._machines.values():
            for process in machine.processes.values():
                process.incarnation.alive = False
        self.loop.close()

    def chance(self, *purpose: str) -> random.Random:
        """A generator for one purpose: a workload's choices, a nemesis."""
        return derive(self.seed, *purpose)

    def run(self, main: Coroutine[Any, Any, T], *, limit_ms: int = LIMIT_MS) -> T:
        """Run `main`, the test itself, in no process; fail if anything failed unseen or virtual time runs out."""
        self.loop.limit_ns = self.loop.now_ns + limit_ms * NANOSECONDS_PER_MS
        try:
            with _garbage_of_this_run():
                result = self.loop.run_until_complete(main)
            self.loop.check_failures()
        except Exception as error:
            error.add_note(f"simulation seed {self.seed}, virtual time {self.loop.time():.3f} s")
            raise
        return result

    def machine(self, host: str) -> Machine:
        """A host's disk (`file_system`: faults, capacity) and clock (`skew_ms`)."""
        if host not in self._machines:
            chance = self.chance("machine", host)
            uptime_ns = chance.randrange(10**6) * NANOSECONDS_PER_MS
            file_system = FileSystem(self.chance("disk", host), directories=(DATA_DIRECTORY,))
            self._machines[host] = Machine(host, file_system, self.loop.now_ns - uptime_ns)
        return self._machines[host]

    def world(self, host: str, *, process: str = "") -> World:
        """The doors of a new process on a host; the one before of the same name must be dead."""
        machine = self.machine(host)
        if process in machine.processes:
            raise ValueError(f"{machine.processes[process].incarnation} is alive: crash it first")
        if machine.dark:
            machine.dark = False
            machine.boot_ns = self.loop.now_ns
            self.network.power_on(host)
        machine.starts += 1
        incarnation = Incarnation(host, process, machine.starts)
        machine.processes[process] = _Process(incarnation)
        self.trace.note(f"start {incarnation}")
        chance = functools.partial(self.chance, repr(incarnation))
        disk = SimDisk(machine.file_system, incarnation, self.trace, chance("warm"))
        return World(
            clock=SimClock(self.loop, machine),
            entropy=SimEntropy(chance("entropy")),
            disk=disk,
            async_disk=SimAsyncDisk(disk, chance("async disk")),
            net=SimNet(self.network, incarnation),
            workers=SimWorkers(disk, chance("workers")),
        )

    def spawn(self, host: str, main: Coroutine[Any, Any, T], *, process: str = "") -> "asyncio.Future[T]":
        """Run `main` as part of the process that lives on `host`; the future raises HostCrashed when that dies."""
        owner = self._machines[host].processes[process]
        # In no process's context, so that the caller that waits for it hears of the crash.
        outcome: asyncio.Future[T] = Context().run(self.loop.create_future)
        task = self.loop.create_task(main, name=f"{owner.incarnation} main", context=owner.incarnation.context())
        owner.mains_started += 1
        number = owner.mains_started
        owner.mains[number] = (outcome, task)

        def settle(task: "asyncio.Future[T]") -> None:
            if owner.mains.pop(number, None) is not None and not outcome.done():
                _copy_outcome(task, outcome)

        task.add_done_callback(settle, context=Context())
        return outcome

    def start(
        self, host: str, main: Callable[[World], Coroutine[Any, Any, T]], *, process: str = ""
    ) -> "asyncio.Future[T]":
        """A new process on a host that runs `main(world)`."""
        return self.spawn(host, main(self.world(host, process=process)), process=process)

    def crash(self, host: str, *, power_loss: bool, process: str | None = None) -> None:
        """Kill a host's processes, or one of them, now. Only what they wrote stays; without power, what they synced."""
        assert not (power_loss and process is not None), "power goes from the whole machine"
        machine = self.machine(host)
        self.trace.note(f"crash {host} {process or ''} power_loss={power_loss}")
        names = list(machine.processes) if process is None else [process]
        dead = [machine.processes.pop(name) for name in names]
        # All first: no process may see the others die while it dies itself.
        for each in dead:
            self.loop.kill(each.incarnation)
        for each in dead:
            self.network.crash(each.incarnation, power_loss=power_loss)
            machine.file_system.release_locks(each.incarnation)
            for outcome, _ in each.mains.values():
                _fail_with_crash(outcome, each.incarnation)
            each.mains.clear()
        if power_loss:
            machine.dark = True
            machine.file_system.lose_power()

    def crash_at(self, host: str, *, disk_operations: int, power_loss: bool, process: str | None = None) -> None:
        """Crash a host, or one process, in the middle of its code: before its disk operation after so many more."""
        crash = functools.partial(self.crash, host, power_loss=power_loss, process=process)
        self.machine(host).file_system.faults.crash_at(disk_operations, crash, process)

    def pause(self, host: str, *, process: str = "") -> None:
        """As by SIGSTOP: nothing of a process runs, while its connections stay open and its clocks go on."""
        incarnation = self.machine(host).processes[process].incarnation
        assert not incarnation.paused, f"{incarnation} is paused already"
        self.trace.note(f"pause {incarnation}")
        self.loop.pause(incarnation)

    def resume(self, host: str, *, process: str = "") -> None:
        """As by SIGCONT: what came for the process meanwhile, and its timers, are there at once."""
        incarnation = self.machine(host).processes[process].incarnation
        self.trace.note(f"resume {incarnation}")
        self.loop.resume(incarnation)

    def is_paused(self, host: str, *, process: str = "") -> bool:
        found = self.machine(host).processes.get(process)
        return found is not None and found.incarnation.paused


def _copy_outcome(task: "asyncio.Future[T]", outcome: "asyncio.Future[T]") -> None:
    if task.cancelled():
        outcome.cancel()
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


def _fail_with_crash(outcome: "asyncio.Future[Any]", incarnation: Incarnation) -> None:
    if not outcome.done():
        outcome.set_exception(HostCrashed(repr(incarnation)))
        # No caller has to wait for a process that was meant to die.
        outcome.exception()


_left_over = 0
"""How many objects the runs before have left behind when they ended; nearly all are in cycles."""


@contextlib.contextmanager
def _garbage_of_this_run() -> Iterator[None]:
    """Collect the cycles of the run when it ends, for failed tasks caught in them, and no older ones.

    The collector, off while they run, would never come to what many runs leave: that goes before the next begins.
    """
    global _left_over
    if _left_over > MANY_OBJECTS:
        gc.collect()
        _left_over = 0
    gc.freeze()
    try:
        yield
        gc.collect()
        _left_over += len(gc.get_objects())
    finally:
        gc.unfreeze()
