"""Kills and pauses of brokers, the controller too, in a storm of changes: what was acknowledged is there, once."""

import asyncio
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from levada.protocol.declare import Request
from levada.sim.actors.topic_admin import TopicAdmin
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.served_topics import served_topics
from levada.sim.checkers.topic_history import ServedTopic, TopicHistory
from levada.sim.requests.connections import Caller, Connector
from levada.world.real import real_world
from tests.clusters import SESSION_MS, ClusterProcesses, sound_cluster
from tests.zookeepers import ZooKeeperEnsemble, ZooKeeperServer

T = TypeVar("T")

FAULTS = 100 if os.environ.get("LEVADA_SOAK") == "1" else 10
ADMINS, NAMES_EACH = 3, 2
CHANGES_IN_A_ROUND = 15
CALL_SECONDS = 4.0
SETTLE_SECONDS = 40.0
SETTINGS = (
    "auto.create.topics.enable=false",
    "log.segment.delete.delay.ms=500",
    "metadata.log.max.record.bytes.between.snapshots=20000",
)


class AnyBroker(Caller):
    """Asks one broker after the other, each only once: what had no answer may have been carried out."""

    def __init__(self, cluster: ClusterProcesses, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._caller = self._another()

    async def ask(self, request: Request[T], version: int, seconds: float = CALL_SECONDS) -> T | None:
        try:
            async with asyncio.timeout(seconds):
                reply = await self._caller.ask(request, version, seconds)
        except TimeoutError:
            # No program listens there.
            reply = None
        if reply is None or self._chance.random() < 0.1:
            self._caller.close()
            self._caller = self._another()
        return reply

    def close(self) -> None:
        self._caller.close()

    def _another(self) -> Caller:
        broker = self._chance.choice(list(self._cluster.brokers.values()))
        return Caller(real_world(), "localhost", broker.port)


class ClusterAdmin(TopicAdmin):
    """Changes topics and writes no records: those of a partition wait for its broker."""

    async def _produce(self, history: TopicHistory) -> None:
        await self._configure(history)


class Storm:
    def __init__(self, cluster: ClusterProcesses, seed: int, servers: Sequence[ZooKeeperServer] = ()) -> None:
        """Servers of ZooKeeper fail as brokers do, one at a time."""
        self._cluster = cluster
        self._servers = servers
        self._chance = random.Random(seed)
        self._callers = [AnyBroker(cluster, random.Random(f"{seed} {number}")) for number in range(ADMINS)]
        self.admins = [
            ClusterAdmin(
                caller,
                random.Random(f"{seed} admin {number}"),
                [f"storm.{number}-{index}" for index in range(NAMES_EACH)],
            )
            for number, caller in enumerate(self._callers)
        ]
        self._is_over = False

    async def round(self) -> None:
        """One fault while all admins are busy, and all of it over at the end."""
        self._is_over = False
        wanted = self._acknowledged() + CHANGES_IN_A_ROUND
        busy = [asyncio.ensure_future(self._change(admin)) for admin in self.admins]
        await self._until(wanted - CHANGES_IN_A_ROUND // 2)
        await self._fault()
        await self._until(wanted)
        self._is_over = True
        await asyncio.gather(*busy)

    async def _until(self, acknowledged: int) -> None:
        """So many changes, unless every topic is in doubt by then."""
        while self._acknowledged() < acknowledged and any(
            not history.is_unsure for admin in self.admins for history in admin.histories
        ):
            await asyncio.sleep(0.02)

    async def _change(self, admin: ClusterAdmin) -> None:
        while not self._is_over:
            await admin.act()

    async def _fault(self) -> None:
        if self._servers and self._chance.random() < 0.4:
            await self._fault_of_coordinator(self._chance.choice(self._servers))
            return
        broker = self._chance.choice(list(self._cluster.brokers.values()))
        loop = asyncio.get_running_loop()
        if self._chance.random() < 0.5:
            broker.kill()
            await asyncio.sleep(self._chance.choice((0.0, 0.5, SESSION_MS / 1000 + 1)))
            await loop.run_in_executor(None, broker.start)
        else:
            broker.pause()
            await asyncio.sleep(self._chance.choice((0.5, SESSION_MS / 1000 + 1, SESSION_MS / 1000 + 2)))
            broker.resume()

    async def _fault_of_coordinator(self, server: ZooKeeperServer) -> None:
        loop = asyncio.get_running_loop()
        if self._chance.random() < 0.5:
            server.kill()
            await asyncio.sleep(self._chance.choice((0.0, SESSION_MS / 1000 + 1)))
            server.start()
            await loop.run_in_executor(None, server.wait_until_serving)
        else:
            server.pause()
            await asyncio.sleep(self._chance.choice((0.5, SESSION_MS / 1000 + 1)))
            server.go_on()

    def _acknowledged(self) -> int:
        return sum(admin.acknowledged for admin in self.admins)

    async def check(self) -> None:
        """Every broker serves the same, and that is what the admins were told."""
        for caller in self._callers:
            caller.close()
        served = await self._settled()
        for admin in self.admins:
            for history in admin.histories:
                history.settle(served.pop(history.name, None))
        assert served == {}

    async def _settled(self) -> dict[str, ServedTopic]:
        """What all brokers agree on and goes on to be so."""
        before: list[dict[str, ServedTopic]] = []
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                now = [
                    served for served in [await self._served_by(port) for port in self._ports()] if served is not None
                ]
                if len(now) == len(self._cluster.brokers) and all(one == now[0] for one in now) and now == before:
                    return now[0]
                before = now
                await asyncio.sleep(0.5)

    async def _served_by(self, port: int) -> dict[str, ServedTopic] | None:
        connector = Connector(real_world(), "localhost", port)
        try:
            return await served_topics(connector)
        except CheckFailed:
            # Some of it has no leader yet.
            return None
        finally:
            connector.close()

    def _ports(self) -> list[int]:
        return [broker.port for broker in self._cluster.brokers.values()]


def weather(storm: Storm) -> None:
    async def main() -> None:
        for _ in range(FAULTS):
            await storm.round()
            await storm.check()

    asyncio.run(main())
    assert sum(admin.acknowledged for admin in storm.admins) > FAULTS * CHANGES_IN_A_ROUND // 2


def test_what_was_acknowledged_is_at_every_broker_after_every_fault(tmp_path: Path) -> None:
    with sound_cluster(ClusterProcesses(tmp_path / "cluster", 3, *SETTINGS)) as cluster:
        weather(Storm(cluster, seed=23))


def test_the_same_with_a_coordinator_of_several_servers_that_fail_too(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble:
        coordinator = f"zookeeper://{ensemble.hosts}/storm"
        with sound_cluster(ClusterProcesses(tmp_path / "cluster", 3, *SETTINGS, coordinator=coordinator)) as cluster:
            weather(Storm(cluster, seed=7, servers=ensemble.servers))
