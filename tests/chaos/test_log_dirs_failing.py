"""Directories that vanish, return, fill up or fail: their replicas are offline, the others go on, nothing is lost."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import EACCES, EIO, EROFS
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from levada import Admin, Producer
from levada.client.admin import ConfigResource, NewTopic
from levada.client.errors import KafkaError
from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.net.channel import Channel
from levada.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.sim import Simulation
from levada.sim.actors.idempotent_producer import IdempotentProducer
from levada.sim.checkers import PartitionHistory
from levada.sim.checkers.partition_log import read_log
from levada.sim.requests.connections import Connector
from levada.sim.requests.topics import create_topic
from levada.sim.world.disk_faults import DiskFaults
from tests.brokers import BrokerProcess
from tests.chaos.directories import (
    DIRECTORIES,
    OFFSETS,
    TRANSACTIONS,
    Writer,
    is_idle,
    leftovers,
    move,
    places,
    read_all,
    running,
    several,
    wait_for_rounds,
)
from tests.chaos.test_full_coordinators import Producer as Transaction
from tests.chaos.test_full_coordinators import commit, committed, names_in, prepare, read_committed, until_all_know
from tests.chaos.test_full_disk import talk
from tests.simulation.moving_log import FIRST as SIM_FIRST
from tests.simulation.moving_log import SECOND as SIM_SECOND
from tests.simulation.moving_log import Town
from tests.tools.stages import wait_until

FIRST, SECOND, THIRD = DIRECTORIES
TOPIC = "failing"
NONE, STORAGE_ERROR = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
NO_LEADER = -1
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
OFFLINE = "ERROR levada.node.directory_watch log directory offline directory="


@contextmanager
def serving(root: Path, *settings: str, names: tuple[str, ...] = DIRECTORIES) -> Iterator[BrokerProcess]:
    broker = several(root, *settings, names=names)
    broker.start()
    try:
        yield broker
        assert "Traceback" not in broker.log, broker.log
    finally:
        broker.kill()


@contextmanager
def writing(broker: BrokerProcess) -> Iterator[dict[str, Writer]]:
    """A partition with a writer in every directory, by the directory's name."""
    root = broker.log_path.parent
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, len(DIRECTORIES))]).raise_any()
    wait_until(lambda: len(places(root)) == len(DIRECTORIES))
    by_name = {name: Writer(broker.bootstrap, TOPIC, index) for (_, index), [name] in places(root).items()}
    assert sorted(by_name) == sorted(DIRECTORIES)
    with ExitStack() as stack:
        for writer in by_name.values():
            stack.enter_context(running(writer))
        wait_for_rounds(list(by_name.values()))
        yield by_name


def take_away(root: Path, name: str) -> None:
    (root / name).rename(root / f"{name}-away")


def bring_back(root: Path, name: str) -> None:
    """Whatever a broker has made in its place meanwhile."""
    if (root / name).exists():
        shutil.rmtree(root / name)
    (root / f"{name}-away").rename(root / name)


def end(broker: BrokerProcess, ending: str) -> None:
    if ending == "kill":
        broker.kill()
    else:
        assert broker.stop() == 0


def failed_directories(admin: Admin) -> list[str]:
    found = admin.describe_log_dirs([1])[1]
    for one in found.values():
        assert one.error is None or one.error.code == STORAGE_ERROR
    return [Path(path).name for path, one in found.items() if one.error is not None]


def wait_for_failure(broker: BrokerProcess, name: str) -> None:
    with Admin(broker.bootstrap) as admin:
        wait_until(lambda: failed_directories(admin) == [name])
    wait_until(lambda: OFFLINE in broker.log)


async def produce_code(channel: Channel, partition: int) -> int:
    data = PartitionProduceData(index=partition, records=build_batch([(0, None, b"refused", ())]))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    response: Any = await channel.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
    return int(response.responses[0].partition_responses[0].error_code)


async def fetch_code(channel: Channel, partition: int) -> int:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
    response: Any = await channel.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
    return int(response.responses[0].partitions[0].error_code)


async def leaders(channel: Channel) -> dict[int, int]:
    response: Any = await channel.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
    return {one.partition_index: one.leader_id for one in response.topics[0].partitions}


