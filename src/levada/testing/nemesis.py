"""Lets things go wrong in a simulated run, as its Faults say and its seed decides."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context

from levada.sim import Simulation
from levada.sim.world.links import LATENCY_US
from levada.testing.cluster import APP, BROKER, Cluster
from levada.testing.faults import KINDS, Faults, Kind

SECONDS_PER_MINUTE = 60
LATE_US = (50_000, 900_000)
FAILING_WRITES = 0.3
IN_THE_MIDDLE = 0.5
"""How many crashes of the broker come between two operations on its disk."""
OPERATIONS = 40


class Nemesis:
    def __init__(self, simulation: Simulation, cluster: Cluster, faults: Faults) -> None:
        self.counts: Counter[str] = Counter()
        """What has gone wrong so far, by kind."""
        self._simulation = simulation
        self._cluster = cluster
        self._faults = faults
        self._chance = simulation.chance("faults")
        self._machine = simulation.machine(BROKER)
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        self._actions: dict[Kind, Callable[[str | None], None]] = {
            "crash": lambda _: self._crash(power_loss=False),
            "power_loss": lambda _: self._crash(power_loss=True),
            "kill": self._kill,
            "cut": self._cut,
            "reset": self._reset,
            "drop": self._drop,
            "delay": self._delay,
            "disk_errors": lambda _: self._fail_writes(),
        }
        cluster.away_seconds = self._while
        cluster.on_crash = self._note_crash
        cluster.on_calm = self.end

    def begin(self) -> None:
        loop = self._simulation.loop
        for kind in KINDS:
            if self._faults.rate(kind):
                self._tasks.append(loop.create_task(self._strike_by_chance(kind), context=Context()))
        for step in self._faults.steps:
            loop.call_at(step.at, self._strike, step.kind, step.target, context=Context())

    def end(self) -> None:
        """No more, and what was ordered is called off."""
        self._is_over = True
        for task in self._tasks:
            task.cancel()
        self._machine.file_system.faults.call_off()
        self._end_write_errors()
        for host in self._hosts():
            self._end_delay(host)

    async def _strike_by_chance(self, kind: Kind) -> None:
        # Each kind draws from a source of its own: one more fault here moves none there.
        chance = self._simulation.chance("faults", kind)
        while True:
            await asyncio.sleep(chance.expovariate(self._faults.rate(kind) / SECONDS_PER_MINUTE))
            self._strike(kind, None)

    def _strike(self, kind: Kind, target: str | None) -> None:
        if not self._is_over:
            self._actions[kind](target)

    def _while(self) -> float:
        return self._chance.uniform(*self._faults.lasting)

    def _later(self, action: Callable[[], None]) -> None:
        self._simulation.loop.call_later(self._while(), action, context=Context())

    def _hosts(self) -> list[str]:
        return [APP, *self._cluster.services]

    def _pick(self, target: str | None) -> str:
        return self._chance.choice(self._hosts()) if target is None else target

    # Processes

    def _crash(self, *, power_loss: bool) -> None:
        if not self._cluster.is_alive(BROKER):
            return
        if self._chance.random() < IN_THE_MIDDLE:
            operations = self._chance.randrange(OPERATIONS)
            self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)
        else:
            self._simulation.crash(BROKER, power_loss=power_loss)

    def _kill(self, target: str | None) -> None:
        living = [name for name in self._cluster.services if self._cluster.is_alive(name)]
        if target is not None:
            self._cluster.kill(target)
        elif living:
            self._cluster.kill(self._chance.choice(living))

    def _note_crash(self, name: str) -> None:
        self.counts["crash" if name == BROKER else "kill"] += 1

    # Links

    def _cut(self, target: str | None) -> None:
        host = self._pick(target)
        self.counts["cut"] += 1
        self._simulation.network.partition(BROKER, host)
        self._later(lambda: self._simulation.network.heal(BROKER, host))

    def _reset(self, target: str | None) -> None:
        self.counts["reset"] += 1
        self._simulation.network.reset(BROKER, self._pick(target))

    def _drop(self, target: str | None) -> None:
        host, network = self._pick(target), self._simulation.network

        def break_and_heal() -> None:
            network.reset(BROKER, host)
            network.heal(BROKER, host)

        self.counts["drop"] += 1
        network.partition(BROKER, host, one_way=True)
        self._later(break_and_heal)

    def _delay(self, target: str | None) -> None:
        host = self._pick(target)
        self.counts["delay"] += 1
        for link in (self._simulation.network.link(host, BROKER), self._simulation.network.link(BROKER, host)):
            link.latency_us = LATE_US
        self._later(lambda: self._end_delay(host))

    def _end_delay(self, host: str) -> None:
        for link in (self._simulation.network.link(host, BROKER), self._simulation.network.link(BROKER, host)):
            link.latency_us = LATENCY_US

    # The disk

    def _fail_writes(self) -> None:
        self.counts["disk_errors"] += 1
        self._machine.file_system.faults.fail_randomly("append", FAILING_WRITES)
        self._later(self._replace_broker)

    def _replace_broker(self) -> None:
        self._end_write_errors()
        self._cluster.crash_broker()

    def _end_write_errors(self) -> None:
        self._machine.file_system.faults.fail_randomly("append", 0.0)
