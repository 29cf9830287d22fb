"""Our admin client against three Apache Kafka brokers: each request to the right one, moves, elections, a dead one."""

import asyncio
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from levada.client.admin import (
    AbortTransaction,
    Admin,
    ConfigResource,
    ElectionType,
    NewTopic,
    OffsetSpec,
    Replica,
)
from levada.client.errors import TimedOut
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from tests.clients.admin_cases.case import Target, known, until
from tests.clients.admin_cases.surroundings import open_transaction, produce
from tests.interop.apache_broker import JARS, SETTINGS, START_SECONDS, STOP_SECONDS, free_ports, java

BROKERS = (1, 2, 3)
SPREAD = {
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.num.partitions": 6,
    "broker.heartbeat.interval.ms": 200,
}
"""Coordinators on every broker, and a death that is soon noticed."""


class ApacheCluster:
    """Three brokers, of which the first is the controller and stays alive."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        controller_port, *ports = free_ports(1 + len(BROKERS))
        self.addresses = {broker: f"localhost:{port}" for broker, port in zip(BROKERS, ports)}
        for broker in BROKERS:
            self._format(broker, controller_port)

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def start(self, *brokers: int) -> None:
        for broker in brokers:
            with self._log(broker).open("w") as log:
                command = java("kafka.Kafka", str(self._settings(broker)))
                self._processes[broker] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_SECONDS * len(brokers)
        while any("Kafka Server started" not in self._log(broker).read_text(errors="replace") for broker in brokers):
            assert all(process.poll() is None for process in self._processes.values()), self._directory
            assert time.monotonic() < deadline, self._directory
            time.sleep(0.1)

    def kill(self, *brokers: int) -> None:
        for broker in brokers:
            process = self._processes.pop(broker, None)
            if process is not None:
                process.send_signal(signal.SIGKILL)
                process.wait(STOP_SECONDS)

    def _format(self, broker: int, controller_port: int) -> None:
        listeners = [f"PLAINTEXT://{self.addresses[broker]}"]
        if broker == BROKERS[0]:
            listeners.append(f"CONTROLLER://localhost:{controller_port}")
        settings: dict[str, Any] = (
            SETTINGS
            | SPREAD
            | {
                "process.roles": "broker,controller" if broker == BROKERS[0] else "broker",
                "node.id": broker,
                "log.dirs": f"{self._directory}/data-{broker}-a,{self._directory}/data-{broker}-b",
                "listeners": ",".join(listeners),
                "controller.quorum.voters": f"{BROKERS[0]}@localhost:{controller_port}",
            }
        )
        self._settings(broker).write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = ["kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--config"]
        formatted = subprocess.run(
            java(*command, str(self._settings(broker))),
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert formatted.returncode == 0, formatted.stderr

    def _settings(self, broker: int) -> Path:
        return self._directory / f"server-{broker}.properties"

    def _log(self, broker: int) -> Path:
        return self._directory / f"broker-{broker}.log"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, so Apache's brokers were not asked")
    if not JARS.exists():
        pytest.skip("Apache's broker is not here; test_apache_broker.py fetches it with Maven")
    cluster = ApacheCluster(tmp_path_factory.mktemp("apache-cluster"))
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.kill(*BROKERS)


async def create(admin: Admin, topic: NewTopic) -> list[TopicPartition]:
    (await admin.create_topics([topic])).raise_any()
    await known(admin, topic.name)
    described = (await admin.describe_topics([topic.name]))[topic.name]
    return [TopicPartition(topic.name, one.index) for one in described.partitions]


def one_on_each(name: str) -> NewTopic:
    return NewTopic(name, assignments={number: [broker] for number, broker in enumerate(BROKERS)})


def test_partitions_are_asked_of_their_own_leaders(cluster: ApacheCluster) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap) as admin:
            partitions = await create(admin, one_on_each("led"))
            for partition in partitions:
                produce(Target(cluster.bootstrap), "led", *[b"v"] * 3, partition=partition.partition)
            ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
            assert [end.offset for end in ends.values()] == [3, 3, 3]
            deleted = await admin.delete_records({partition: partition.partition for partition in partitions})
            assert list(deleted.values()) == [0, 1, 2]
            producers = await admin.describe_producers(partitions)
            assert list(producers.done) == partitions

    asyncio.run(ask())


def test_groups_and_transactions_are_asked_of_their_own_coordinators(cluster: ApacheCluster) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap) as admin:
            (first, *_) = await create(admin, one_on_each("read"))
            groups = [f"group-{number}" for number in range(12)]
            for number, group in enumerate(groups):
                (await admin.alter_group_offsets(group, {first: number})).raise_any()
            offsets = await admin.list_group_offsets(groups)
            assert [offsets[group][first] for group in groups] == [OffsetAndMetadata(one) for one in range(12)]
            described = await admin.describe_consumer_groups(groups)
            assert len({one.coordinator for one in described.values()}) > 1
            assert {one.group_id for one in await admin.list_groups()} >= set(groups)

            ids = [f"copier-{number}" for number in range(8)]
            fenced = await admin.fence_producers(ids)
            assert [one.producer_epoch for one in fenced.values()] == [0] * 8
            transactions = await admin.describe_transactions(ids)
            assert len({one.coordinator for one in transactions.values()}) > 1
            assert {one.transactional_id for one in await admin.list_transactions()} >= set(ids)
            (await admin.delete_groups(groups)).raise_any()

    asyncio.run(ask())


def test_any_broker_passes_on_what_is_for_the_controller(cluster: ApacheCluster) -> None:
    async def ask() -> None:
        for broker, address in cluster.addresses.items():
            async with Admin(address) as admin:
                name = f"forwarded-{broker}"
                await create(admin, NewTopic(name, 1, 3))
                (await admin.create_partitions({name: 2})).raise_any()
                (
                    await admin.incremental_alter_configs({ConfigResource.topic(name): {"segment.ms": "9000"}})
                ).raise_any()
                assert (await admin.describe_quorum()).leader_id == BROKERS[0]
                (await admin.delete_topics([name])).raise_any()

    asyncio.run(ask())


def test_each_broker_tells_its_own_configuration_and_directories(cluster: ApacheCluster) -> None:
    async def ask() -> None:
        async with Admin(cluster.addresses[2]) as admin:
            resources = [ConfigResource.broker(broker) for broker in BROKERS]
            configs = await admin.describe_configs(resources, keys=["node.id"])
            assert [configs[one]["node.id"].value for one in resources] == ["1", "2", "3"]
            directories = await admin.describe_log_dirs()
            assert [[path[-3:] for path in sorted(directories[broker])] for broker in BROKERS] == [
                [f"{broker}-a", f"{broker}-b"] for broker in BROKERS
            ]

    asyncio.run(ask())


def test_replicas_are_moved_between_brokers_and_directories(cluster: ApacheCluster) -> None:
    async def ask() -> None:
        async with Admin(cluster.bootstrap) as admin:
            (first,) = await create(admin, NewTopic("moved", assignments={0: [1, 2]}))
            produce(Target(cluster.bootstrap), "moved", *[b"v" * 1_000] * 20)
            (await admin.alter_partition_reassignments({first: [3, 2]})).raise_any()

            async def has_arrived() -> bool:
                moves = await admin.list_partition_reassignments()
                (partition,) = (await admin.describe_topics(["moved"]))["moved"].partitions
                assert first not in moves or moves[first].adding == (3,)
                return first not in moves and partition.replicas == (3, 2) and set(partition.in_sync) == {3, 2}

            await until("the partition has moved", has_arrived)

            replica = Replica("moved", 0, 3)
            here = (await admin.describe_replica_log_dirs([replica]))[replica].path
            there = next(path for path in (await admin.describe_log_dirs([3]))[3] if path != here)
            (await admin.alter_replica_log_dirs({replica: there})).raise_any()

            async def lies_there() -> bool:
                return (await admin.describe_replica_log_dirs([replica]))[replica].path == there

            await until("the replica has moved", lies_there)

    asyncio.run(ask())


def test_a_dead_broker_is_seen_and_gets_its_partitions_back(cluster: ApacheCluster) -> None:
    async def leader(admin: Admin) -> int | None:
        (partition,) = (await admin.describe_topics(["survivor"]))["survivor"].partitions
        return partition.leader

    async def ask() -> None:
        async with Admin(cluster.bootstrap, request_timeout_ms=5_000) as admin:
            (first,) = await create(admin, NewTopic("survivor", assignments={0: [3, 1]}))
            (lonely,) = await create(admin, NewTopic("lonely", assignments={0: [3]}))
            produce(Target(cluster.bootstrap), "survivor", b"v")
            assert await leader(admin) == 3
            cluster.kill(3)
            # Asked of the dead leader first, then of the next.
            assert (await admin.list_offsets({first: OffsetSpec.LATEST}))[first].offset == 1
            assert await leader(admin) == 1
            found = await admin.list_offsets({first: OffsetSpec.LATEST, lonely: OffsetSpec.LATEST}, timeout_ms=3_000)
            assert list(found.done) == [first]
            assert isinstance(found.errors[lonely], TimedOut)
            assert "LEADER_NOT_AVAILABLE" in str(found.errors[lonely])
            assert [one.broker_id for one in (await admin.describe_cluster()).brokers] == [1, 2]
            fenced = (await admin.describe_cluster(include_fenced_brokers=True)).brokers
            assert [(one.broker_id, one.is_fenced) for one in fenced] == [(1, False), (2, False), (3, True)]
            await asyncio.to_thread(cluster.start, 3)

            async def is_elected() -> bool:
                elected = await admin.elect_leaders([first], election_type=ElectionType.PREFERRED)
                codes = {error.code for error in elected.errors.values()}
                assert codes <= {ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELECTION_NOT_NEEDED}, codes
                return await leader(admin) == 3

            await until("the preferred leader leads again", is_elected)

    asyncio.run(ask())


def test_a_transaction_is_aborted_wherever_its_partition_is(cluster: ApacheCluster) -> None:
    async def ask() -> None:
        target = Target(cluster.bootstrap)
        async with Admin(cluster.addresses[1]) as admin:
            (first,) = await create(admin, NewTopic("hanging", assignments={0: [2]}))
            with open_transaction(target, "hanging", "hanging") as producer:
                (only,) = (await admin.describe_producers([first]))[first]
                hanging = AbortTransaction(first, only.producer_id, only.producer_epoch, only.coordinator_epoch or 0)
                await admin.abort_transaction(hanging)
                assert (await admin.describe_producers([first]))[first][0].transaction_start_offset is None
                producer.abort_transaction(30)

    asyncio.run(ask())
