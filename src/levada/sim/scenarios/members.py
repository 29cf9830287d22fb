"""Brokers of one machine that share a coordinator, under a storm of changes by clients that ask any of them."""

import asyncio
from collections.abc import Iterator
from typing import Final

from levada.metadata.image import TOPIC, Image
from levada.metadata.records import NO_LEADER
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.sim.actors.topic_admin import TopicAdmin
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.served_topics import served_topics
from levada.sim.checkers.topic_history import ServedTopic
from levada.sim.frame.cluster import MACHINE, Cluster, Member
from levada.sim.frame.rounds import Turns
from levada.sim.frame.storm import Action
from levada.sim.requests.connections import Caller, Connector
from levada.sim.world import Simulation
from levada.storage.log_directory import DELETED
from levada.world.world import World

SIZES: Final = (3, 3, 5)
ADMINS = 3
NAMES_EACH = 3
ROUNDS = 3
FAULTS_A_ROUND: Final = (1, 4)
LONGEST_CALM_SECONDS = 1.5
LONGEST_PAUSE_SECONDS = 0.3
"""Between two changes by a client."""
LIMIT_SECONDS = 90.0
"""For brokers to be at rest: one that found no controller tries for half a minute."""
REST_SECONDS = 4.0
"""What clients have given up may still be on its way; a broker has connected to the controller within 3 s, or not."""
KILLS_WITHIN: Final = (1, 10, 100)
"""Disk operations."""
SPARE_BYTES = 5_000
ADMIN: Final = "admin"