def check_refused(broker: BrokerProcess, writers: dict[str, Writer], name: str) -> None:
    """What asks for the partition there is told so; the others have their leader."""
    lost = writers[name].partition.partition
    assert talk(broker, lambda channel: produce_code(channel, lost)) == STORAGE_ERROR
    assert talk(broker, lambda channel: fetch_code(channel, lost)) == STORAGE_ERROR
    found = talk(broker, leaders)
    assert found == {index: NO_LEADER if index == lost else 1 for index in found}


def check_all(broker: BrokerProcess, writers: dict[str, Writer]) -> None:
    """All write again, and have all that was acknowledged."""
    wait_for_rounds(list(writers.values()))
    for writer in writers.values():
        writer.pause()
        writer.check(read_all(broker.bootstrap, writer.partition), 0)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_directory_that_vanishes_takes_its_partitions_along_and_brings_them_back(tmp_path: Path, ending: str) -> None:
    with serving(tmp_path) as broker, writing(broker) as writers:
        take_away(tmp_path, SECOND)
        wait_for_failure(broker, SECOND)
        wait_for_rounds([writers[FIRST], writers[THIRD]])
        check_refused(broker, writers, SECOND)
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("later", 4)]).raise_any()
        with Producer(broker.bootstrap) as producer:
            handles = [producer.send("later", b"here", partition=index) for index in range(4)]
            assert [handle.result(10).offset for handle in handles] == [0] * 4
        assert not (tmp_path / SECOND).exists()
        # It is of no use before a restart: no start has looked at what is in it now.
        bring_back(tmp_path, SECOND)
        check_refused(broker, writers, SECOND)
        end(broker, ending)
        broker.start()
        check_all(broker, writers)
        with Admin(broker.bootstrap) as admin:
            assert failed_directories(admin) == []


