"""What goes wrong around the broker: its disk, and its links to the hosts of the actors."""

import random
from collections.abc import Sequence
from enum import Enum, auto

from levada.sim.world import Simulation
from levada.sim.world.links import LATENCY_US

BROKER = "broker"
LATE_US = (50_000, 900_000)
SLOW_BYTES_PER_SECOND = 3_000
GIVE_UP_MS = (100, 5_000)


class DiskFault:
    """The broker's disk, full or with errors."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def fill(self, spare_bytes: int) -> None:
        file_system = self._simulation.machine(BROKER).file_system
        file_system.capacity = file_system.used + spare_bytes

    def fail_appends(self, rate: float) -> None:
        self._simulation.machine(BROKER).file_system.faults.fail_randomly("append", rate)

    def call_off_crash(self) -> None:
        """A crash that was ordered and has not come yet would come at the next write."""
        self._simulation.machine(BROKER).file_system.faults.call_off()

    def calm(self) -> None:
        self._simulation.machine(BROKER).file_system.capacity = None
        self.fail_appends(0.0)


class LinkFault(Enum):
    RESET = auto()
    STALL = auto()
    PARTITION = auto()
    GIVEN_UP = auto()
    """A partition in which both ends give up their connections before long."""
    FROM_BROKER = auto()
    ONE_WAY = auto()
    LATE = auto()
    SLOW = auto()


class Links:
    """Between the broker and other hosts."""

    def __init__(self, simulation: Simulation, chance: random.Random) -> None:
        self._network = simulation.network
        self._loop = simulation.loop
        self._chance = chance

    def disturb(self, host: str, faults: Sequence[LinkFault]) -> None:
        """One of these faults, by the seed."""
        network = self._network
        match self._chance.choice(faults):
            case LinkFault.RESET:
                network.reset(BROKER, host)
            case LinkFault.STALL:
                network.stall(BROKER, host)
            case LinkFault.PARTITION:
                network.partition(BROKER, host)
            case LinkFault.GIVEN_UP:
                network.partition(BROKER, host, reset_after_ms=GIVE_UP_MS)
            case LinkFault.FROM_BROKER:
                network.partition(BROKER, host, one_way=True)
            case LinkFault.ONE_WAY:
                network.partition(*self._chance.choice(((BROKER, host), (host, BROKER))), one_way=True)
            case LinkFault.LATE:
                network.link(host, BROKER).latency_us = self._chance.choice((LATENCY_US, LATE_US))
                network.link(BROKER, host).latency_us = LATE_US
            case LinkFault.SLOW:
                network.link(host, BROKER).bytes_per_second = SLOW_BYTES_PER_SECOND
                network.link(BROKER, host).bytes_per_second = SLOW_BYTES_PER_SECOND

    def delay(self, hosts: Sequence[str]) -> None:
        """For a moment everything is late; what is sent after that, on another connection, arrives first."""
        for host in hosts:
            self._network.link(host, BROKER).latency_us = LATE_US
            self._loop.call_later(self._chance.random() * 0.3, self.speed_up, host)

    def speed_up(self, host: str) -> None:
        """Neither late nor slow any more."""
        for link in (self._network.link(host, BROKER), self._network.link(BROKER, host)):
            link.latency_us = LATENCY_US
            link.bytes_per_second = None

    def heal(self, host: str) -> None:
        """Nothing is wrong any more with the links of this host."""
        self._network.heal(BROKER, host)
        self.speed_up(host)

    def heal_all(self, hosts: Sequence[str]) -> None:
        """The same for all hosts there are; of these the links may have been late or slow."""
        self._network.heal_all()
        for host in hosts:
            self.speed_up(host)
