"""One node and groups of both protocols, whose members come, go, die and stand still while the node dies under them."""

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial
from math import inf

from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.sim.actors.classic_member import ClassicMember
from levada.sim.actors.consumer_member import ConsumerMember
from levada.sim.actors.group_member import MemberPlan, RawMember
from levada.sim.checkers.group_history import GroupHistory
from levada.sim.checkers.settled_group import unsettled
from levada.sim.frame.faults import BROKER, LinkFault
from levada.sim.frame.role import Role, host_of
from levada.sim.frame.run import NEVER
from levada.sim.frame.scenario import ON_THE_WIRE_SECONDS, PORT, SHORT_GROUP_TIMES
from levada.sim.frame.storm import Action, Storm
from levada.sim.requests.connections import Caller
from levada.sim.requests.topics import create_topic, find_coordinators
from levada.sim.world import Simulation
from levada.world.world import World

TOPICS = ("first", "second", "third")
"""The last is not there in the beginning."""
FIRST_PARTITIONS = (3, 2)
MAX_PARTITIONS = 6
REGEX, MATCHED_BY_REGEX = "f.*|th.*", ("first", "third")
HOSTS_EACH = 4
CRASH_RATE = 0.12
SETTLING_SECONDS = 60.0
LOOK_SECONDS = 0.5
HOUR_MS = 3_600_000


@dataclass(slots=True)
class StormyGroup:
    """One group: what is known of it, and what its members may be."""

    history: GroupHistory
    kinds: tuple[type[ClassicMember] | type[ConsumerMember], ...]
    role: Role[RawMember] = field(init=False)

    @property
    def members(self) -> list[RawMember]:
        """Those that live."""
        return [self.role.actors[host] for host in self.role.living]


