"""Several brokers of one machine: they are killed, paused, stopped, cut off and started again, one or all."""

import asyncio
import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from levada.model.config import ConfigError
from levada.node import node_settings
from levada.sim.checkers.check_failed import CheckFailed
from levada.sim.checkers.metadata_ledger import MetadataLedger
from levada.sim.frame.run import Run
from levada.sim.frame.watched_node import WatchedNode
from levada.sim.world import DATA_DIRECTORY, HostCrashed, Simulation
from levada.world.world import World

MACHINE: Final = "machine"
COORDINATOR: Final = f"{DATA_DIRECTORY}/coordinator"
FIRST_PORT: Final = 9091
LOOK_SECONDS = 0.05
DOWNTIMES_SECONDS = (0.0, 0.3, 1.0, 6.0)
"""The longest times of a dead broker; some are shorter than a session and some longer."""
APPEND_ERROR_RATE = 0.05


@dataclass(slots=True, eq=False)
class Member:
    """A broker through all its lives."""

    node_id: int
    node: WatchedNode | None = None
    """Of its present life; None while it is dead."""
    main: "asyncio.Future[None] | None" = None
    must_stop: "asyncio.Event | None" = None
    lives: int = 0
    starts_s: float = 0.0
    """When it is started again, if it is dead."""
    resumes_s: float = 0.0
    is_hurt: bool = False
    """Whether the disk has failed it in its present life: logs that it could not make may lie about."""

    @property
    def process(self) -> str:
        return str(self.node_id)

    @property
    def place(self) -> str:
        return f"{MACHINE}/{self.node_id}"

    @property
    def address(self) -> tuple[str, int]:
        return MACHINE, FIRST_PORT + self.node_id

    @property
    def directory(self) -> str:
        return f"{DATA_DIRECTORY}/broker-{self.node_id}"