def test_a_topic_is_made_elsewhere_when_a_directory_has_just_vanished(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, Admin(broker.bootstrap) as admin:
        take_away(tmp_path, SECOND)
        # It had the fewest logs, so it would be the place for half of them.
        admin.create_topics([NewTopic(TOPIC, 6)]).raise_any()
        with Producer(broker.bootstrap) as producer:
            handles = [producer.send(TOPIC, b"here", partition=index) for index in range(6)]
            assert [handle.result(10).offset for handle in handles] == [0] * 6
        assert not (tmp_path / SECOND).exists()
        found = places(tmp_path, (FIRST, THIRD))
        assert sorted(found) == [(TOPIC, index) for index in range(6)]


def test_a_blank_directory_in_the_place_of_another_does_not_make_its_partitions_anew(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, writing(broker) as writers:
        assert broker.stop() == 0
        take_away(tmp_path, SECOND)
        broker.start()
        wait_for_rounds([writers[FIRST], writers[THIRD]])
        with Admin(broker.bootstrap) as admin:
            assert failed_directories(admin) == []
        check_refused(broker, writers, SECOND)
        assert [path for path in (tmp_path / SECOND).iterdir() if path.is_dir()] == []
        assert broker.stop() == 0
        bring_back(tmp_path, SECOND)
        broker.start()
        check_all(broker, writers)


@pytest.mark.parametrize("victim", ["source", "target"])
def test_a_directory_that_vanishes_during_a_move_ends_the_move(tmp_path: Path, victim: str) -> None:
    gone = SECOND if victim == "source" else THIRD
    with serving(tmp_path, "log.roll.ms=200") as broker, writing(broker) as writers:
        moving = writers[SECOND]
        wait_for_rounds([moving], 30)
        with Admin(broker.bootstrap) as admin:
            admin.incremental_alter_configs({ConfigResource.broker(1): {RATE: "200000"}}).raise_any()
            move(admin, {moving.partition: tmp_path / THIRD})
            wait_until(lambda: any((tmp_path / THIRD).glob("*-future/*.log")))
            take_away(tmp_path, gone)
            wait_for_failure(broker, gone)
            wait_until(lambda: f"not moved log={TOPIC}-{moving.partition.partition} " in broker.log)
            wait_for_rounds([writer for name, writer in writers.items() if name != gone])
            check_refused(broker, writers, gone)
            assert is_idle(admin)
            staying = tuple(name for name in DIRECTORIES if name != gone)
            wait_until(lambda: not leftovers(tmp_path, staying))
            admin.incremental_alter_configs({ConfigResource.broker(1): {RATE: "100000000"}}).raise_any()
        broker.kill()
        bring_back(tmp_path, gone)
        broker.start()
        check_all(broker, writers)
        wait_until(lambda: not leftovers(tmp_path))
        assert places(tmp_path)[moving.partition] == [SECOND if victim == "source" else THIRD]


@pytest.mark.parametrize("gone", [SECOND, THIRD])
def test_a_move_from_or_to_a_directory_that_is_gone_already_is_refused_or_given_up(tmp_path: Path, gone: str) -> None:
    with serving(tmp_path) as broker, writing(broker) as writers:
        moving = writers[SECOND]
        with Admin(broker.bootstrap) as admin:
            take_away(tmp_path, gone)
            # Whether the broker has noticed it yet or not.
            with suppress(KafkaError):
                move(admin, {moving.partition: tmp_path / THIRD})
            assert not (tmp_path / gone).exists()
            wait_for_failure(broker, gone)
            wait_until(lambda: is_idle(admin))
            wait_for_rounds([writer for name, writer in writers.items() if name != gone])
            check_refused(broker, writers, gone)
        broker.kill()
        bring_back(tmp_path, gone)
        broker.start()
        check_all(broker, writers)
        wait_until(lambda: not leftovers(tmp_path))


def has_ended(pid: int) -> bool:
    """Whether it waits only for its parent to ask for its exit code."""
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_a_broker_whose_first_directory_is_gone_stops_with_a_line(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        take_away(tmp_path, FIRST)
        wait_until(lambda: has_ended(broker.pid))
        assert broker.stop() == 1
        told = [line for line in broker.log.splitlines() if line.startswith("levada: ")]
        assert len(told) == 1
        assert told[0].startswith(f"levada: the broker has stopped: {tmp_path / FIRST} has failed")
        bring_back(tmp_path, FIRST)
        broker.start()


def fill_up(directory: Path, left: int) -> None:
    room = os.statvfs(directory)
    with (directory / "filler").open("wb") as filler:
        filler.write(bytes(max(room.f_bavail * room.f_frsize - left, 0)))


@pytest.mark.parametrize("room", [100_000, 600_000, 1_500_000])
def test_a_move_to_a_full_disk_is_given_up_and_leaves_nothing(small_disk: Path, tmp_path: Path, room: int) -> None:
    """The disk has no room for a closed segment, for the end of the log, or for anything beside them."""
    names = (FIRST, small_disk.name)
    with serving(tmp_path, names=names) as broker, Admin(broker.bootstrap) as admin, ExitStack() as stack:
        admin.create_topics([NewTopic(TOPIC, 1)]).raise_any()
        writer = stack.enter_context(running(Writer(broker.bootstrap, TOPIC, 0)))
        wait_until(lambda: len(writer.acknowledged) > 1_900)
        writer.pause()
        assert places(tmp_path, names) == {(TOPIC, 0): [FIRST]}
        fill_up(small_disk, room)
        move(admin, {(TOPIC, 0): small_disk})
        wait_until(lambda: f"not moved log={TOPIC}-0 to={small_disk} reason=" in broker.log)
        wait_until(lambda: not leftovers(tmp_path, names))
        assert places(tmp_path, names) == {(TOPIC, 0): [FIRST]}
        assert failed_directories(admin) == []
        writer.resume()
        wait_for_rounds([writer])
        for name in ("ballast", "filler"):
            (small_disk / name).unlink()
        writer.pause()
        move(admin, {(TOPIC, 0): small_disk})
        wait_until(lambda: not leftovers(tmp_path, names) and is_idle(admin))
        assert places(tmp_path, names) == {(TOPIC, 0): [small_disk.name]}
        writer.check(read_all(broker.bootstrap, writer.partition), 0)


COORDINATORS = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
AWAY = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
"""What makes a client look for the coordinator again, until it is there."""


def name_in(root: Path, directory: str, kind: str, *topics: str) -> str:
    """The name of a group or transaction whose coordinators have their journals in a directory."""
    here = {key for key, found in places(root).items() if found == [directory]}
    names = (f"{kind}-{number}" for number in range(1_000))
    return next(name for name in names if {(topic, coordinator_partition(name, 3)) for topic in topics} <= here)


async def find_code(channel: Channel, name: str, key_type: int) -> int:
    found: Any = await channel.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name]), 6)
    return int(found.coordinators[0].error_code)


