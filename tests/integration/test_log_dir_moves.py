"""Replicas that move between the directories of a broker while clients use them: only the paths tell."""

import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from levada import Admin, Consumer, Producer
from levada.client.admin import OffsetSpec
from levada.client.errors import UnknownTopicOrPartition
from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from tests.brokers import BrokerProcess, sound
from tests.cleaning import cleaned_until, is_clean
from tests.integration.directories import SEGMENT_BYTES, SLOW, Moving, limit_moves, three_directories
from tests.integration.test_wire import talk
from tests.tools.stages import wait_until

WAIT_SECONDS = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = ("log.cleaner.backoff.ms=100", "log.segment.delete.delay.ms=500")
    with sound(three_directories(tmp_path_factory.mktemp("moves"), *settings)) as process:
        yield process


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Admin]:
    with Admin(broker.bootstrap) as made:
        limit_moves(made, None)
        yield made


def in_directory_a(broker: BrokerProcess, admin: Admin, topic: str, **configs: str) -> Moving:
    moving = Moving(broker, admin, topic).create(**configs)
    moving.move_to("a")
    moving.arrive_in("a")
    return moving


# Readers and writers


class Reader:
    """Reads a topic in a thread of its own from its beginning on."""

    def __init__(self, broker: BrokerProcess, moving: Moving, isolation_level: str) -> None:
        self.records: list[tuple[int, bytes | None]] = []
        self._end: int | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(broker, moving, isolation_level))
        self._thread.start()

    def finish(self, end: int) -> list[tuple[int, bytes | None]]:
        """All records before an offset, which the reader still goes on to."""
        self._end = end
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), f"{len(self.records)} records, and not at {end} yet"
        assert self._failure is None, self._failure
        return self.records

    def _run(self, broker: BrokerProcess, moving: Moving, isolation_level: str) -> None:
        try:
            options = {"auto_offset_reset": "none", "isolation_level": isolation_level}
            with Consumer(broker.bootstrap, **options) as consumer:
                consumer.assign([moving.partition])
                consumer.seek(moving.partition, 0)
                while self._end is None or consumer.position(moving.partition) < self._end:
                    self.records += [(one.offset, one.value) for one in consumer.poll(0.1)]
        except BaseException as failure:
            self._failure = failure


class Writer:
    """Writes transactions in a thread of its own, of which every third is aborted."""

    def __init__(self, broker: BrokerProcess, moving: Moving) -> None:
        self.committed: list[tuple[int, bytes]] = []
        self.aborted: list[tuple[int, bytes]] = []
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(broker, moving))
        self._thread.start()

    def finish(self) -> None:
        self._is_over.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        assert self._failure is None, self._failure

    def _run(self, broker: BrokerProcess, moving: Moving) -> None:
        try:
            with Producer(broker.bootstrap, transactional_id=moving.topic, linger_ms=1) as producer:
                producer.init_transactions()
                number = 0
                while not self._is_over.is_set():
                    self._write(producer, moving.topic, number)
                    number += 1
        except BaseException as failure:
            self._failure = failure

    def _write(self, producer: Producer, topic: str, number: int) -> None:
        producer.begin_transaction()
        values = [b"%d-%d-" % (number, one) + b"x" * 2_000 for one in range(10)]
        handles = [producer.send(topic, value, partition=0) for value in values]
        producer.flush()
        sent = [(handle.result(WAIT_SECONDS).offset, value) for handle, value in zip(handles, values)]
        if number % 3 == 2:
            producer.abort_transaction()
            self.aborted += sent
        else:
            producer.commit_transaction()
            self.committed += sent


def test_readers_and_writers_go_on_while_a_replica_moves(broker: BrokerProcess, admin: Admin) -> None:
    moving = in_directory_a(broker, admin, "in-use", internal_segment_bytes="1000000")
    writer = Writer(broker, moving)
    readers = {level: Reader(broker, moving, level) for level in ("read_committed", "read_uncommitted")}
    for name in ("b", "c", "a", "b"):
        before = len(writer.committed)
        wait_until(lambda before=before: len(writer.committed) > before + 60)  # type: ignore[misc]
        moving.move_to(name)
        moving.arrive_in(name)
    writer.finish()
    end = admin.list_offsets({moving.partition: OffsetSpec.LATEST})[moving.partition].offset
    assert writer.aborted
    assert readers["read_committed"].finish(end) == writer.committed
    assert readers["read_uncommitted"].finish(end) == sorted(writer.committed + writer.aborted)
    assert moving.directories() == ["b/in-use-0"]


# What the log knows


