"""One node and groups of both protocols, whose members come, go, die and stand still while the node dies under them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from levada.node import Node, node_settings
from levada.sim.checkers import CheckFailed
from levada.sim.classic_member import ClassicMember
from levada.sim.clients import Connector
from levada.sim.consumer_member import ConsumerMember
from levada.sim.group_checkers import Books
from levada.sim.group_members import GroupMember, Plan
from levada.sim.group_settling import TOPICS, change_topics, prepare_cluster, settled
from levada.sim.links import LATENCY_US
from levada.sim.storm import Caller
from levada.sim.world import DATA_DIRECTORY, HostCrashed, Simulation
from levada.world.world import World

BROKER, ADMIN = "broker", "admin"
PORT = 9092
HOSTS_EACH = 4
STEPS = 45
ON_THE_WIRE_SECONDS = 1.0
SETTLING_SECONDS = 60.0
LATE_US = (50_000, 900_000)
HOUR_MS = 3_600_000
NEVER = 2**63 - 1
LIMIT_MS = 5 * 60_000
REGEX = "f.*|th.*"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; equal for equal seeds."""

    digest: str
    commits: int
    stale_commits: int
    crashes: int

    def __str__(self) -> str:
        commits = f"{self.commits} commits, {self.stale_commits} stale ones"
        return f"{commits}, {self.crashes} crashes, trace {self.digest}"


def run_group_storm(seed: int, *, recording: bool = False) -> tuple[Outcome, list[str]]:
    """Run the scenario; CheckFailed or a failure of the run itself carries the seed."""
    with Simulation(seed, recording=recording) as simulation:
        scenario = _Scenario(simulation)
        simulation.run(scenario.main(), limit_ms=LIMIT_MS)
        books = [group.books for group in scenario.groups]
        commits = sum(one.offsets.acknowledged for one in books)
        stale = sum(one.stale_commits for one in books)
        return Outcome(simulation.trace.digest(), commits, stale, scenario.crashes), simulation.trace.lines or []


@dataclass(slots=True)
class _Group:
    """Its members by the host that each has for itself."""

    books: Books
    kinds: tuple[type[ClassicMember] | type[ConsumerMember], ...]
    """What its members may be."""
    members: dict[str, GroupMember]
    running: dict[str, "asyncio.Future[None]"]

    @property
    def living(self) -> list[str]:
        return [host for host, member in self.members.items() if not member.is_over]

    @property
    def free(self) -> list[str]:
        """Hosts on which nobody lives."""
        hosts = [f"{self.books.group_id}-{number}" for number in range(HOSTS_EACH)]
        return [host for host in hosts if host not in self.living]


