"""One node and producers that write in transactions, alone and together, while it and they die, stall and come back."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from levada.model.errors import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.node import Node, node_settings
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.sim.checkers import CheckFailed
from levada.sim.clients import RETRY_SECONDS, Connector, create_topic
from levada.sim.links import LATENCY_US
from levada.sim.storm import Caller
from levada.sim.transaction_checkers import Books, Fate, check_whole
from levada.sim.transaction_instances import PARTITIONS, Instance, Plan
from levada.sim.transaction_producers import TOPIC, Style
from levada.sim.transaction_readers import Reader, read_label, under_way, unstable, watch_offsets
from levada.sim.world import DATA_DIRECTORY, HostCrashed, Simulation
from levada.world.world import World

T = TypeVar("T")

BROKER, ADMIN, READER = "broker", "admin", "reader"
PORT = 9092
SINGLES = 4
GROUPS = 2
MEMBERS = 3
STATE_PARTITIONS = 3
HOSTS_EACH = 2
ROUNDS = 2
STEPS = 16
ON_THE_WIRE_SECONDS = 1.0
LATE_US = (50_000, 900_000)
TIMEOUTS_MS = (2_000, 4_000, 6_000)
CLEANUP_MS = 300
ENDING_SECONDS = 60.0
SETTLING_SECONDS = 10.0
"""The longest timeout, the next look for such transactions, and time to write the markers."""
NEVER = 2**63 - 1
LIMIT_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; equal for equal seeds."""

    digest: str
    commits: int
    aborts: int
    zombies: int
    crashes: int

    def __str__(self) -> str:
        ends = f"{self.commits} commits, {self.aborts} aborts, {self.zombies} zombies"
        return f"{ends}, {self.crashes} crashes, trace {self.digest}"


def run_transaction_storm(seed: int, *, recording: bool = False) -> tuple[Outcome, list[str]]:
    """Run the scenario; CheckFailed or a failure of the run itself carries the seed."""
    with Simulation(seed, recording=recording) as simulation:
        scenario = _Scenario(simulation)
        simulation.run(scenario.main(), limit_ms=LIMIT_MS)
        books = scenario.books
        ends = books.count(Fate.COMMITTED), books.count(Fate.ABORTED), books.zombies_refused
        return Outcome(simulation.trace.digest(), *ends, scenario.crashes), simulation.trace.lines or []


@dataclass(slots=True)
class _Role:
    """Transactional ids that one instance has at a time, or should have."""

    name: str
    transactional_ids: tuple[str, ...]
    instances: dict[str, Instance]
    """By the host that each has for itself."""
    running: dict[str, "asyncio.Future[None]"]

    @property
    def living(self) -> list[str]:
        return [host for host, one in self.instances.items() if not one.is_over]

    @property
    def free(self) -> list[str]:
        hosts = [f"{self.name}-{number}" for number in range(HOSTS_EACH)]
        return [host for host in hosts if host not in self.living]