def lookups(moving: Moving) -> dict[str, object]:
    """What clients can find in the log without reading it."""
    found: dict[str, object] = {}
    specs = [OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP, *range(0, 400_000, 7_777)]
    for spec in specs:
        listed = moving.admin.list_offsets({moving.partition: spec})[moving.partition]
        found[f"at {spec}"] = listed.offset, listed.timestamp_ms, listed.leader_epoch

    async def ask(channel: Channel) -> None:
        for epoch in range(8):
            wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            topics = [OffsetForLeaderTopic(topic=moving.topic, partitions=[wanted])]
            answer = await channel.call(OffsetForLeaderEpochRequest(topics=topics), 4)
            end = answer.topics[0].partitions[0]
            found[f"epoch {epoch}"] = end.error_code, end.leader_epoch, end.end_offset

    talk(moving.broker, ask)
    return found


@contextmanager
def opened(broker: BrokerProcess, topic: str) -> Iterator[Moving]:
    with Admin(broker.bootstrap) as admin:
        yield Moving(broker, admin, topic)


def without_end(found: dict[str, object]) -> dict[str, object]:
    """Less what is another's with another life of the broker: its epoch, and that of the end."""
    later = {f"at {OffsetSpec.LATEST}", *(f"epoch {epoch}" for epoch in range(3, 8))}
    return {name: one for name, one in found.items() if name not in later}


def test_times_and_epochs_are_found_as_before(tmp_path: Path) -> None:
    broker = three_directories(tmp_path)
    for life in range(3):
        broker.start()
        with opened(broker, "t") as moving:
            if life == 0:
                moving.create()
            moving.fill(2 * SEGMENT_BYTES)
        if life < 2:
            assert broker.stop() == 0
    try:
        with opened(broker, "t") as moving:
            moving.admin.delete_records({moving.partition: 30}).raise_any()
            before = lookups(moving)
            assert before[f"at {OffsetSpec.EARLIEST}"] == (30, -1, 0)
            for name in ("b", "c"):
                moving.move_to(name)
                moving.arrive_in(name)
                assert lookups(moving) == before
        broker.kill()
        broker.start()
        with opened(broker, "t") as moving:
            assert moving.place == "c"
            assert without_end(lookups(moving)) == without_end(before)
    finally:
        broker.kill()


def test_a_batch_that_is_sent_again_after_a_move_is_known(broker: BrokerProcess, admin: Admin) -> None:
    moving = in_directory_a(broker, admin, "again")

    def send(sequence: int) -> tuple[int, int]:
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch([(now_ms, None, b"v", ())], producer_id=7_000, producer_epoch=0, base_sequence=sequence)
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name=moving.topic, partition_data=[data])]
        )

        async def ask(channel: Channel) -> Any:
            return (await channel.call(request, 9)).responses[0].partition_responses[0]

        found = talk(broker, ask)
        return found.error_code, found.base_offset

    assert [send(sequence) for sequence in range(4)] == [(0, offset) for offset in range(4)]
    moving.move_to("b")
    moving.arrive_in("b")
    assert [send(2), send(3), send(4)] == [(0, 2), (0, 3), (0, 4)]
    assert send(7)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_compacted_log_moves_and_is_cleaned_again(broker: BrokerProcess, admin: Admin) -> None:
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "internal_segment_bytes": "20000"}
    moving = in_directory_a(broker, admin, "compacted", **eager)

    def write() -> None:
        with Producer(broker.bootstrap, batch_size=1_000, linger_ms=0) as producer:
            for number in range(300):
                producer.send(moving.topic, b"x" * 400, key=b"key-%d" % (number % 5), partition=0)
            producer.flush()

    def cleaned_to(name: str) -> int:
        return cleaned_until(moving.root / name, "compacted")

    write()
    wait_until(lambda: is_clean(moving.root / "a", "compacted"))
    first = cleaned_to("a")
    moving.move_to("b")
    moving.arrive_in("b")
    write()
    wait_until(lambda: is_clean(moving.root / "b", "compacted") and cleaned_to("b") > first)
    begun = re.search(rf"cleaned log={moving.root}/b/compacted-0 from=(\d+) ", broker.log)
    assert begun is not None
    assert int(begun[1]) == first
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([moving.partition])
        keys: list[bytes | None] = []
        while consumer.position(moving.partition) < 600:
            keys += [
                record.key
                for record in consumer.poll(1.0)
                if record.offset < cleaned_until(moving.root / "b", "compacted")
            ]
    assert sorted(keys, key=str) == sorted(set(keys), key=str)


# Goals that change


def test_a_limit_slows_a_move(broker: BrokerProcess, admin: Admin) -> None:
    moving = in_directory_a(broker, admin, "slow")
    moving.fill(6 * SEGMENT_BYTES)
    limit_moves(admin, 3 * SEGMENT_BYTES)
    begun = time.monotonic()
    moving.move_to("b")
    moving.arrive_in("b")
    # The segment that is written to is not copied at that rate, and the one before it may be a little smaller.
    assert time.monotonic() - begun > 1.2


