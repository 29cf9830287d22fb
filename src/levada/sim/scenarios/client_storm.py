"""One node and our own clients, while it and they die, links are cut, slow and silent, and clocks are set."""

import random
from functools import partial

from levada.sim.actors.client_members import (
    MADE,
    POLL_INTERVAL_SECONDS,
    ClientGroup,
    ClientMember,
    Processor,
    all_groups,
)
from levada.sim.actors.client_process import ClientProcess
from levada.sim.actors.client_transactors import TransactionalWriter, Transactor
from levada.sim.actors.client_writers import PARTITIONS, PLAIN, TRANSACTIONAL, PlainWriter
from levada.sim.checkers.partition_log import Partition, PartitionLog, read_committed_offsets
from levada.sim.checkers.read_history import check_once
from levada.sim.checkers.send_history import SendHistory
from levada.sim.checkers.transaction_history import TransactionFate
from levada.sim.frame.faults import BROKER, LinkFault
from levada.sim.frame.role import Make, Role, host_of
from levada.sim.frame.scenario import SHORT_GROUP_TIMES
from levada.sim.frame.storm import Action, Storm
from levada.sim.requests.topics import create_topic
from levada.sim.world import Simulation
from levada.world.world import World

MAX_MESSAGE_BYTES = "1000"
"""Less than some batches have, so that they are sent in two."""
LOST_ANSWERS = 0.02
SKEW_MS = 50 * 60_000
"""Less than the hour by which a record may be ahead of its broker."""
ENDING_SECONDS = 60.0
SETTLING_SECONDS = 30.0
CALM_CHANGES = 5


