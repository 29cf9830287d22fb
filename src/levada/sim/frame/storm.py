"""Actors that start, stop, stand still and die while disk, links and broker fail under them; then all must settle."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import ClassVar, Generic

from levada.sim.checkers import CheckFailed
from levada.sim.frame.faults import BROKER, LinkFault, Links
from levada.sim.frame.role import A, Make, Role
from levada.sim.frame.scenario import PORT, Scenario
from levada.sim.world import Simulation

APPEND_ERROR_RATE = 0.1
END_LOOK_SECONDS = 0.2

Action = tuple[int, Callable[[], None]]
"""How often it is chosen among others, and what it does."""


class Storm(Scenario, Generic[A]):
    """A scenario of steps: in each, one action by the seed."""

    steps: ClassVar[int]
    step_seconds: ClassVar[float] = 1.0
    """The longest time between two steps."""
    actor_purpose: ClassVar[str]
    """Names the generators of the actors."""
    link_faults: ClassVar[tuple[LinkFault, ...]]
    longest_pause_seconds: ClassVar[float]
    spare_bytes: ClassVar[int] = 0
    """Less than this is free on a disk that fills up."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.links = Links(simulation, self.chance)
        self.roles: list[Role[A]] = []
        self.started = 0
        self.is_blowing = False
        self.is_disk_hurt = False
        """Logs may be offline since the broker was started, and stay so until it is started again."""

    # What a storm is made of

    @abstractmethod
    def actions(self) -> list[Action]: ...

    async def interrupt(self, step: int) -> bool:
        """Called before each action; True if something was done in its place."""
        return False

    def startable(self) -> list[Role[A]]:
        """Roles of which one more actor may be started."""
        return [role for role in self.roles if role.free]

    def hosts(self) -> list[str]:
        """All whose links may be disturbed."""
        return [host for role in self.roles for host in role.actors]

    # Running

    async def blow(self) -> None:
        actions = self.actions()
        weights = [weight for weight, _ in actions]
        self.is_blowing = True
        for step in range(self.steps):
            await self.pass_time(self.chance.random() * self.step_seconds)
            if not await self.interrupt(step):
                self.chance.choices(actions, weights)[0][1]()
        self.is_blowing = False

    def running(self) -> Iterator["asyncio.Future[None]"]:
        yield from super().running()
        for role in self.roles:
            yield from role.running.values()

    def check_actors(self) -> None:
        super().check_actors()
        for role in self.roles:
            for host, running in role.running.items():
                assert role.actors[host].is_over or not running.done()

    async def restart_broker(self) -> None:
        self.is_disk_hurt = False
        await super().restart_broker()

    async def settle(
        self, reasons: Callable[[], Awaitable[Sequence[str]]], *, limit_seconds: float, look_seconds: float
    ) -> None:
        """Wait until there is no reason any more why not all is at rest."""
        deadline_s = self.now_s + limit_seconds
        while found := await reasons():
            if self.now_s > deadline_s:
                raise CheckFailed(f"not at rest after {limit_seconds} s: {'; '.join(found)}")
            await self.pass_time(look_seconds)

    async def wait_for_end(
        self, roles: Sequence[Role[A]], limit_seconds: float, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Actors that were told to stop do so before long."""
        deadline_s = self.now_s + limit_seconds
        while living := [host for role in roles for host in role.living]:
            if self.now_s > deadline_s:
                raise CheckFailed(f"{living} do not come to an end in {limit_seconds} s")
            await self.pass_time(END_LOOK_SECONDS)
            meanwhile()

    # Actors

    def start_first(self) -> None:
        for role in self.roles:
            for host in role.free[: role.first]:
                self.start(role, host)

    def start(self, role: Role[A], host: str, make: Make[A] | None = None) -> None:
        """A new process on a host where none lives."""
        if self.simulation.machine(host).processes:
            self.simulation.crash(host, power_loss=False)
        self.started += 1
        name = f"{host}#{self.started}"
        chance = self.simulation.chance(self.actor_purpose, name)
        actor = (make or role.make)(name, self.simulation.world(host), chance)
        role.actors[host] = actor
        role.running[host] = self.simulation.spawn(host, actor.run())

    def pick(self) -> tuple[str, A] | None:
        """A living actor and its host, if the role that is chosen has one."""
        role = self.chance.choice(self.roles)
        if not role.living:
            return None
        host = self.chance.choice(role.living)
        return host, role.actors[host]

    def start_one(self) -> None:
        roles = self.startable()
        if roles:
            role = self.chance.choice(roles)
            if role.free:
                self.start(role, self.chance.choice(role.free))

    def stop_one(self) -> None:
        if picked := self.pick():
            picked[1].must_stop = True

    def pause_one(self) -> None:
        if picked := self.pick():
            picked[1].pause_seconds = self.chance.random() * self.longest_pause_seconds

    def kill_one(self) -> None:
        """Without a word, and without power not even with a reset."""
        if picked := self.pick():
            host, actor = picked
            self.simulation.crash(host, power_loss=self.chance.random() < 0.5)
            actor.die()

    # The world around them

    def disturb_link(self) -> None:
        if picked := self.pick():
            self.links.disturb(picked[0], self.link_faults)

    def disturb_disk(self) -> None:
        if not self.simulation.network.is_served(BROKER, PORT):
            # A node that cannot write may refuse to start.
            return
        self.is_disk_hurt = True
        if self.chance.random() < 0.5:
            self.disk.fill(self.chance.randrange(self.spare_bytes))
        else:
            self.disk.fail_appends(APPEND_ERROR_RATE)

    def calm(self) -> None:
        """All faults end; a dead process stays dead."""
        self.disk.calm()
        self.links.heal_all(self.hosts())
