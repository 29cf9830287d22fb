"""One node and producers that write in transactions, alone and together, while it and they die, stall and come back."""

import random
from functools import partial

from levada.model.hashes import coordinator_partition
from levada.sim.actors.committed_reader import CommittedReader, read_label, watch_offsets
from levada.sim.actors.transactional_instance import PARTITIONS, Instance, InstancePlan
from levada.sim.actors.transactional_producer import TOPIC, Style
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.open_transactions import under_way, unstable
from levada.sim.checkers.transaction_history import TransactionFate, TransactionHistory, check_whole
from levada.sim.frame.faults import BROKER, LinkFault
from levada.sim.frame.role import Role
from levada.sim.frame.run import NEVER
from levada.sim.frame.scenario import ON_THE_WIRE_SECONDS, PORT
from levada.sim.frame.storm import Action, Storm
from levada.sim.requests.connections import Caller
from levada.sim.requests.topics import GROUP, TRANSACTION, create_topic, find_coordinators
from levada.sim.world import Simulation
from levada.world.world import World

READER = "reader"
SINGLES = 4
GROUPS = 2
MEMBERS = 3
STATE_PARTITIONS = 3
HOSTS_EACH = 2
ROUNDS = 2
TIMEOUTS_MS = (2_000, 4_000, 6_000)
CLEANUP_MS = 300
ENDING_SECONDS = 60.0
SETTLING_SECONDS = 10.0
"""The longest timeout, the next look for such transactions, and time to write the markers."""


