"""Workers on one host whose broker fails and dies, round by round; after each they pause, and all is compared."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Coroutine, Iterable
from enum import Enum, auto
from typing import Any, ClassVar

from levada.sim.frame.faults import BROKER
from levada.sim.frame.scenario import LOOK_SECONDS, Scenario
from levada.sim.world import Simulation
from levada.world.world import World


class RoundFault(Enum):
    NONE = auto()
    FULL_DISK = auto()
    WRITE_ERRORS = auto()
    RESETS = auto()
    PARTITION = auto()


class Turns:
    """Lets workers act one time after another, until they must pause or come to an end."""

    def __init__(self) -> None:
        self.busy = 0
        self._may_act = asyncio.Event()
        self._is_over = False

    async def wait(self) -> bool:
        """For the next turn; False if there is none any more."""
        await self._may_act.wait()
        return not self._is_over

    async def take(self, action: Awaitable[None]) -> None:
        """Act; a pause does not begin before the action has ended."""
        self.busy += 1
        await action
        self.busy -= 1

    def open(self) -> None:
        self._may_act.set()

    def pause(self) -> None:
        self._may_act.clear()

    def end(self) -> None:
        self._is_over = True
        self._may_act.set()


class Rounds(Scenario):
    """A scenario of rounds: work under a fault, a crash, and a comparison of everything while nothing is under way."""

    admin: ClassVar[str] = "client"
    rounds: ClassVar[int]
    faults: ClassVar[tuple[RoundFault, ...]]
    spare_bytes: ClassVar[int]
    """Less than this is free on a full disk."""
    append_error_rate: ClassVar[float]
    pauses: ClassVar[tuple[int, int]]
    """For how many short times a round lasts, at least and at most."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.turns = Turns()

    # What such a scenario is made of

    @abstractmethod
    async def prepare(self) -> None:
        """Before there are workers."""

    @abstractmethod
    def workers(self, world: World) -> Iterable[Coroutine[Any, Any, None]]:
        """Each takes turns until there are none any more."""

    @abstractmethod
    async def check(self) -> None:
        """Compare everything; nothing is under way."""

    @abstractmethod
    def lose_power(self) -> None:
        """What was acknowledged without a flush may be gone."""

    async def crash(self) -> None:
        """End the broker and have it back."""
        await self.crash_once_or_twice()

    def check_end(self) -> None:
        """What must hold when all workers have ended."""

    # Running

    async def play(self) -> None:
        await self.ask(self.prepare())
        for worker in self.workers(self.world):
            self.watched.append(self.simulation.spawn(self.admin, worker))
        for _ in range(self.rounds):
            self.turns.open()
            await self._disturb()
            await self.crash()
            await self.ask(self._check_in_pause())
        self.turns.end()
        for worker_end in self.watched:
            await worker_end
        self.check_end()

    def draw_power_loss(self) -> bool:
        return self.chance.random() < 0.5

    def broker_crashed(self, *, power_loss: bool) -> None:
        if power_loss and self.flush_messages != 1:
            self.lose_power()

    async def _disturb(self) -> None:
        """Let the workers act for a while, with the disk or the network in their way."""
        fault = self.chance.choice(self.faults)
        match fault:
            case RoundFault.FULL_DISK:
                self.disk.fill(self.chance.randrange(self.spare_bytes))
            case RoundFault.WRITE_ERRORS:
                self.disk.fail_appends(self.append_error_rate)
            case RoundFault.PARTITION:
                self.simulation.network.partition(BROKER, self.admin)
        for _ in range(self.chance.randint(*self.pauses)):
            await asyncio.sleep(self.chance.random() * 0.2)
            if fault is RoundFault.RESETS:
                self.simulation.network.reset(BROKER, self.admin)
        self.disk.calm()
        if RoundFault.PARTITION in self.faults:
            self.simulation.network.heal_all()

    async def _check_in_pause(self) -> None:
        self.turns.pause()
        while self.turns.busy:
            await self.pass_time(LOOK_SECONDS)
        await self.check()
