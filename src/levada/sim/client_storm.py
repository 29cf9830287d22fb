"""One node and our own clients, while it and they die, links are cut, slow and silent, and clocks are set."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from levada.node import Node, node_settings
from levada.sim.checkers import CheckFailed
from levada.sim.client_books import Fate, SendBook, check_once
from levada.sim.client_lives import Life
from levada.sim.client_logs import PartitionLog, read_committed_offsets
from levada.sim.client_members import MADE, POLL_INTERVAL_SECONDS, Group, Make, Member, Processor, all_groups
from levada.sim.client_transactors import TransactionalWriter, Transactor
from levada.sim.client_writers import LEDGER, PARTITIONS, PLAIN, PlainWriter
from levada.sim.clients import Connector, create_topic
from levada.sim.group_checkers import Partition
from levada.sim.links import LATENCY_US
from levada.sim.world import DATA_DIRECTORY, HostCrashed, Simulation
from levada.world.world import World

T = TypeVar("T")

BROKER, ADMIN = "broker", "admin"
PORT = 9092
STEPS = 20
LATE_US = (50_000, 900_000)
MAX_MESSAGE_BYTES = "1000"
"""Less than some batches have, so that they are sent in two."""
LOST_ANSWERS = 0.02
SLOW_BYTES_PER_SECOND = 3_000
SKEW_MS = 50 * 60_000
"""Less than the hour by which a record may be ahead of its broker."""
ENDING_SECONDS = 60.0
SETTLING_SECONDS = 30.0
LIMIT_MS = 10 * 60_000
WRITING_ROLES = 3
"""The first roles: those that do not read. The processors come next."""
CALM_CHANGES = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; equal for equal seeds."""

    digest: str
    records: int
    commits: int
    aborts: int
    reads: int
    crashes: int

    def __str__(self) -> str:
        ends = f"{self.records} records, {self.commits} commits, {self.aborts} aborts, {self.reads} reads"
        return f"{ends}, {self.crashes} crashes, trace {self.digest}"


def run_client_storm(seed: int, *, recording: bool = False) -> tuple[Outcome, list[str]]:
    """Run the scenario; CheckFailed or a failure of the run itself carries the seed."""
    with Simulation(seed, recording=recording) as simulation:
        scenario = _Scenario(simulation)
        simulation.run(scenario.main(), limit_ms=LIMIT_MS)
        sends = scenario.sends
        reads = sum(len(each) for group in scenario.groups for each in group.book.reads.values())
        outcome = Outcome(
            simulation.trace.digest(),
            sends.acknowledged,
            sends.count(Fate.COMMITTED),
            sends.count(Fate.ABORTED),
            reads,
            scenario.crashes,
        )
        return outcome, simulation.trace.lines or []


@dataclass(slots=True)
class _Role:
    """Processes that do the same, each on a host of its own."""

    name: str
    hosts: int
    make: Make
    has_rivals: bool = False
    """Whether all of them have the same transactional id."""
    lives: dict[str, Life] = field(default_factory=dict)
    running: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)

    @property
    def living(self) -> list[str]:
        return [host for host, life in self.lives.items() if not life.is_over]

    @property
    def free(self) -> list[str]:
        return [host for host in (f"{self.name}-{index}" for index in range(self.hosts)) if host not in self.living]