class ClientStorm(Storm[ClientProcess]):
    purpose, actor_purpose = "client storm", "life"
    limit_ms = 10 * 60_000
    steps = 20
    step_seconds = 1.2
    crash_within = (0, 40)
    longest_pause_seconds = 9
    link_faults = (
        LinkFault.RESET,
        LinkFault.RESET,
        LinkFault.STALL,
        LinkFault.PARTITION,
        LinkFault.GIVEN_UP,
        LinkFault.ONE_WAY,
        LinkFault.LATE,
        LinkFault.SLOW,
    )

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.sends = SendHistory()
        self.groups = all_groups(self.chance)
        self._by_transactional_id: dict[str, list[TransactionalWriter]] = {}
        self._logs = {
            (topic, index): PartitionLog((topic, index))
            for topic, count in PARTITIONS.items()
            for index in range(count)
        }
        self._writing = [
            self._role("writer", 3, self._make_writer),
            self._role("first", 2, partial(self._make_transactor, "first"), first=1),
            self._role("second", 2, partial(self._make_transactor, "second"), first=1),
        ]
        self._processing = self._role("processor", 2, self._make_processor)
        self._reading = [
            self._processing,
            *(self._role(one.history.group_id, 3, partial(self._make_member, one)) for one in self.groups[:-1]),
        ]
        self.roles = [*self._writing, *self._reading]

    @property
    def settings(self) -> dict[str, str]:
        return {
            "auto.create.topics.enable": "false",
            "log.segment.bytes": "1048576",
            "log.index.interval.bytes": "200",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
            **SHORT_GROUP_TIMES,
        }

    def counts(self) -> dict[str, int]:
        return {
            "records": self.sends.acknowledged,
            "commits": self.sends.count(TransactionFate.COMMITTED),
            "aborts": self.sends.count(TransactionFate.ABORTED),
            "reads": sum(len(each) for group in self.groups for each in group.history.reads.values()),
        }

    def actions(self) -> list[Action]:
        return [
            (10, self.start_one),
            (3, self.stop_one),
            (5, self.kill_one),
            (3, self.pause_one),
            (3, self._pause_processor),
            (10, self.disturb_link),
            (2, self.calm),
            (1, self._set_clock),
            (3, self.arm_crash),
        ]

    async def play(self) -> None:
        for topic, partitions in PARTITIONS.items():
            configs = {"max.message.bytes": MAX_MESSAGE_BYTES}
            await self.ask(create_topic(self.connector, topic, partitions, configs))
        self.start_first()
        await self.blow()
        # What was ordered for later comes first.
        await self.pass_time(0.1)
        self.calm()
        self.disk.call_off_crash()
        await self._stop(self._writing)
        await self._come_to_rest()
        await self._change_members()
        await self._stop(self.roles)
        await self._check()

    # Processes

    def _role(self, name: str, hosts: int, make: Make[ClientProcess], first: int = 2) -> Role[ClientProcess]:
        return Role(name, hosts, partial(self._make, make), first)

    def _make(self, make: Make[ClientProcess], name: str, world: World, chance: random.Random) -> ClientProcess:
        process = make(name, world, chance)
        if isinstance(process, TransactionalWriter):
            self._note_rivals(process)
        process.before_answer = partial(self._lose_answer, host_of(name))
        return process

    def _make_writer(self, name: str, world: World, chance: random.Random) -> ClientProcess:
        return PlainWriter(name, world, chance, self.sends)

    def _make_transactor(self, transactional_id: str, name: str, world: World, chance: random.Random) -> ClientProcess:
        return Transactor(name, world, chance, self.sends, transactional_id)

    def _make_processor(self, name: str, world: World, chance: random.Random) -> ClientProcess:
        return Processor(name, world, chance, self.sends, self.groups[-1], host_of(name))

    def _make_member(self, group: ClientGroup, name: str, world: World, chance: random.Random) -> ClientProcess:
        instance_id = host_of(name) if chance.random() < 0.3 else None
        return ClientMember(name, world, chance, self.sends, group, instance_id)

    def _note_rivals(self, process: TransactionalWriter) -> None:
        """The new one takes the id from all before, unless one of them, dead or alive, only asks for it later."""
        rivals = self._by_transactional_id.setdefault(process.transactional_id, [])
        process.has_rival = any(not other.is_ready for other in rivals)
        for other in rivals:
            other.has_rival = True
        rivals.append(process)

    def _pause_processor(self) -> None:
        """Long enough for its group to go on without it, and then it wants to commit what it has read."""
        role = self._processing
        if role.living:
            seconds = POLL_INTERVAL_SECONDS + self.chance.random() * 3
            role.actors[self.chance.choice(role.living)].pause_seconds = seconds

    # The world around them

    async def interrupt(self, step: int) -> bool:
        if step == self.steps // 2:
            self.arm_crash()
        return False

    def disturb_link(self) -> None:
        """For a while, or until all is calm."""
        if picked := self.pick():
            host = picked[0]
            self.links.disturb(host, self.link_faults)
            if self.chance.random() < 0.5:
                self.simulation.loop.call_later(self.chance.random() * 4, self.links.heal, host)

    def calm(self) -> None:
        for host in self.hosts():
            self.links.heal(host)

    def _lose_answer(self, host: str) -> None:
        """Cut a host off in the moment in which it waits to hear that something was done."""
        if not self.is_blowing or self.chance.random() > LOST_ANSWERS:
            return
        loop, network = self.simulation.loop, self.simulation.network
        moment_s = self.chance.random() * self.chance.choice((0.005, 0.06))
        if self.chance.random() < 0.5:
            loop.call_later(moment_s, network.reset, BROKER, host)
        else:
            loop.call_later(moment_s, partial(network.partition, BROKER, host, one_way=True))
            loop.call_later(moment_s + self.chance.random() * 3, self.links.heal, host)

    def _set_clock(self) -> None:
        """A client's clock is set, on which no timeout may depend.

        Not the broker's: a transaction's time is counted from the clock at its beginning, as in Kafka.
        """
        if picked := self.pick():
            self.simulation.machine(picked[0]).skew_ms = self.chance.randint(-SKEW_MS, SKEW_MS)

    def broker_crashed(self, *, power_loss: bool) -> None:
        """No power is lost here, and so no record: nothing that must hold depends on it."""

    def downtime_seconds(self) -> float:
        return self.chance.random() * self.chance.choice((0.2, 4.0))

    def check_actors(self) -> None:
        super().check_actors()
        self.sends.check_deadlines(self.now_s)

    # The end

    async def _stop(self, roles: list[Role[ClientProcess]]) -> None:
        for role in roles:
            role.stop()
        await self.wait_for_end(roles, ENDING_SECONDS)

    async def _come_to_rest(self) -> None:
        """Nothing goes wrong any more: everything is read, processed and committed before long."""
        await self.settle(self._unsettled, limit_seconds=SETTLING_SECONDS, look_seconds=0.5)

    async def _unsettled(self) -> list[str]:
        """Why not everything is at rest."""
        for role in self._reading:
            if not role.living:
                self.start(role, role.free[0])
        logs = await self._read_logs()
        reasons = [f"{one} has open transactions" for one, log in logs.items() if not log.is_settled]
        processes = [role.actors[host] for role in self.roles for host in role.living]
        reasons += [f"{process.name} stands still" for process in processes if process.pause_seconds]
        for group in self.groups:
            reasons += await self._unread(group, logs)
        return reasons

    async def _unread(self, group: ClientGroup, logs: dict[Partition, PartitionLog]) -> list[str]:
        history, partitions = group.history, [one for one in logs if one[0] in group.topics]
        owners = history.owners()
        reasons = [
            f"{history.group_id}: {one} has owners {owners.get(one)}"
            for one in partitions
            if len(owners.get(one, ())) != 1
        ]
        committed = await self.ask(read_committed_offsets(self.connector, history.group_id, partitions))
        for one in partitions:
            end, read = logs[one].visible_end, history.last_read(one)
            at = history.check_committed(one, None if committed is None else committed[one])
            if at < end or read < end - 1:
                reasons.append(f"{history.group_id} has read {one} to {read}, committed {at} of {end}")
        return reasons

    async def _change_members(self) -> None:
        """While nothing goes wrong, members come and go, and no partition ever has two of them."""
        for group in self.groups:
            group.history.is_strict = True
        for _ in range(CALM_CHANGES):
            role = self.chance.choice(self._reading)
            if role.free and (self.chance.random() < 0.6 or len(role.living) < 2):
                self.start(role, self.chance.choice(role.free))
            else:
                role.actors[self.chance.choice(role.living)].must_stop = True
            await self.pass_time(self.chance.random() * self.chance.choice((0.5, 3.0)))
        await self._come_to_rest()

    async def _check(self) -> None:
        logs = {one: log.entries for one, log in (await self._read_logs()).items()}
        self.sends.check_logs(logs)
        for group in self.groups:
            group.history.check_reads({one: log for one, log in logs.items() if one[0] in group.topics})
        check_once(logs, PLAIN, TRANSACTIONAL, MADE)

    async def _read_logs(self) -> dict[Partition, PartitionLog]:
        for log in self._logs.values():
            await self.ask(log.read(self.connector))
        return self._logs
