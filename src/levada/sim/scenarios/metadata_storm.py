"""One node under a storm of changes to its topics, crashes of every kind, and everything compared after each."""

from collections.abc import Coroutine, Iterator
from typing import Any

from levada.sim.actors.topic_admin import TopicAdmin
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.served_topics import check_topics, served_topics
from levada.sim.checkers.topic_history import ServedTopic, TopicHistory
from levada.sim.frame.faults import BROKER
from levada.sim.frame.rounds import RoundFault, Rounds
from levada.sim.frame.run import NEVER
from levada.sim.frame.scenario import PORT
from levada.sim.requests.connections import Caller
from levada.sim.world import DATA_DIRECTORY, Simulation
from levada.storage.log_directory import DELETED
from levada.world.world import World

ADMINS = 3
NAMES_EACH = 2


class MetadataStorm(Rounds):
    purpose = "metadata storm"
    limit_ms = 20 * 60_000
    crash_within = (0, 10, 300)
    rounds = 5
    faults = (
        RoundFault.NONE,
        RoundFault.NONE,
        RoundFault.FULL_DISK,
        RoundFault.WRITE_ERRORS,
        RoundFault.RESETS,
    )
    spare_bytes = 5_000
    append_error_rate = 0.05
    pauses = (1, 8)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.admins: list[TopicAdmin] = []
        self.flush_messages = self.chance.choice((1, NEVER))
        self._snapshot_bytes = self.chance.choice((1, 2_000, 1 << 20))

    @property
    def settings(self) -> dict[str, str]:
        return {
            "auto.create.topics.enable": "false",
            "log.segment.delete.delay.ms": "500",
            "metadata.log.max.record.bytes.between.snapshots": str(self._snapshot_bytes),
        }

    def counts(self) -> dict[str, int]:
        return {"changes": sum(admin.acknowledged for admin in self.admins)}

    async def prepare(self) -> None:
        """The broker is there once it says which topics it has."""
        await served_topics(self.connector)

    def workers(self, world: World) -> Iterator[Coroutine[Any, Any, None]]:
        for number in range(ADMINS):
            names = [f"storm.{number}-{index}" for index in range(NAMES_EACH)]
            admin = TopicAdmin(Caller(world, BROKER, PORT), self.simulation.chance("storm", str(number)), names)
            self.admins.append(admin)
            yield self._change(admin)

    async def _change(self, admin: TopicAdmin) -> None:
        while await self.turns.wait():
            await self.turns.take(admin.act())

    def lose_power(self) -> None:
        for history in self._histories():
            history.lose_power()

    async def check(self) -> None:
        self._check_directories(await check_topics(self.connector, self._histories()))

    def _histories(self) -> list[TopicHistory]:
        return [history for admin in self.admins for history in admin.histories]

    def _check_directories(self, served: dict[str, ServedTopic]) -> None:
        """What lies on the disk is what is served, and what is on its way out."""
        directory = self.simulation.machine(BROKER).file_system.find_directory(DATA_DIRECTORY)
        names = [name for name in directory.entries if name.rpartition("-")[2].isdigit()]
        partitions = [f"{name}-{index}" for name, topic in served.items() for index in range(topic.partitions)]
        if sorted(names) != sorted(partitions):
            raise CheckFailed(f"on the disk are {sorted(names)}, served are {sorted(partitions)}")
        others = {name for name in directory.entries if "-" in name and not name.endswith((DELETED, "-checkpoint"))}
        if others - set(names):
            raise CheckFailed(f"on the disk are {sorted(others - set(names))}, which belong to no topic")