def test_groups_and_transactions_of_a_failed_directory_wait_for_it_and_others_go_on(tmp_path: Path) -> None:
    with serving(tmp_path, *COORDINATORS) as broker:
        talk(broker, prepare)
        groups = {name: name_in(tmp_path, name, "group", OFFSETS) for name in DIRECTORIES}
        opened = {
            name: Transaction(number, name_in(tmp_path, name, "transaction", TRANSACTIONS))
            for number, name in ((1, FIRST), (2, THIRD))
        }
        for group in groups.values():
            assert talk(broker, partial(commit, group=group, offset=5, metadata="before")) == NONE
        for transaction in opened.values():
            assert talk(broker, transaction.begin) == NONE
            talk(broker, transaction.write)
        take_away(tmp_path, THIRD)
        wait_for_failure(broker, THIRD)
        lost, kept = groups[THIRD], groups[SECOND]
        assert talk(broker, lambda channel: commit(channel, lost, 9, "lost")) in AWAY
        assert talk(broker, opened[THIRD].end) in AWAY
        assert talk(broker, lambda channel: find_code(channel, lost, 0)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (
            talk(broker, lambda channel: find_code(channel, opened[THIRD].name, 1))
            == ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        assert talk(broker, lambda channel: commit(channel, kept, 7, "after")) == NONE
        assert talk(broker, opened[FIRST].end) == NONE
        broker.kill()
        bring_back(tmp_path, THIRD)
        broker.start()
        expected = {groups[FIRST]: (5, "before"), kept: (7, "after"), lost: (5, "before")}
        assert talk(broker, lambda channel: committed(channel, *groups.values())) == expected
        assert talk(broker, opened[THIRD].end) == NONE
        talk(broker, until_all_know)
        assert sorted(read_committed(broker)) == [b"1", b"2"]


def test_a_decided_transaction_waits_for_a_partition_in_a_failed_directory(tmp_path: Path) -> None:
    with serving(tmp_path, *COORDINATORS) as broker:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("before", 1)]).raise_any()
        talk(broker, prepare)
        [home] = places(tmp_path)["full", 0]
        assert home == SECOND
        transaction = Transaction(1, name_in(tmp_path, FIRST, "transaction", TRANSACTIONS, OFFSETS))
        assert talk(broker, transaction.begin) == NONE
        talk(broker, transaction.write)
        take_away(tmp_path, home)
        wait_for_failure(broker, home)
        assert talk(broker, transaction.end) == NONE
        assert talk(broker, lambda channel: names_in(channel, "PrepareCommit")) == {transaction.name}
        assert broker.stop() == 0
        bring_back(tmp_path, home)
        broker.start()
        talk(broker, until_all_know)
        assert read_committed(broker) == [b"1"]


READ_ONLY = [("append", EROFS), ("sync", EIO), ("append", EACCES)]
"""Of a disk that the kernel has taken the right to write from, or whose device is broken."""


@pytest.mark.parametrize(("operation", "error"), READ_ONLY)
@pytest.mark.parametrize("power_loss", [False, True])
def test_a_directory_whose_files_cannot_be_written_is_offline_until_they_can(
    operation: str, error: int, power_loss: bool
) -> None:
    with Simulation(1) as simulation:
        town = Town(simulation)

        async def session() -> None:
            connector = town.connector
            await create_topic(connector, TOPIC, 2)
            writers = [IdempotentProducer(connector, town.doors.clock.now_ms, TOPIC, index) for index in range(2)]
            histories = [PartitionHistory(), PartitionHistory()]
            for index in range(2):
                await writers[index].send([b"before"], histories[index])
            faults = town.machine.file_system.faults
            faults.fail_next(operation, path_part=f"{SIM_SECOND}/", error=error, count=1_000)
            sending = asyncio.ensure_future(writers[1].send([b"waiting"], histories[1]))
            await writers[0].send([b"meanwhile"], histories[0])
            while await error_of(connector, SIM_SECOND) != STORAGE_ERROR:
                await asyncio.sleep(0.05)
            assert await error_of(connector, SIM_FIRST) == NONE
            assert not sending.done()
            town.machine.file_system.faults = DiskFaults(simulation.chance("mended"))
            town.crash(power_loss=power_loss)
            town.start()
            await sending
            for index in range(2):
                histories[index].check(await read_log(connector, TOPIC, index))
            connector.close()

        async def main() -> None:
            town.start()
            await town.as_client(session())

        simulation.run(main(), limit_ms=600_000)


async def error_of(connector: Connector, directory: str) -> int:
    response: Any = await connector.call(DescribeLogDirsRequest(topics=None), 4)
    return next(int(one.error_code) for one in response.results if one.log_dir == directory)