class _Scenario:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._chance = simulation.chance("transaction storm")
        self.books = Books()
        self.crashes = 0
        self._roles = [_Role(f"single-{number}", (f"single-{number}",), {}, {}) for number in range(SINGLES)]
        self._roles += [_Role(f"group-{number}", salted(f"group-{number}"), {}, {}) for number in range(GROUPS)]
        # A power cut may take what was acknowledged unless every append is flushed first.
        self._flush_messages = self._chance.choice((1, NEVER))
        self._started = 0
        self._is_stormy = False
        self._is_hurt = False
        """Logs may be offline: one that cannot say where its aborted transactions are is not read from."""
        self._reader: Reader | None = None
        self._watching: list[asyncio.Future[None]] = []

    async def main(self) -> None:
        self._start_broker()
        connector = Connector(self._simulation.world(ADMIN), BROKER, PORT)
        ids = [one for role in self._roles for one in role.transactional_ids]
        await self._simulation.spawn(ADMIN, _prepare_cluster(connector, ids))
        world = self._simulation.world(READER)
        self._reader = Reader(Caller(world, BROKER, PORT), self._simulation.chance("reader"), self.books, PARTITIONS)
        offsets = watch_offsets(Caller(world, BROKER, PORT), self._simulation.chance("offset reader"), self.books, ids)
        self._watching = [self._simulation.spawn(READER, one) for one in (self._reader.run(), offsets)]
        for _ in range(ROUNDS):
            await self._storm()
            await self._settle(connector, ids)
        self._simulation.crash(BROKER, power_loss=self._flush_messages == 1)
        await self._settle(connector, ids)

    # The storm

    async def _storm(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self._start_somebody),
            (5, self._start_rival),
            (3, self._pause_somebody),
            (2, self._kill_somebody),
            (5, self._disturb_link),
            (5, self._delay),
            (4, self._calm),
            (1, self._disturb_disk),
            (2, self._arm_crash),
        ]
        weights = [weight for weight, _ in actions]
        for role in self._roles:
            self._start_instance(role, role.free[0])
        self._is_stormy = True
        for _ in range(STEPS):
            await self._pass(self._chance.random())
            self._chance.choices(actions, weights)[0][1]()
        self._is_stormy = False

    def _start_instance(self, role: _Role, host: str) -> None:
        """A new process on a host where none lives."""
        if self._simulation.machine(host).processes:
            self._simulation.crash(host, power_loss=False)
        self._started += 1
        styles = tuple(
            Style(self._chance.random() < 0.5, self._chance.choice(TIMEOUTS_MS)) for _ in role.transactional_ids
        )
        plan = Plan(f"{host}#{self._started}", role.transactional_ids, styles)
        chance = self._simulation.chance("instance", plan.name)
        world = self._simulation.world(host)
        instance = Instance(world, (BROKER, PORT), self.books, chance, plan, self._before_decision)
        role.instances[host] = instance
        role.running[host] = self._simulation.spawn(host, instance.run())

    def _start_somebody(self) -> None:
        idle = [role for role in self._roles if not role.living]
        if idle:
            role = self._chance.choice(idle)
            self._start_instance(role, self._chance.choice(role.free))

    def _start_rival(self) -> None:
        """A second instance; the first may stand still and come back when the second has begun."""
        role = self._chance.choice(self._roles)
        if role.free:
            for host in role.living:
                role.instances[host].pause_seconds = self._chance.random() * 4
            self._start_instance(role, self._chance.choice(role.free))

    def _pick(self) -> tuple[_Role, str] | None:
        role = self._chance.choice(self._roles)
        return (role, self._chance.choice(role.living)) if role.living else None

    def _pause_somebody(self) -> None:
        if picked := self._pick():
            picked[0].instances[picked[1]].pause_seconds = self._chance.random() * 8

    def _kill_somebody(self) -> None:
        if picked := self._pick():
            self._simulation.crash(picked[1], power_loss=self._chance.random() < 0.5)
            picked[0].instances[picked[1]].is_over = True

    def _disturb_link(self) -> None:
        picked = self._pick()
        host = READER if picked is None or not self._chance.randrange(8) else picked[1]
        network = self._simulation.network
        match self._chance.choice(("reset", "stall", "partition", "one way", "late", "late")):
            case "reset":
                network.reset(BROKER, host)
            case "stall":
                network.stall(BROKER, host)
            case "partition":
                network.partition(BROKER, host)
            case "one way":
                network.partition(BROKER, host, one_way=True)
            case _:
                network.link(host, BROKER).latency_us = self._chance.choice((LATENCY_US, LATE_US))
                network.link(BROKER, host).latency_us = LATE_US

    def _delay(self) -> None:
        """For a moment everything is late; what is sent after that, on another connection, arrives first."""
        for host in [host for role in self._roles for host in role.living]:
            self._simulation.network.link(host, BROKER).latency_us = LATE_US
            self._simulation.loop.call_later(self._chance.random() * 0.3, self._speed_up, host)

    def _speed_up(self, host: str) -> None:
        self._simulation.network.link(host, BROKER).latency_us = LATENCY_US
        self._simulation.network.link(BROKER, host).latency_us = LATENCY_US

    def _disturb_disk(self) -> None:
        if not self._simulation.network.is_served(BROKER, PORT):
            # A node that cannot write may refuse to start.
            return
        self._is_hurt = True
        file_system = self._simulation.machine(BROKER).file_system
        if self._chance.random() < 0.5:
            file_system.capacity = file_system.used + self._chance.randrange(5_000)
        else:
            file_system.faults.fail_randomly("append", 0.1)

    def _calm(self) -> None:
        """All that was put in somebody's way goes; who is dead stays dead."""
        file_system = self._simulation.machine(BROKER).file_system
        file_system.capacity = None
        file_system.faults.fail_randomly("append", 0.0)
        self._simulation.network.heal_all()
        for host in [READER, *(host for role in self._roles for host in role.instances)]:
            self._speed_up(host)

    # The broker

    def _start_broker(self) -> None:
        self._simulation.start(BROKER, lambda world: _serve(world, self._flush_messages))

    def _before_decision(self, transactions: int) -> None:
        """Somebody is about to ask for a commit: the moment at which a crash does most, and most to several."""
        if self._is_stormy and self._chance.random() < 0.02 * transactions**2:
            self._arm_crash()

    def _arm_crash(self) -> None:
        """End the broker between two of its next disk operations."""
        power_loss = self._flush_messages == 1 and self._chance.random() < 0.6
        operations = self._chance.choice((self._chance.randrange(10), self._chance.randrange(40)))
        self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)

    async def _revive(self) -> None:
        self.crashes += 1
        self._is_hurt = False
        self._calm()
        # Replies that were on the wire still arrive, and belong to the time before.
        await asyncio.sleep(ON_THE_WIRE_SECONDS)
        if self._simulation.machine(BROKER).dark:
            assert self._reader is not None
            self._reader.begin_again()
        self._start_broker()

    async def _pass(self, seconds: float) -> None:
        """Let time pass; somebody whose check failed ends the run here, and a dead broker is started again."""
        await asyncio.sleep(seconds)
        for running in [*self._watching, *(one for role in self._roles for one in role.running.values())]:
            if running.done() and not isinstance(running.exception(), HostCrashed):
                running.result()
        if not self._simulation.machine(BROKER).processes:
            await self._revive()

    # The end

    async def _settle(self, connector: Connector, ids: list[str]) -> None:
        """All faults end; then every transaction must, and what is visible must be whole."""
        await self._end_instances()
        deadline_s = self._simulation.loop.time() + SETTLING_SECONDS
        while reasons := await self._reasons(connector):
            if self._simulation.loop.time() > deadline_s:
                raise CheckFailed(f"not over after {SETTLING_SECONDS} s: {'; '.join(reasons)}")
            await self._pass(0.2)
        labels = {one: await self._ask(read_label(connector, one)) for one in ids}
        unsettled = [one for one, label in labels.items() if label is None]
        if unsettled:
            raise CheckFailed(f"the offsets of {unsettled} are still on their way")
        assert self._reader is not None
        self._reader.begin_again()
        while not all(view.is_at_end for view in self._reader.views):
            if self._simulation.loop.time() > deadline_s + ENDING_SECONDS:
                raise CheckFailed(f"the reader does not come to the end after {ENDING_SECONDS} s")
            await self._pass(0.05)
        check_whole(self.books, self._reader.views, labels)

    async def _end_instances(self) -> None:
        """Some end what they have begun; of the others the coordinators must rid themselves."""
        await self._pass(0.0)
        self._calm()
        if self._is_hurt:
            self._simulation.crash(BROKER, power_loss=False)
            await self._pass(0.0)
        hosts = [(role, host) for role in self._roles for host in role.instances]
        for role, host in hosts:
            role.instances[host].must_stop = True
            # A connection that carries nothing any more has nobody else to end it.
            self._simulation.network.reset(BROKER, host)
            if not role.instances[host].is_over and self._chance.random() < 0.3:
                self._simulation.crash(host, power_loss=False)
                role.instances[host].is_over = True
        self._simulation.network.reset(BROKER, READER)
        deadline_s = self._simulation.loop.time() + ENDING_SECONDS
        while living := [host for role in self._roles for host in role.living]:
            if self._simulation.loop.time() > deadline_s:
                raise CheckFailed(f"{living} cannot end their transactions in {ENDING_SECONDS} s")
            await self._pass(0.2)
            self._calm()
        for _, host in hosts:
            # What it has not sent until now it never will.
            if self._simulation.machine(host).processes:
                self._simulation.crash(host, power_loss=False)
        # A crash that was ordered and has not come yet would come at the next write.
        self._simulation.machine(BROKER).file_system.faults.call_off()
        await self._pass(ON_THE_WIRE_SECONDS)

    async def _reasons(self, connector: Connector) -> list[str]:
        """Why not everything is over."""
        return [
            *await self._ask(under_way(connector)),
            *await self._ask(unstable(connector, PARTITIONS)),
        ]

    async def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        return await self._simulation.spawn(ADMIN, question)