class _Scenario:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._chance = simulation.chance("group storm")
        self.crashes = 0
        self.groups = [
            _Group(Books("classic"), (ClassicMember,), {}, {}),
            _Group(Books("consumer"), (ConsumerMember,), {}, {}),
            _Group(Books("mixed", is_mixed=True), (ClassicMember, ConsumerMember), {}, {}),
        ]
        # A power cut may take what was acknowledged unless every append is flushed first.
        self._flush_messages = self._chance.choice((1, NEVER))
        self._started = 0
        self._admin: Caller | None = None
        self._changing: asyncio.Future[None] | None = None

    async def main(self) -> None:
        self._start_broker()
        world = self._simulation.world(ADMIN)
        self._admin = Caller(world, BROKER, PORT)
        connector = Connector(world, BROKER, PORT)
        await self._simulation.spawn(ADMIN, prepare_cluster(connector, [one.books.group_id for one in self.groups]))
        for group in self.groups:
            for host in group.free[:2]:
                self._start_member(group, host)
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self._start_somebody),
            (3, self._let_leave),
            (3, self._kill_member),
            (4, self._pause_member),
            (3, self._start_rival),
            (8, self._disturb_link),
            (4, self._calm),
            (3, self._change_topics),
            (2, self._disturb_disk),
            (1, self._set_clock),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(STEPS):
            await self._pass(self._chance.random())
            if self._chance.random() < 0.12:
                await self._crash()
            else:
                self._chance.choices(actions, weights)[0][1]()
        await self._settle(connector)
        await self._crash()
        await self._settle(connector)

    def _start_broker(self) -> None:
        for group in self.groups:
            group.books.broker_since_s = self._simulation.loop.time()
        self._simulation.start(BROKER, lambda world: _serve(world, self._flush_messages))

    # Members

    def _start_member(self, group: _Group, host: str, instance_id: str | None = None) -> None:
        """A new process on a host where none lives."""
        if self._simulation.machine(host).processes:
            self._simulation.crash(host, power_loss=False)
        self._started += 1
        if instance_id is None and self._chance.random() < 0.4:
            instance_id = f"instance of {host}"
        # As in Kafka, a classic static member must come back with the subscription it had: nobody looks at another.
        taste = self._simulation.chance("subscription", instance_id or str(self._started))
        topics = tuple(topic for topic in TOPICS if taste.random() < 0.7) or TOPICS[:1]
        kind = self._chance.choice(group.kinds)
        regex = REGEX if kind is ConsumerMember and taste.random() < 0.2 else None
        if regex is not None:
            topics = tuple(topic for topic in TOPICS if topic.startswith(("f", "th")))
        plan = Plan(f"{host}#{self._started}", topics, instance_id, regex)
        chance = self._simulation.chance("member", plan.name)
        member = kind(self._simulation.world(host), BROKER, PORT, group.books, chance, plan)
        for rival in [group.members[other] for other in group.living if instance_id is not None]:
            if rival.plan.instance_id == instance_id:
                rival.has_rival = member.has_rival = True
        group.members[host] = member
        group.running[host] = self._simulation.spawn(host, member.run())

    def _start_somebody(self) -> None:
        group = self._chance.choice(self.groups)
        if group.free:
            self._start_member(group, self._chance.choice(group.free))

    def _start_rival(self) -> None:
        """A second process in the name of a static member that may still live."""
        group = self._chance.choice(self.groups)
        static = [host for host, member in group.members.items() if member.plan.instance_id is not None]
        if static and group.free:
            instance_id = group.members[self._chance.choice(static)].plan.instance_id
            self._start_member(group, self._chance.choice(group.free), instance_id)

    def _pick(self) -> tuple[_Group, str] | None:
        group = self._chance.choice(self.groups)
        return (group, self._chance.choice(group.living)) if group.living else None

    def _let_leave(self) -> None:
        if picked := self._pick():
            member = picked[0].members[picked[1]]
            if isinstance(member, ConsumerMember):
                member.returns = self._chance.random() < 0.5
            member.must_leave = True

    def _kill_member(self) -> None:
        if picked := self._pick():
            self._kill(*picked)

    def _kill(self, group: _Group, host: str) -> None:
        """Without a word, and without power not even with a reset."""
        member = group.members[host]
        self._simulation.crash(host, power_loss=self._chance.random() < 0.5)
        member.is_over = True
        member.drop_all()

    def _pause_member(self) -> None:
        if picked := self._pick():
            picked[0].members[picked[1]].pause_seconds = self._chance.random() * 6

    # The world around them

    def _disturb_link(self) -> None:
        if picked := self._pick():
            network, host = self._simulation.network, picked[1]
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

    def _calm(self) -> None:
        """All that was put in somebody's way goes; who is dead stays dead."""
        file_system = self._simulation.machine(BROKER).file_system
        file_system.capacity = None
        file_system.faults.fail_randomly("append", 0.0)
        self._simulation.network.heal_all()
        for group in self.groups:
            for host in group.members:
                self._simulation.network.link(host, BROKER).latency_us = LATENCY_US
                self._simulation.network.link(BROKER, host).latency_us = LATENCY_US

    def _change_topics(self) -> None:
        if self._changing is not None and not self._changing.done():
            return
        assert self._admin is not None
        self._changing = self._simulation.spawn(ADMIN, change_topics(self._admin, self._chance))

    def _disturb_disk(self) -> None:
        if not self._simulation.network.is_served(BROKER, PORT):
            # A node that cannot write may refuse to start.
            return
        file_system = self._simulation.machine(BROKER).file_system
        if self._chance.random() < 0.5:
            file_system.capacity = file_system.used + self._chance.randrange(2_000)
        else:
            file_system.faults.fail_randomly("append", 0.1)

    def _set_clock(self) -> None:
        """Somebody sets the broker's clock, which is nobody's session's business."""
        self._simulation.machine(BROKER).skew_ms = self._chance.randint(-HOUR_MS, HOUR_MS)

    async def _crash(self) -> None:
        """End the broker, now or between two of its disk operations, and start it again; sometimes twice."""
        self._calm()
        for _ in range(self._chance.choice((1, 1, 2))):
            await self._crash_once()

    async def _crash_once(self) -> None:
        self.crashes += 1
        power_loss = self._flush_messages == 1 and self._chance.random() < 0.6
        operations = self._chance.choice((0, self._chance.randrange(10), self._chance.randrange(150)))
        self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)
        while self._simulation.machine(BROKER).processes:
            await self._pass(0.01)
        # Replies that were on the wire still arrive, and belong to the time before.
        await self._pass(ON_THE_WIRE_SECONDS)
        for group in self.groups:
            group.books.offsets.crash(self._simulation.loop.time())
        self._start_broker()

    async def _pass(self, seconds: float) -> None:
        """Let time pass; a member whose check failed ends the run here."""
        await asyncio.sleep(seconds)
        for group in self.groups:
            for host, running in group.running.items():
                if running.done() and not isinstance(running.exception(), HostCrashed):
                    running.result()
                    assert group.members[host].is_over

    async def _settle(self, connector: Connector) -> None:
        """All faults end; then every group must come to rest."""
        self._calm()
        for group in self.groups:
            for host in group.members:
                # A connection that carries nothing any more has nobody else to end it.
                self._simulation.network.reset(BROKER, host)
            for host in group.living:
                member = group.members[host]
                # Two living members of one name are not at rest before one of them goes.
                if member.has_rival and isinstance(member, ConsumerMember):
                    member.must_leave = True
        await self._pass(ON_THE_WIRE_SECONDS)
        now_s = self._simulation.loop.time()
        deadline_s = now_s + SETTLING_SECONDS
        reasons: list[str] = ["nobody looked"]
        for group in self.groups:
            group.books.calm_since_s = now_s
        while reasons:
            if self._simulation.loop.time() > deadline_s:
                raise CheckFailed(f"not at rest after {SETTLING_SECONDS} s: {'; '.join(reasons)}")
            await self._pass(0.5)
            reasons = []
            for group in self.groups:
                # Of two with one name, the one that is out and the one that leaves may both be gone.
                if not group.living:
                    self._start_member(group, group.free[0])
                members = [group.members[host] for host in group.living]
                reasons += await self._ask(settled(connector, group.books, members))
        for group in self.groups:
            group.books.calm_since_s = float("inf")

    async def _ask(self, question: Any) -> Any:
        return await self._simulation.spawn(ADMIN, question)


async def _serve(world: World, flush_messages: int) -> None:
    settings = node_settings(
        {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "log.retention.ms": "-1",
            "node.id": "1",
            "auto.create.topics.enable": "false",
            "log.flush.interval.messages": str(flush_messages),
            "log.index.size.max.bytes": "4096",
            "offsets.topic.num.partitions": "2",
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