class _Scenario:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._chance = simulation.chance("client storm")
        self.sends = SendBook()
        self.groups = all_groups(self._chance)
        self.crashes = 0
        self._started = 0
        self._is_stormy = False
        self._by_transactional_id: dict[str, list[TransactionalWriter]] = {}
        self._logs = {
            (topic, index): PartitionLog((topic, index))
            for topic, count in PARTITIONS.items()
            for index in range(count)
        }
        self._roles = [
            _Role("writer", 3, self._make_writer),
            _Role("first", 2, partial(self._make_transactor, "first"), has_rivals=True),
            _Role("second", 2, partial(self._make_transactor, "second"), has_rivals=True),
            _Role("processor", 2, self._make_processor),
            *(_Role(group.book.group_id, 3, partial(self._make_member, group)) for group in self.groups[:-1]),
        ]

    async def main(self) -> None:
        self._start_broker()
        connector = Connector(self._simulation.world(ADMIN), BROKER, PORT)
        for topic, partitions in PARTITIONS.items():
            await self._ask(create_topic(connector, topic, partitions, {"max.message.bytes": MAX_MESSAGE_BYTES}))
        for role in self._roles:
            for host in role.free[: 1 if role.has_rivals else 2]:
                self._start_life(role, host)
        await self._storm()
        await self._stop_writers()
        await self._settle(connector)
        await self._change_members(connector)
        await self._end(connector)

    # The storm

    async def _storm(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (10, self._start_somebody),
            (3, self._let_stop),
            (5, self._kill_somebody),
            (3, self._pause_somebody),
            (3, self._pause_processor),
            (10, self._disturb_link),
            (2, self._calm),
            (1, self._set_clock),
            (3, self._arm_crash),
        ]
        weights = [weight for weight, _ in actions]
        self._is_stormy = True
        for step in range(STEPS):
            await self._pass(self._chance.random() * 1.2)
            if step == STEPS // 2:
                self._arm_crash()
            self._chance.choices(actions, weights)[0][1]()
        self._is_stormy = False
        # What was ordered for later comes first.
        await self._pass(0.1)
        self._calm()
        # A crash that was ordered and has not come yet would come at the next write.
        self._simulation.machine(BROKER).file_system.faults.call_off()

    def _make_writer(self, name: str, world: World, chance: random.Random) -> Life:
        return PlainWriter(name, world, chance, self.sends)

    def _make_transactor(self, transactional_id: str, name: str, world: World, chance: random.Random) -> Life:
        return Transactor(name, world, chance, self.sends, transactional_id)

    def _make_processor(self, name: str, world: World, chance: random.Random) -> Life:
        return Processor(name, world, chance, self.sends, self.groups[-1], name.partition("#")[0])

    def _make_member(self, group: Group, name: str, world: World, chance: random.Random) -> Life:
        host = name.partition("#")[0]
        return Member(name, world, chance, self.sends, group, host if chance.random() < 0.3 else None)

    def _start_life(self, role: _Role, host: str) -> None:
        """A new process on a host where none lives."""
        if self._simulation.machine(host).processes:
            self._simulation.crash(host, power_loss=False)
        self._started += 1
        name = f"{host}#{self._started}"
        life = role.make(name, self._simulation.world(host), self._simulation.chance("life", name))
        if isinstance(life, TransactionalWriter):
            self._note_rivals(life)
        life.before_answer = partial(self._lose_answer, host)
        role.lives[host] = life
        role.running[host] = self._simulation.spawn(host, life.run())

    def _note_rivals(self, life: TransactionalWriter) -> None:
        """The new one takes the id from all before, unless one of them, dead or alive, only asks for it later."""
        rivals = self._by_transactional_id.setdefault(life.transactional_id, [])
        life.has_rival = any(not other.is_ready for other in rivals)
        for other in rivals:
            other.has_rival = True
        rivals.append(life)

    def _start_somebody(self) -> None:
        roles = [role for role in self._roles if role.free]
        if roles:
            role = self._chance.choice(roles)
            self._start_life(role, self._chance.choice(role.free))

    def _pick(self) -> tuple[_Role, str] | None:
        role = self._chance.choice(self._roles)
        return (role, self._chance.choice(role.living)) if role.living else None

    def _let_stop(self) -> None:
        if picked := self._pick():
            picked[0].lives[picked[1]].must_stop = True

    def _kill_somebody(self) -> None:
        if picked := self._pick():
            self._simulation.crash(picked[1], power_loss=self._chance.random() < 0.5)
            picked[0].lives[picked[1]].die()

    def _pause_somebody(self) -> None:
        if picked := self._pick():
            picked[0].lives[picked[1]].pause_seconds = self._chance.random() * 9

    def _pause_processor(self) -> None:
        """Long enough for its group to go on without it, and then it wants to commit what it has read."""
        role = self._roles[WRITING_ROLES]
        if role.living:
            role.lives[self._chance.choice(role.living)].pause_seconds = (
                POLL_INTERVAL_SECONDS + self._chance.random() * 3
            )

    def _disturb_link(self) -> None:
        picked = self._pick()
        if picked is None:
            return
        network, host = self._simulation.network, picked[1]
        match self._chance.choice(("reset", "reset", "stall", "partition", "given up", "one way", "late", "slow")):
            case "reset":
                network.reset(BROKER, host)
            case "stall":
                network.stall(BROKER, host)
            case "partition":
                network.partition(BROKER, host)
            case "given up":
                network.partition(BROKER, host, reset_after_ms=(100, 5_000))
            case "one way":
                network.partition(*self._chance.choice(((BROKER, host), (host, BROKER))), one_way=True)
            case "slow":
                network.link(host, BROKER).bytes_per_second = SLOW_BYTES_PER_SECOND
                network.link(BROKER, host).bytes_per_second = SLOW_BYTES_PER_SECOND
            case _:
                network.link(host, BROKER).latency_us = self._chance.choice((LATENCY_US, LATE_US))
                network.link(BROKER, host).latency_us = LATE_US
        if self._chance.random() < 0.5:
            self._simulation.loop.call_later(self._chance.random() * 4, self._calm_link, host)

    def _lose_answer(self, host: str) -> None:
        """Cut a host off in the moment in which it waits to hear that something was done."""
        if not self._is_stormy or self._chance.random() > LOST_ANSWERS:
            return
        loop, network = self._simulation.loop, self._simulation.network
        moment_s = self._chance.random() * self._chance.choice((0.005, 0.06))
        if self._chance.random() < 0.5:
            loop.call_later(moment_s, network.reset, BROKER, host)
        else:
            loop.call_later(moment_s, partial(network.partition, BROKER, host, one_way=True))
            loop.call_later(moment_s + self._chance.random() * 3, self._calm_link, host)

    def _calm_link(self, host: str) -> None:
        network = self._simulation.network
        network.heal(BROKER, host)
        for link in (network.link(host, BROKER), network.link(BROKER, host)):
            link.latency_us = LATENCY_US
            link.bytes_per_second = None

    def _calm(self) -> None:
        """All that was put in somebody's way goes; who is dead stays dead."""
        for host in [host for role in self._roles for host in role.lives]:
            self._calm_link(host)

    def _set_clock(self) -> None:
        """Somebody sets a client's clock, which is nobody's timeout's business.

        Not the broker's: a transaction's time is counted from the clock at its beginning, as in Kafka.
        """
        if picked := self._pick():
            self._simulation.machine(picked[1]).skew_ms = self._chance.randint(-SKEW_MS, SKEW_MS)

    # The broker

    def _start_broker(self) -> None:
        self._simulation.start(BROKER, _serve)

    def _arm_crash(self) -> None:
        """End the broker, now or between two of its next disk operations."""
        operations = self._chance.choice((0, self._chance.randrange(40)))
        self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=False)

    async def _pass(self, seconds: float) -> None:
        """Let time pass; somebody whose check failed ends the run here, and a dead broker is started again."""
        await asyncio.sleep(seconds)
        for role in self._roles:
            for running in role.running.values():
                if running.done() and not isinstance(running.exception(), HostCrashed):
                    running.result()
        self.sends.check_deadlines(self._simulation.loop.time())
        if not self._simulation.machine(BROKER).processes:
            self.crashes += 1
            await asyncio.sleep(self._chance.random() * self._chance.choice((0.2, 4.0)))
            self._start_broker()

    # The end

    async def _stop_writers(self) -> None:
        """Who only writes ends; some die on the way."""
        for role in self._roles[:WRITING_ROLES]:
            for host in role.living:
                role.lives[host].must_stop = True
        await self._wait_for_end(self._roles[:WRITING_ROLES])

    async def _wait_for_end(self, roles: Sequence[_Role]) -> None:
        deadline_s = self._simulation.loop.time() + ENDING_SECONDS
        while living := [host for role in roles for host in role.living]:
            if self._simulation.loop.time() > deadline_s:
                raise CheckFailed(f"{living} do not come to an end in {ENDING_SECONDS} s")
            await self._pass(0.2)

    async def _settle(self, connector: Connector) -> None:
        """Nothing goes wrong any more: everything is read, processed and committed before long."""
        deadline_s = self._simulation.loop.time() + SETTLING_SECONDS
        while reasons := await self._reasons(connector):
            if self._simulation.loop.time() > deadline_s:
                raise CheckFailed(f"not at rest after {SETTLING_SECONDS} s: {'; '.join(reasons)}")
            await self._pass(0.5)

    async def _reasons(self, connector: Connector) -> list[str]:
        """Why not everything is at rest."""
        for role in self._roles[WRITING_ROLES:]:
            if not role.living:
                self._start_life(role, role.free[0])
        logs = await self._read_logs(connector)
        reasons = [f"{one} has open transactions" for one, log in logs.items() if not log.is_settled]
        lives = [role.lives[host] for role in self._roles for host in role.living]
        reasons += [f"{life.name} stands still" for life in lives if life.pause_seconds]
        for group in self.groups:
            book, partitions = group.book, [one for one in logs if one[0] in group.topics]
            owners = book.owners()
            reasons += [
                f"{book.group_id}: {one} has owners {owners.get(one)}"
                for one in partitions
                if len(owners.get(one, ())) != 1
            ]
            committed = await self._ask(read_committed_offsets(connector, book.group_id, partitions))
            for one in partitions:
                end = logs[one].visible_end
                at = book.check_committed(one, None if committed is None else committed[one])
                if at < end or book.last_read(one) < end - 1:
                    reasons.append(f"{book.group_id} has read {one} to {book.last_read(one)}, committed {at} of {end}")
        return reasons

    async def _change_members(self, connector: Connector) -> None:
        """While nothing goes wrong, members come and go, and no partition ever has two of them."""
        for group in self.groups:
            group.book.is_strict = True
        for _ in range(CALM_CHANGES):
            role = self._chance.choice(self._roles[WRITING_ROLES:])
            if role.free and (self._chance.random() < 0.6 or len(role.living) < 2):
                self._start_life(role, self._chance.choice(role.free))
            else:
                role.lives[self._chance.choice(role.living)].must_stop = True
            await self._pass(self._chance.random() * self._chance.choice((0.5, 3.0)))
        await self._settle(connector)

    async def _end(self, connector: Connector) -> None:
        for role in self._roles:
            for host in role.living:
                role.lives[host].must_stop = True
        await self._wait_for_end(self._roles)
        logs = {one: log.entries for one, log in (await self._read_logs(connector)).items()}
        self.sends.check_logs(logs)
        for group in self.groups:
            group.book.check_reads({one: log for one, log in logs.items() if one[0] in group.topics})
        check_once(logs, PLAIN, LEDGER, MADE)

    async def _read_logs(self, connector: Connector) -> dict[Partition, PartitionLog]:
        for log in self._logs.values():
            await self._ask(log.read(connector))
        return self._logs

    async def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        return await self._simulation.spawn(ADMIN, question)


async def _serve(world: World) -> None:
    settings = node_settings(
        {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "log.retention.ms": "-1",
            "node.id": "1",
            "auto.create.topics.enable": "false",
            "log.segment.bytes": "1048576",
            "log.index.size.max.bytes": "4096",
            "log.index.interval.bytes": "200",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
            "group.initial.rebalance.delay.ms": "300",
            "group.min.session.timeout.ms": "1000",
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "3000",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.heartbeat.interval.ms": "400",
            "group.consumer.assignment.interval.ms": "200",
            "levada.poison.buffers": "true",
        }
    )
    node = Node(world, settings)
    await node.start()
    await asyncio.get_running_loop().create_future()