def is_copied_to(moving: Moving, name: str) -> bool:
    """Whether some of its records have arrived."""
    copies = (moving.root / name).glob(f"{moving.topic}-0.*-future/*.log")
    return any(path.stat().st_size for path in copies)


def test_a_limit_that_is_lifted_is_lifted_for_the_move_under_way(broker: BrokerProcess, admin: Admin) -> None:
    moving = in_directory_a(broker, admin, "lifted", internal_segment_bytes="3000000")
    moving.fill(4_000_000)
    limit_moves(admin, 1_000)
    moving.move_to("b")
    wait_until(lambda: is_copied_to(moving, "b"))
    limit_moves(admin, None)
    moving.arrive_in("b")


def test_a_slow_move_is_called_off_at_once(broker: BrokerProcess, admin: Admin) -> None:
    moving = in_directory_a(broker, admin, "off", internal_segment_bytes="3000000")
    moving.fill(4_000_000)
    limit_moves(admin, 1_000)
    moving.move_to("b")
    wait_until(lambda: is_copied_to(moving, "b"))
    moving.move_to("a")
    assert moving.target == ""
    wait_until(lambda: moving.directories() == ["a/off-0"])
    moving.move_to("c")
    limit_moves(admin, None)
    moving.arrive_in("c")


def test_another_goal_takes_the_place_of_the_first(broker: BrokerProcess, admin: Admin) -> None:
    moving = in_directory_a(broker, admin, "redirected")
    moving.fill(6 * SEGMENT_BYTES)
    limit_moves(admin, SLOW)
    moving.move_to("b")
    assert moving.target == "b"
    moving.move_to("c")
    assert (moving.place, moving.target) == ("a", "c")
    limit_moves(admin, None)
    moving.arrive_in("c")
    wait_until(lambda: moving.directories() == ["c/redirected-0"])


def test_a_topic_is_deleted_while_it_moves_and_can_be_made_again(broker: BrokerProcess, admin: Admin) -> None:
    moving = in_directory_a(broker, admin, "deleted")
    moving.fill(6 * SEGMENT_BYTES)
    limit_moves(admin, SLOW)
    moving.move_to("b")
    assert moving.target == "b"
    admin.delete_topics(["deleted"]).raise_any()
    assert (moving.place, moving.target) == ("", "")
    with pytest.raises(UnknownTopicOrPartition):
        moving.move_to("a")
    moving.create()
    # The copy of the old one may not have been given up yet.
    moving.move_to("b")
    assert moving.fill(3_000) == 3
    limit_moves(admin, None)
    moving.arrive_in("b")
    assert admin.list_offsets({moving.partition: OffsetSpec.LATEST})[moving.partition].offset == 3
    wait_until(lambda: moving.directories() == ["b/deleted-0"])


# Ends of the broker


@pytest.mark.parametrize("end", [BrokerProcess.stop, BrokerProcess.kill], ids=["stopped", "killed"])
def test_a_move_goes_on_after_a_restart(tmp_path: Path, end: Callable[[BrokerProcess], object]) -> None:
    broker = three_directories(tmp_path).start()
    try:
        with opened(broker, "t") as moving:
            moving.create()
            count = moving.fill(6 * SEGMENT_BYTES)
            source = moving.place
            limit_moves(moving.admin, SLOW)
            moving.move_to("c")
            assert moving.target == "c"
        end(broker)
        broker.start()
        with opened(broker, "t") as moving:
            assert (moving.place, moving.target) == (source, "c")
            limit_moves(moving.admin, None)
            moving.arrive_in("c")
            assert moving.admin.list_offsets({moving.partition: OffsetSpec.LATEST})[moving.partition].offset == count
            wait_until(lambda: moving.directories() == ["c/t-0"])
    finally:
        broker.kill()


def test_a_directory_that_moved_to_another_path_is_known_by_its_id(tmp_path: Path) -> None:
    broker = three_directories(tmp_path).start()
    try:
        with opened(broker, "t") as moving:
            moving.create()
            count = moving.fill(SEGMENT_BYTES)
            moving.move_to("c")
            moving.arrive_in("c")
        assert broker.stop() == 0
        shutil.move(tmp_path / "c", tmp_path / "d")
        broker = BrokerProcess(tmp_path / "a", more_directories=[tmp_path / "b", tmp_path / "d"]).start()
        with opened(broker, "t") as moving:
            assert moving.place == "d"
            assert moving.admin.list_offsets({moving.partition: OffsetSpec.LATEST})[moving.partition].offset == count
    finally:
        broker.kill()