class TransactionStorm(Storm[Instance]):
    purpose, actor_purpose = "transaction storm", "instance"
    limit_ms = 10 * 60_000
    steps = 16
    crash_within = (10, 40)
    longest_pause_seconds = 8
    spare_bytes = 5_000
    link_faults = (
        LinkFault.RESET,
        LinkFault.STALL,
        LinkFault.PARTITION,
        LinkFault.FROM_BROKER,
        LinkFault.LATE,
        LinkFault.LATE,
    )

    reader: CommittedReader

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.history = TransactionHistory()
        self._ids: dict[str, tuple[str, ...]] = {f"single-{number}": (f"single-{number}",) for number in range(SINGLES)}
        self._ids |= {f"group-{number}": salted(f"group-{number}") for number in range(GROUPS)}
        self.roles = [Role(name, HOSTS_EACH, partial(self._make_instance, ids)) for name, ids in self._ids.items()]
        self.flush_messages = self.chance.choice((1, NEVER))

    @property
    def settings(self) -> dict[str, str]:
        return {
            "auto.create.topics.enable": "false",
            "log.segment.bytes": "1048576",
            "log.index.interval.bytes": "200",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(CLEANUP_MS),
        }

    @property
    def transactional_ids(self) -> list[str]:
        return [one for ids in self._ids.values() for one in ids]

    def counts(self) -> dict[str, int]:
        return {
            "commits": self.history.count(TransactionFate.COMMITTED),
            "aborts": self.history.count(TransactionFate.ABORTED),
            "zombies": self.history.zombies_refused,
        }

    def actions(self) -> list[Action]:
        return [
            (6, self.start_one),
            (5, self._start_rival),
            (3, self.pause_one),
            (2, self.kill_one),
            (5, self.disturb_link),
            (5, self._delay),
            (4, self.calm),
            (1, self.disturb_disk),
            (2, self.arm_crash),
        ]

    async def play(self) -> None:
        await self.ask(self._prepare())
        self._start_readers()
        for _ in range(ROUNDS):
            self.start_first()
            await self.blow()
            await self._come_to_rest()
        self.simulation.crash(BROKER, power_loss=self.flush_messages == 1)
        await self._come_to_rest()

    async def _prepare(self) -> None:
        """Make the topic, and those that keep groups and transactions."""
        await create_topic(self.connector, TOPIC, PARTITIONS)
        for key_type in (GROUP, TRANSACTION):
            await find_coordinators(self.connector, self.transactional_ids, key_type)

    def _start_readers(self) -> None:
        world, chance = self.simulation.world(READER), self.simulation.chance
        self.reader = CommittedReader(Caller(world, BROKER, PORT), chance("reader"), self.history, PARTITIONS)
        caller = Caller(world, BROKER, PORT)
        offsets = watch_offsets(caller, chance("offset reader"), self.history, self.transactional_ids)
        self.watched = [self.simulation.spawn(READER, one) for one in (self.reader.run(), offsets)]

    # Instances

    def _make_instance(self, ids: tuple[str, ...], name: str, world: World, chance: random.Random) -> Instance:
        styles = tuple(Style(self.chance.random() < 0.5, self.chance.choice(TIMEOUTS_MS)) for _ in ids)
        plan = InstancePlan(name, ids, styles)
        return Instance(world, (BROKER, PORT), self.history, chance, plan, self._before_decision)

    def startable(self) -> list[Role[Instance]]:
        return [role for role in self.roles if not role.living]

    def _start_rival(self) -> None:
        """A second instance; the first may stand still and come back when the second has begun."""
        role = self.chance.choice(self.roles)
        if role.free:
            for host in role.living:
                role.actors[host].pause_seconds = self.chance.random() * 4
            self.start(role, self.chance.choice(role.free))

    # The world around them

    def hosts(self) -> list[str]:
        return [READER, *super().hosts()]

    def disturb_link(self) -> None:
        """That of an instance, and now and then the reader's."""
        picked = self.pick()
        host = READER if picked is None or not self.chance.randrange(8) else picked[0]
        self.links.disturb(host, self.link_faults)

    def _delay(self) -> None:
        self.links.delay([host for role in self.roles for host in role.living])

    def _before_decision(self, transactions: int) -> None:
        """An instance is about to ask for a commit: the moment at which a crash does most, and most to several."""
        if self.is_blowing and self.chance.random() < 0.02 * transactions**2:
            self.arm_crash()

    async def restart_broker(self) -> None:
        self.calm()
        await super().restart_broker()

    def broker_crashed(self, *, power_loss: bool) -> None:
        if power_loss:
            self.reader.begin_again()

    # The end

    async def _come_to_rest(self) -> None:
        """All faults end; then every transaction must, and what is visible must be whole."""
        await self._end_instances()
        await self.settle(self._open, limit_seconds=SETTLING_SECONDS, look_seconds=0.2)
        labels = {one: await self.ask(read_label(self.connector, one)) for one in self.transactional_ids}
        pending = [one for one, label in labels.items() if label is None]
        if pending:
            raise CheckFailed(f"the offsets of {pending} are still on their way")
        self.reader.begin_again()
        await self.settle(self._unread, limit_seconds=ENDING_SECONDS, look_seconds=0.05)
        check_whole(self.history, self.reader.views, labels)

    async def _open(self) -> list[str]:
        """Why not every transaction is over."""
        return [
            *await self.ask(under_way(self.connector)),
            *await self.ask(unstable(self.connector, TOPIC, PARTITIONS)),
        ]

    async def _unread(self) -> list[str]:
        unread = [view.partition for view in self.reader.views if not view.is_at_end]
        return [f"partition {one} is not read to its end" for one in unread]

    async def _end_instances(self) -> None:
        """Some end what they have begun; of the others the coordinators must rid themselves."""
        await self.pass_time(0.0)
        self.calm()
        if self.is_disk_hurt:
            # A log that cannot say where its aborted transactions are is not read from.
            self.simulation.crash(BROKER, power_loss=False)
            await self.pass_time(0.0)
        instances = [(host, instance) for role in self.roles for host, instance in role.actors.items()]
        for host, instance in instances:
            instance.must_stop = True
            # A connection that carries nothing any more is ended by no other.
            self.simulation.network.reset(BROKER, host)
            if not instance.is_over and self.chance.random() < 0.3:
                self.simulation.crash(host, power_loss=False)
                instance.die()
        self.simulation.network.reset(BROKER, READER)
        await self.wait_for_end(self.roles, ENDING_SECONDS, meanwhile=self.calm)
        for host, _ in instances:
            # What it has not sent until now it never will.
            if self.simulation.machine(host).processes:
                self.simulation.crash(host, power_loss=False)
        self.disk.call_off_crash()
        await self.pass_time(ON_THE_WIRE_SECONDS)


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
