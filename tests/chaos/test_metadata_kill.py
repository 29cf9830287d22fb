"""SIGKILL in a storm of creates, deletes, partition and config changes: metadata and disk agree after each."""

import asyncio
import os
import random
from pathlib import Path

from levada.broker.replicas import topic_id_of
from levada.sim.actors.topic_admin import TopicAdmin
from levada.sim.checkers.served_topics import check_topics
from levada.sim.checkers.topic_history import ServedTopic
from levada.sim.requests.connections import Caller, Connector
from levada.storage.log_directory import DELETED
from levada.world.real import real_world
from levada.world.real_disk import RealDisk
from tests.brokers import BrokerProcess

KILLS = 100 if os.environ.get("LEVADA_SOAK") == "1" else 8
CLIENTS, NAMES_EACH = 3, 3
SETTINGS = (
    "auto.create.topics.enable=false",
    "log.segment.delete.delay.ms=500",
    "metadata.log.max.record.bytes.between.snapshots=20000",
)


def admins_on(broker: BrokerProcess) -> list[TopicAdmin]:
    return [
        TopicAdmin(
            Caller(real_world(), "localhost", broker.port),
            random.Random(number),
            [f"storm.{number}-{index}" for index in range(NAMES_EACH)],
        )
        for number in range(CLIENTS)
    ]


class Round:
    """All clients change topics until so many changes more are acknowledged, the broker is killed and back again."""

    def __init__(self, admins: list[TopicAdmin], changes: int) -> None:
        self._admins = admins
        self._wanted = self._acknowledged() + changes
        self._is_over = False
        self._has_enough = asyncio.Event()

    async def run(self, broker: BrokerProcess) -> None:
        clients = [asyncio.ensure_future(self._blow(admin)) for admin in self._admins]
        enough = asyncio.ensure_future(self._has_enough.wait())
        await asyncio.wait([enough, *clients], return_when=asyncio.FIRST_COMPLETED)
        broker.kill()
        self._is_over = True
        broker.start()
        # What is under way ends without an answer, or begins only now.
        await asyncio.gather(enough, *clients)

    async def _blow(self, admin: TopicAdmin) -> None:
        while not self._is_over:
            await admin.act()
            if self._acknowledged() >= self._wanted:
                self._has_enough.set()

    def _acknowledged(self) -> int:
        return sum(admin.acknowledged for admin in self._admins)


def check_directories(directory: Path, served: dict[str, ServedTopic]) -> None:
    """What lies on the disk is what is served, and what is on its way out."""
    found = {
        path.name: topic_id_of(RealDisk(), str(path))
        for path in directory.iterdir()
        if path.is_dir() and path.name != "coordinator" and not path.name.endswith(DELETED)
    }
    expected = {
        f"{name}-{index}": topic.topic_id for name, topic in served.items() for index in range(topic.partitions)
    }
    assert found == expected


def test_metadata_and_disk_agree_after_every_kill(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", *SETTINGS).start()
    chance = random.Random(1)

    async def main() -> None:
        admins = admins_on(broker)
        connector = Connector(real_world(), "localhost", broker.port)
        for _ in range(KILLS):
            await Round(admins, chance.randint(1, 60)).run(broker)
            served = await check_topics(connector, [one for admin in admins for one in admin.histories])
            check_directories(broker.data_directory, served)
        connector.close()

    try:
        asyncio.run(main())
        assert "Traceback" not in broker.log, broker.log
        assert broker.stop() == 0
    finally:
        broker.kill()
