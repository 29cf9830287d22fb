"""Whole runs of the user's code, a broker and its clients on one loop in virtual time, decided by a seed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from levada.node import node_settings
from levada.node.development import DEVELOPMENT
from levada.node.settings import NodeSettings
from levada.sim import SimDeadlock, Simulation
from levada.sim.world import DATA_DIRECTORY
from levada.testing.cluster import APP, BROKER, PORT, Cluster
from levada.testing.faults import NO_FAULTS, Faults
from levada.testing.logs import never_print_logs
from levada.testing.nemesis import Nemesis
from levada.testing.settings import dotted

T = TypeVar("T")

__tracebackhide__ = True

LIMIT_SECONDS = 3_600.0
LOOK_SECONDS = 10.0
"""How often it is checked that something can still happen."""

SIMULATED_DEFAULTS = {**DEVELOPMENT, "log.index.size.max.bytes": "4096"}
"""Files are kept in memory, at their full size."""


@dataclass(frozen=True, slots=True)
class Report(Generic[T]):
    """What a run did; equal for equal apps, seeds and faults."""

    seed: int
    result: T
    """What the app returned."""
    virtual_seconds: float
    faults: Mapping[str, int]
    """How often each kind of fault came."""
    digest: str
    """A hash over every message, every disk operation and their times."""
    trace: tuple[str, ...] = ()
    """All of these as text, if the run was recorded."""

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.virtual_seconds:.3f} virtual s, {_told(self.faults)}, trace {self.digest}"


def simulate(
    app: Callable[[Cluster], Awaitable[T]],
    *,
    seed: int = 0,
    faults: Faults = NO_FAULTS,
    settings: Mapping[str, object] | None = None,
    limit: float = LIMIT_SECONDS,
    recording: bool = False,
) -> Report[T]:
    """Run `await app(cluster)` with a simulated broker, in virtual time; the same seed does the same again.

    >>> async def app(cluster):
    ...     await cluster.produce("orders", ["first"])
    ...     await asyncio.sleep(100)
    ...     return [record.value for record in await cluster.records("orders")]
    >>> simulate(app, seed=7, faults=Faults(crash=1)).result
    [b'first']

    What the app raises is raised here, with a note that says how to have the same run again. SimTimeout after `limit`
    virtual seconds; SimDeadlock when the app waits for something that cannot happen any more.
    """
    _refuse_running_loop()
    never_print_logs()
    node = _settings(settings)
    with Simulation(seed, recording=recording) as simulation, _seeded(seed):
        run = _Run(simulation, node, faults)
        try:
            result = simulation.run(run.main(app), limit_ms=round(limit * 1_000))
        except Exception as error:
            error.add_note(run.note(app, seed, settings))
            raise
        trace = tuple(simulation.trace.lines or ())
        seconds = simulation.loop.time()
        return Report(seed, result, seconds, dict(sorted(run.counts.items())), simulation.trace.digest(), trace)


def simulate_many(
    app: Callable[[Cluster], Awaitable[T]],
    seeds: Iterable[int],
    *,
    faults: Faults = NO_FAULTS,
    settings: Mapping[str, object] | None = None,
    limit: float = LIMIT_SECONDS,
) -> list[Report[T]]:
    """One run for each seed; the first that fails raises, and its note names the seed."""
    return [simulate(app, seed=seed, faults=faults, settings=settings, limit=limit) for seed in seeds]


class _Run:
    def __init__(self, simulation: Simulation, settings: NodeSettings, faults: Faults) -> None:
        self._simulation = simulation
        self._settings = settings
        self._faults = faults
        self._nemesis: Nemesis | None = None
        self._cluster: Cluster | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        return {} if self._nemesis is None else self._nemesis.counts

    async def main(self, app: Callable[[Cluster], Awaitable[T]]) -> T:
        """In no process: the app, or a process that fails, gives the verdict."""
        simulation = self._simulation
        verdict: asyncio.Future[T] = simulation.loop.create_future()
        cluster = self._cluster = Cluster(simulation, self._settings, verdict)
        self._nemesis = Nemesis(simulation, cluster, self._faults)
        self._nemesis.begin()
        outcome = simulation.spawn(APP, cluster.run(app))  # type: ignore[arg-type]
        outcome.add_done_callback(lambda done: _settle(verdict, done))
        watching = simulation.loop.create_task(self._watch(cluster, verdict))
        try:
            return await verdict
        finally:
            watching.cancel()
            self._nemesis.end()

    async def _watch(self, cluster: Cluster, verdict: "asyncio.Future[Any]") -> None:
        """The broker always has timers. An app whose processes have none, and are not away, waits for ever."""
        looks_in_vain = 0
        while not verdict.done():
            await asyncio.sleep(LOOK_SECONDS)
            waiting = [name for name, service in cluster.services.items() if not service.is_done]
            can_go_on = self._has_timers() or not all(map(cluster.is_alive, waiting))
            # Once may be the very instant in which the app ends.
            looks_in_vain = 0 if can_go_on else looks_in_vain + 1
            if looks_in_vain > 1 and not verdict.done():
                pending = "\n".join(self._pending())
                verdict.set_exception(SimDeadlock(f"the app waits for what cannot happen any more:\n{pending}"))

    def _has_timers(self) -> bool:
        """Whether any process but the broker's will do something by itself: a client always gives up some day."""
        scheduled = [handle for _, _, handle in self._simulation.loop._timers]
        for handle in (*scheduled, *self._simulation.loop._ready):
            owner = handle.incarnation
            if owner is not None and owner.alive and owner.host != BROKER and not handle.cancelled():
                return True
        return False

    def _pending(self) -> list[str]:
        tasks = [task for task in self._simulation.loop._tasks.values() if not task.done() and not task.is_dead()]
        return [repr(task) for task in tasks if task.incarnation is not None and task.incarnation.host != BROKER]

    def note(self, app: Callable[..., Any], seed: int, settings: Mapping[str, object] | None) -> str:
        name = getattr(app, "__qualname__", repr(app))
        arguments = [name, f"seed={seed}"]
        if self._faults != NO_FAULTS:
            arguments.append(f"faults={self._faults!r}")
        if settings:
            arguments.append(f"settings={dict(settings)!r}")
        return f"{_told(self.counts)}; the same run again: simulate({', '.join(arguments)})"


def _settings(settings: Mapping[str, object] | None) -> NodeSettings:
    own = {"listeners": f"PLAINTEXT://{BROKER}:{PORT}", "log.dirs": DATA_DIRECTORY, "node.id": "1"}
    return node_settings({**SIMULATED_DEFAULTS, **dotted(settings, {}), **own})


def _settle(verdict: "asyncio.Future[T]", done: "asyncio.Future[T]") -> None:
    if verdict.done() or done.cancelled():
        return
    error = done.exception()
    if error is None:
        verdict.set_result(done.result())
    else:
        verdict.set_exception(error)


def _told(faults: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(faults.items())) or "no faults"


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("simulate() has a loop of its own: call it from a plain function, not from a coroutine")


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The functions of `random` are a part of the run while it lasts."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