class Cluster(Run):
    """A subclass says how many brokers there are, what their clients do, and what must hold."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.members: dict[int, Member] = {}
        self.ledger = MetadataLedger()
        self.watched: list[asyncio.Future[None]] = []
        """What runs all the time, and must not fail."""
        self.is_disk_hurt = False
        """Any of its operations may have failed lately."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Of its nodes, beside those that all have."""

    # Brokers

    def start_all(self, count: int) -> None:
        for node_id in range(1, count + 1):
            self.members[node_id] = Member(node_id)
            self.start(self.members[node_id])

    def start(self, member: Member) -> None:
        member.lives += 1
        member.is_hurt = self.is_disk_hurt
        main = functools.partial(self._serve, member)
        member.main = self.simulation.start(MACHINE, main, process=member.process)

    async def _serve(self, member: Member, world: World) -> None:
        host, port = member.address
        given = {
            "listeners": f"PLAINTEXT://{host}:{port}",
            "log.dirs": member.directory,
            "node.id": member.process,
            "log.index.size.max.bytes": "4096",
            "levada.poison.buffers": "true",
            **self.settings,
        }
        settings = replace(node_settings(given), coordinator=f"local:{COORDINATOR}")
        name = f"broker {member.node_id}, life {member.lives}"
        node = WatchedNode(world, settings, name, self.ledger, self.check_leases)
        member.node, member.must_stop = node, asyncio.Event()
        node.on_fatal = functools.partial(self._fail, member)
        try:
            await node.start()
            await member.must_stop.wait()
        except ConfigError as error:
            raise CheckFailed(f"broker {member.node_id} does not start: {error}") from error
        except OSError as error:
            self._fail(member, f"it does not start: {error!r}")
        await node.stop()

    def _fail(self, member: Member, reason: str) -> None:
        if not self.is_disk_hurt:
            raise CheckFailed(f"broker {member.node_id} cannot go on: {reason}")
        assert member.must_stop is not None
        member.must_stop.set()

    def running(self) -> Iterator[Member]:
        """Those that are neither dead nor paused, with all that a broker has when it has started."""
        for member in self.members.values():
            if member.node is not None and member.node.is_up and not self.is_paused(member):
                yield member

    def is_alive(self, member: Member) -> bool:
        return member.process in self.simulation.machine(MACHINE).processes

    def is_paused(self, member: Member) -> bool:
        return self.simulation.is_paused(MACHINE, process=member.process)

    def controller(self) -> Member | None:
        """The broker that was told last that it may write, if that life of it goes on."""
        newest = self.ledger.controllers.get(self.ledger.newest_epoch)
        alive = (one for one in self.members.values() if one.node is not None and self.is_alive(one))
        return next((one for one in alive if one.node is not None and one.node.process == newest), None)

    def check_leases(self) -> None:
        for member in self.members.values():
            if member.node is not None and self.is_alive(member):
                member.node.check_lease()

    # Faults

    def kill(self, member: Member) -> None:
        if self.is_alive(member):
            self.simulation.crash(MACHINE, power_loss=False, process=member.process)

    def kill_within(self, member: Member, disk_operations: int) -> None:
        """In the middle of its own writes, if it comes to so many of them."""
        self.simulation.crash_at(MACHINE, disk_operations=disk_operations, power_loss=False, process=member.process)

    def lose_power(self) -> None:
        self.simulation.crash(MACHINE, power_loss=True)

    def pause(self, member: Member, seconds: float) -> None:
        if self.is_alive(member) and not self.is_paused(member):
            self.simulation.pause(MACHINE, process=member.process)
            member.resumes_s = self.now_s + seconds

    def stop(self, member: Member) -> None:
        """On purpose, as by SIGTERM."""
        if member.must_stop is not None:
            member.must_stop.set()

    def silence_at_door(self, member: Member, beats: int) -> None:
        """Some of its signs of life do not come to the coordinator's directory."""
        self.is_disk_hurt = True
        faults = self.simulation.machine(MACHINE).file_system.faults
        faults.fail_next("append", path_part=f"/.member-{member.node_id}.", count=beats)

    def fail_appends(self) -> None:
        self._hurt_disk()
        self.simulation.machine(MACHINE).file_system.faults.fail_randomly("append", APPEND_ERROR_RATE)

    def fill_disk(self, spare_bytes: int) -> None:
        self._hurt_disk()
        file_system = self.simulation.machine(MACHINE).file_system
        file_system.capacity = file_system.used + spare_bytes

    def _hurt_disk(self) -> None:
        self.is_disk_hurt = True
        for member in self.members.values():
            member.is_hurt = True

    def heal(self) -> None:
        """Nothing is wrong any more; paused brokers go on, and dead ones are started before long."""
        file_system = self.simulation.machine(MACHINE).file_system
        file_system.capacity = None
        file_system.faults.calm()
        self.simulation.network.heal_all()
        for member in self.members.values():
            member.starts_s = min(member.starts_s, self.now_s)
            member.resumes_s = self.now_s

    # Time

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; what has failed ends the run here, and what is due is started or goes on."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            await asyncio.sleep(min(LOOK_SECONDS, max(end_s - self.now_s, 0.001)))
            self._look()

    def _look(self) -> None:
        for watched in self.watched:
            if watched.done() and not isinstance(watched.exception(), HostCrashed):
                watched.result()
        for member in self.members.values():
            if self.is_paused(member):
                if member.resumes_s <= self.now_s:
                    self.simulation.resume(MACHINE, process=member.process)
                continue
            if member.main is not None and member.main.done():
                self._bury(member, member.main)
            if member.main is None and member.starts_s <= self.now_s:
                self.start(member)
        self.check_leases()
        if self.ledger.failure is not None:
            raise self.ledger.failure

    def _bury(self, member: Member, main: "asyncio.Future[None]") -> None:
        member.node = member.main = member.must_stop = None
        member.starts_s = self.now_s + self.chance.random() * self.chance.choice(DOWNTIMES_SECONDS)
        if isinstance(main.exception(), HostCrashed):
            self.crashes += 1
        else:
            main.result()
            self.simulation.crash(MACHINE, power_loss=False, process=member.process)

    async def settle(self, reasons: Callable[[], Sequence[str]], *, rest_seconds: float, limit_seconds: float) -> None:
        """Wait until for some time there was no reason any more why not all is at rest."""
        deadline_s, rests_s = self.now_s + limit_seconds, self.now_s
        while self.now_s - rests_s < rest_seconds:
            await self.pass_time(LOOK_SECONDS)
            if found := reasons():
                rests_s = self.now_s
                if self.now_s > deadline_s:
                    raise CheckFailed(f"not at rest after {limit_seconds} s: {'; '.join(found)}")