class Members(Cluster):
    purpose = "members"
    limit_ms = 20 * 60_000

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.size = self.chance.choice(SIZES)
        self.admins: list[TopicAdmin] = []
        self.turns = Turns()
        self.faults = 0
        self._producer_ids: dict[int, None] = {}
        self._session_ms = self.chance.choice((2_000, 4_000))
        self._snapshot_bytes = self.chance.choice((1, 3_000, 1 << 20))

    @property
    def settings(self) -> dict[str, str]:
        return {
            "auto.create.topics.enable": "false",
            "broker.heartbeat.interval.ms": str(self._session_ms // 5),
            "broker.session.timeout.ms": str(self._session_ms),
            "log.segment.delete.delay.ms": "500",
            "metadata.log.max.record.bytes.between.snapshots": str(self._snapshot_bytes),
        }

    def counts(self) -> dict[str, int]:
        return {
            "brokers": self.size,
            "changes": sum(admin.acknowledged for admin in self.admins),
            "controllers": len(self.ledger.controllers),
            "faults": self.faults,
        }

    async def main(self) -> None:
        self.start_all(self.size)
        await self.settle(self._unrest, rest_seconds=0.1, limit_seconds=LIMIT_SECONDS)
        for number in range(ADMINS):
            self.watched.append(self._spawn_admin(number))
        self.watched.append(self.simulation.start("producer", self._ask_for_ids))
        for _ in range(ROUNDS):
            self.turns.open()
            for _ in range(self.chance.randint(*FAULTS_A_ROUND)):
                await self.pass_time(self.chance.random() * LONGEST_CALM_SECONDS)
                self._disturb()
            await self.pass_time(self.chance.random() * self._session_ms / 500)
            self.turns.pause()
            self.heal()
            await self.settle(self._unrest, rest_seconds=REST_SECONDS, limit_seconds=LIMIT_SECONDS)
            self.is_disk_hurt = False
            self._check_at_rest()
        self.turns.end()
        for watched in self.watched:
            await watched
        await self.simulation.start(ADMIN, self._check_served)

    # Clients

    def _spawn_admin(self, number: int) -> "asyncio.Future[None]":
        names = [f"storm.{number}-{index}" for index in range(NAMES_EACH)]
        host = f"client-{number}"
        chance = self.simulation.chance("members admin", str(number))
        caller = self._caller(self.simulation.world(host), number)
        seconds = self.chance.choice((2.0, 10.0))
        admin = TopicAdmin(caller, chance, names, call_seconds=seconds, writes=False)
        self.admins.append(admin)
        return self.simulation.spawn(host, self._change(admin, chance.random() * LONGEST_PAUSE_SECONDS))

    async def _change(self, admin: TopicAdmin, pause_seconds: float) -> None:
        while await self.turns.wait():
            await self.turns.take(admin.act())
            await asyncio.sleep(pause_seconds)

    async def _ask_for_ids(self, world: World) -> None:
        """A producer id is given once, by whichever broker."""
        caller = self._caller(world, 0)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while await self.turns.wait():
            reply = await caller.ask(request, 4)
            if reply is not None and reply.error_code == ErrorCode.NONE:
                if reply.producer_id in self._producer_ids:
                    raise CheckFailed(f"producer id {reply.producer_id} was given twice")
                self._producer_ids[reply.producer_id] = None
            caller.move_on()
            await asyncio.sleep(0.3)

    def _caller(self, world: World, number: int) -> Caller:
        addresses = [member.address for member in self.members.values()]
        first = number % len(addresses)
        return Caller(world, *addresses[first], addresses[first + 1 :] + addresses[:first])

    # Faults

    def _disturb(self) -> None:
        """One fault, by the seed; the controller has more of them than others."""
        self.faults += 1
        member = self._pick()
        actions: tuple[Action, ...] = (
            (4, lambda: self.kill(member)),
            (3, lambda: self.kill_within(member, self.chance.randrange(self.chance.choice(KILLS_WITHIN)))),
            (4, lambda: self.pause(member, self._session_ms / 1000 * (0.5 + self.chance.random()))),
            (3, lambda: self.silence_at_door(member, self.chance.randint(3, 10))),
            (2, lambda: self.stop(member)),
            (2, lambda: self._cut(member)),
            (1, self.lose_power),
            (1, self.fail_appends),
            (1, lambda: self.fill_disk(self.chance.randrange(SPARE_BYTES))),
        )
        self.chance.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()

    def _pick(self) -> Member:
        controller = self.controller()
        if controller is not None and self.chance.random() < 0.5:
            return controller
        return self.chance.choice(list(self.members.values()))

    def _cut(self, member: Member) -> None:
        """From another broker, from all of them, or from a client; one way or both."""
        others = [one.place for one in self.members.values() if one is not member]
        clients = [f"client-{number}" for number in range(ADMINS)]
        cut = self.chance.choice(([self.chance.choice(others)], others, [self.chance.choice(clients)]))
        one_way = self.chance.random() < 0.3
        for place in cut:
            self.simulation.network.partition(member.place, place, one_way=one_way)

    # What must hold

    def _unrest(self) -> list[str]:
        """Why not all is at rest."""
        image = self.ledger.image
        running = list(self.running())
        found = [f"broker {node_id} is not up" for node_id in self.members if self.members[node_id] not in running]
        if self.turns.busy:
            found.append("clients wait for answers")
        for member in running:
            assert member.node is not None
            parts, known = member.node.parts, image.brokers.get(member.node_id)
            if known is None or known.is_fenced or known.epoch != parts.broker.epoch:
                found.append(f"broker {member.node_id} of epoch {parts.broker.epoch} is known as {known}")
            if parts.broker.image.offset != image.offset:
                found.append(f"broker {member.node_id} is at {parts.broker.image.offset} of {image.offset}")
            if not parts.membership.has_lease:
                found.append(f"broker {member.node_id} has no lease")
        controllers = [
            one.node_id for one in running if one.node is not None and one.node.parts.membership.is_controller
        ]
        if len(controllers) != 1:
            found.append(f"controllers are {controllers}")
        for name, index in _leaderless(image):
            found.append(f"{name}-{index} has no leader")
        return found

    def _check_at_rest(self) -> None:
        """All brokers have the same image, in which is what clients were told, once; logs lie where it says."""
        image = self.ledger.image
        served = _topics(image)
        for member in self.members.values():
            assert member.node is not None
            self.ledger.check_image(member.node.process, member.node.parts.broker.image)
            self._check_directory(member, image)
        histories = {history.name: history for admin in self.admins for history in admin.histories}
        if strangers := sorted(set(served) - set(histories)):
            raise CheckFailed(f"no client created {strangers}")
        for name, history in histories.items():
            history.settle(served.get(name))

    def _check_directory(self, member: Member, image: Image) -> None:
        names = self.simulation.machine(MACHINE).file_system.find_directory(member.directory).entries
        found = sorted(
            name for name in names if "-" in name and not name.endswith((DELETED, "-checkpoint", "-copy", ".tmp"))
        )
        wanted = sorted(
            f"{topic.name}-{partition.index}"
            for topic in image.topics.values()
            for partition in topic.partitions
            if member.node_id in partition.replicas
        )
        missing = [name for name in wanted if name not in found]
        if missing or (found != wanted and not member.is_hurt):
            raise CheckFailed(f"in {member.directory} is {found}, but its partitions are {wanted}")

    async def _check_served(self, world: World) -> None:
        """By requests, every broker tells of the same topics."""
        for member in self.members.values():
            connector = Connector(world, *member.address)
            served = await served_topics(connector)
            connector.close()
            if served != _topics(self.ledger.image):
                raise CheckFailed(f"broker {member.node_id} serves {served}, not {_topics(self.ledger.image)}")


def _leaderless(image: Image) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader == NO_LEADER or not image.is_online(partition, partition.leader):
                yield topic.name, partition.index


def _topics(image: Image) -> dict[str, ServedTopic]:
    return {
        name: ServedTopic(topic.topic_id, len(topic.partitions), tuple(sorted(image.config_of(TOPIC, name).items())))
        for name, topic in image.topics.items()
    }