class GroupStorm(Storm[RawMember]):
    purpose, actor_purpose = "group storm", "member"
    limit_ms = 5 * 60_000
    steps = 45
    crash_within = (0, 10, 150)
    longest_pause_seconds = 6
    spare_bytes = 2_000
    link_faults = (
        LinkFault.RESET,
        LinkFault.STALL,
        LinkFault.PARTITION,
        LinkFault.FROM_BROKER,
        LinkFault.LATE,
        LinkFault.LATE,
    )

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.groups = [
            StormyGroup(GroupHistory("classic"), (ClassicMember,)),
            StormyGroup(GroupHistory("consumer"), (ConsumerMember,)),
            StormyGroup(GroupHistory("mixed", is_mixed=True), (ClassicMember, ConsumerMember)),
        ]
        for group in self.groups:
            group.role = Role(group.history.group_id, HOSTS_EACH, partial(self._make_member, group), first=2)
            self.roles.append(group.role)
        self.flush_messages = self.chance.choice((1, NEVER))
        self._changing: asyncio.Future[None] | None = None

    @property
    def settings(self) -> dict[str, str]:
        return {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "2", **SHORT_GROUP_TIMES}

    def counts(self) -> dict[str, int]:
        histories = [group.history for group in self.groups]
        commits = sum(one.offsets.acknowledged for one in histories)
        return {"commits": commits, "stale ones": sum(one.stale_commits for one in histories)}

    def actions(self) -> list[Action]:
        return [
            (6, self.start_one),
            (3, self.stop_one),
            (3, self.kill_one),
            (4, self.pause_one),
            (3, self._start_rival),
            (8, self.disturb_link),
            (4, self.calm),
            (3, self._change_topics),
            (2, self.disturb_disk),
            (1, self._set_clock),
        ]

    async def play(self) -> None:
        self._admin = Caller(self.world, BROKER, PORT)
        await self.ask(self._prepare())
        self.start_first()
        await self.blow()
        await self._come_to_rest()
        await self._crash()
        await self._come_to_rest()

    async def _prepare(self) -> None:
        """Make the topics that are there from the beginning, and the one that keeps the groups."""
        for name, partitions in zip(TOPICS, FIRST_PARTITIONS):
            await create_topic(self.connector, name, partitions)
        await find_coordinators(self.connector, [group.history.group_id for group in self.groups])

    # Members

    def _make_member(
        self, group: StormyGroup, name: str, world: World, chance: random.Random, instance_id: str | None = None
    ) -> RawMember:
        if instance_id is None and self.chance.random() < 0.4:
            instance_id = f"instance of {host_of(name)}"
        # As in Kafka, a classic static member must come back with the subscription it had: no member looks at another.
        taste = self.simulation.chance("subscription", instance_id or str(self.started))
        topics = tuple(topic for topic in TOPICS if taste.random() < 0.7) or TOPICS[:1]
        kind = self.chance.choice(group.kinds)
        regex = REGEX if kind is ConsumerMember and taste.random() < 0.2 else None
        plan = MemberPlan(name, topics if regex is None else MATCHED_BY_REGEX, instance_id, regex)
        member = kind(world, BROKER, PORT, group.history, chance, plan)
        for rival in group.members if instance_id is not None else ():
            if rival.plan.instance_id == instance_id:
                rival.has_rival = member.has_rival = True
        return member

    def startable(self) -> list[Role[RawMember]]:
        return self.roles

    def _start_rival(self) -> None:
        """A second process in the name of a static member that may still live."""
        group = self.chance.choice(self.groups)
        role = group.role
        static = [host for host, member in role.actors.items() if member.plan.instance_id is not None]
        if static and role.free:
            instance_id = role.actors[self.chance.choice(static)].plan.instance_id
            make = partial(self._make_member, group, instance_id=instance_id)
            self.start(role, self.chance.choice(role.free), make)

    def stop_one(self) -> None:
        """Let a member leave; a static one perhaps for a while only."""
        if picked := self.pick():
            member = picked[1]
            if isinstance(member, ConsumerMember):
                member.returns = self.chance.random() < 0.5
            member.must_stop = True

    # The world around them

    def _change_topics(self) -> None:
        if self._changing is None or self._changing.done():
            self._changing = self.simulation.spawn(self.admin, self._change_topic())

    async def _change_topic(self) -> None:
        """Grow one or create one; whether there is an answer does not matter, the groups must see what there is."""
        name = self.chance.choice(TOPICS)
        count = self.chance.randint(2, MAX_PARTITIONS)
        if name == TOPICS[-1] and self.chance.random() < 0.7:
            made = CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
            await self._admin.ask(CreateTopicsRequest(topics=[made]), 7)
        else:
            topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
            await self._admin.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False), 3)

    def _set_clock(self) -> None:
        """The broker's clock is set, on which no session may depend."""
        self.simulation.machine(BROKER).skew_ms = self.chance.randint(-HOUR_MS, HOUR_MS)

    # The broker

    async def interrupt(self, step: int) -> bool:
        crashes = self.chance.random() < CRASH_RATE
        if crashes:
            await self._crash()
        return crashes

    async def _crash(self) -> None:
        self.calm()
        await self.crash_once_or_twice()

    def broker_crashed(self, *, power_loss: bool) -> None:
        for group in self.groups:
            group.history.offsets.crash(self.now_s)

    def start_broker(self) -> None:
        for group in self.groups:
            group.history.broker_since_s = self.now_s
        super().start_broker()

    # The end

    async def _come_to_rest(self) -> None:
        """All faults end; then every group must come to rest."""
        self.calm()
        for group in self.groups:
            for host in group.role.actors:
                # A connection that carries nothing any more is ended by no other.
                self.simulation.network.reset(BROKER, host)
            for member in group.members:
                # Two living members of one name are not at rest before one of them goes.
                if member.has_rival and isinstance(member, ConsumerMember):
                    member.must_stop = True
        await self.pass_time(ON_THE_WIRE_SECONDS)
        for group in self.groups:
            group.history.calm_since_s = self.now_s
        await self.pass_time(LOOK_SECONDS)
        await self.settle(self._unsettled, limit_seconds=SETTLING_SECONDS, look_seconds=LOOK_SECONDS)
        for group in self.groups:
            group.history.calm_since_s = inf

    async def _unsettled(self) -> list[str]:
        reasons: list[str] = []
        for group in self.groups:
            # Of two with one name, the one that is out and the one that leaves may both be gone.
            if not group.role.living:
                self.start(group.role, group.role.free[0])
            reasons += await self.ask(unsettled(self.connector, group.history, group.members))
        return reasons