def salted(name: str) -> tuple[str, ...]:
    """Ids that one coordinator has."""
    wanted = coordinator_partition(name, STATE_PARTITIONS)
    found: list[str] = []
    salt = 0
    while len(found) < MEMBERS:
        candidate = f"{name}-{len(found)}~{salt}"
        salt += 1
        if coordinator_partition(candidate, STATE_PARTITIONS) == wanted:
            found.append(candidate)
    return tuple(found)


async def _prepare_cluster(connector: Connector, ids: list[str]) -> None:
    """Make the topic, and those that keep groups and transactions."""
    await create_topic(connector, TOPIC, PARTITIONS)
    for key_type in (0, 1):
        while True:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=ids)
            reply: Any = await connector.call(request, 4)
            if all(one.error_code == ErrorCode.NONE for one in reply.coordinators):
                break
            await asyncio.sleep(RETRY_SECONDS)


async def _serve(world: World, flush_messages: int) -> None:
    settings = node_settings(
        {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "log.retention.ms": "-1",
            "node.id": "1",
            "auto.create.topics.enable": "false",
            "log.flush.interval.messages": str(flush_messages),
            "log.segment.bytes": "1048576",
            "log.index.size.max.bytes": "4096",
            "log.index.interval.bytes": "200",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(CLEANUP_MS),
            "levada.poison.buffers": "true",
        }
    )
    node = Node(world, settings)
    await node.start()
    await asyncio.get_running_loop().create_future()
