"""A real disk that is full under the coordinators: Kafka's error to their clients, and no decision lost or invented."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.list_transactions import ListTransactionsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from levada.records import build_batch
from tests.brokers import BrokerProcess
from tests.chaos.test_full_disk import talk

TOPIC = "full"
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=1048576",
    "transaction.state.log.num.partitions=1",
    "transaction.state.log.segment.bytes=1048576",
    "log.segment.bytes=1048576",
    "log.flush.offset.checkpoint.interval.ms=100",
    "group.initial.rebalance.delay.ms=0",
)
SETTLE_SECONDS = 10
ENDINGS = ("room", "kill", "stop")
"""How the disk comes to have room again: while the broker runs, after a crash, after a stop."""
LONG = "x" * 5_000
"""Of a name, for which not even the last page of a file has room."""
NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
Committed = tuple[int, str | None]
"""An offset and its metadata."""


@contextmanager
def serving(small_disk: Path, log_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(small_disk / "data", *SETTINGS)
    broker.log_path = log_path
    broker.start()
    try:
        talk(broker, prepare)
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.log, broker.log
    finally:
        broker.kill()


async def prepare(channel: Channel) -> None:
    await channel.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
    for key_type in range(2):
        found = await channel.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"]), 6)
        assert found.coordinators[0].error_code == NONE


def make_room(broker: BrokerProcess, small_disk: Path, ending: str) -> None:
    if ending == "kill":
        broker.kill()
    elif ending == "stop":
        assert broker.stop() == 0
    for name in ("ballast", "filler"):
        (small_disk / name).unlink(missing_ok=True)
    if ending != "room":
        broker.start()


async def when_loaded(channel: Channel, request: Any, version: int, code_of: Callable[[Any], int]) -> Any:
    """The answer of a coordinator that has read its journal."""
    for _ in range(SETTLE_SECONDS * 20):
        reply = await channel.call(request, version)
        if code_of(reply) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return reply
        await asyncio.sleep(0.05)
    raise AssertionError("the coordinator does not load")


async def commit(channel: Channel, group: str, offset: int, metadata: str) -> ErrorCode:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    reply = await channel.call(OffsetCommitRequest(group_id=group, member_id="", topics=topics), 9)
    return ErrorCode(reply.topics[0].partitions[0].error_code)


async def committed(channel: Channel, *groups: str) -> dict[str, Committed]:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    wanted = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups]
    request = OffsetFetchRequest(groups=wanted, require_stable=True)
    reply = await when_loaded(channel, request, 9, lambda reply: reply.groups[0].error_code)
    found = {group.group_id: group.topics[0].partitions[0] for group in reply.groups}
    assert not any(one.error_code for one in found.values())
    return {group: (one.committed_offset, one.metadata) for group, one in found.items()}


async def join(channel: Channel, group: str, member: str = "") -> tuple[ErrorCode, str]:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member,
        protocol_type="consumer",
        protocols=protocols,
    )
    reply = await channel.call(request, 9)
    return ErrorCode(reply.error_code), reply.member_id


async def settle(channel: Channel, group: str) -> str:
    """A group of one member, with its assignment."""
    _, member = await join(channel, group)
    assert await join(channel, group, member) == (NONE, member)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"all")],
    )
    reply = await channel.call(request, 5)
    assert reply.error_code == NONE
    return member


async def heartbeat(channel: Channel, group: str, member: str) -> ErrorCode:
    reply = await channel.call(HeartbeatRequest(group_id=group, generation_id=1, member_id=member), 4)
    return ErrorCode(reply.error_code)


GROUPS = [f"group-{number}" for number in range(7)]


async def fill_with_commits(channel: Channel) -> dict[str, Committed]:
    """Commit until there is no room, with metadata long and short; what was acknowledged is returned."""
    acknowledged: dict[str, Committed] = {}
    refusals = 0
    for number in range(5_000):
        group = GROUPS[number % len(GROUPS)]
        metadata = f"{number}-" + "x" * (4_000 if refusals < 5 else 30)
        code = await commit(channel, group, number, metadata)
        if code is NONE:
            acknowledged[group] = number, metadata
            continue
        assert code is NOT_COORDINATOR
        refusals += 1
        if refusals == 25:
            return acknowledged
    raise AssertionError("the disk never filled")


@pytest.mark.parametrize("ending", ENDINGS)
def test_offsets_on_a_full_disk_are_those_that_were_acknowledged(small_disk: Path, tmp_path: Path, ending: str) -> None:
    with serving(small_disk, tmp_path / "broker.log") as broker:
        member = talk(broker, lambda channel: settle(channel, "settled"))
        acknowledged = talk(broker, fill_with_commits)
        assert list(acknowledged) == GROUPS
        assert talk(broker, lambda channel: committed(channel, *GROUPS)) == acknowledged
        assert talk(broker, lambda channel: join(channel, LONG))[0] is NOT_COORDINATOR
        # What is not written down goes on.
        assert talk(broker, lambda channel: heartbeat(channel, "settled", member)) is NONE

        make_room(broker, small_disk, ending)
        assert talk(broker, lambda channel: committed(channel, *GROUPS)) == acknowledged
        assert talk(broker, lambda channel: heartbeat(channel, "settled", member)) is NONE
        assert talk(broker, lambda channel: commit(channel, GROUPS[0], 9_000, "room again")) is NONE
        assert talk(broker, lambda channel: join(channel, LONG))[0] is ErrorCode.MEMBER_ID_REQUIRED
        assert broker.stop() == 0
        broker.start()
        expected = {**acknowledged, GROUPS[0]: (9_000, "room again")}
        assert talk(broker, lambda channel: committed(channel, *GROUPS)) == expected


@dataclass(slots=True)
class Producer:
    """One transaction of an id that no other producer has, with a record and an offset."""

    number: int
    name: str
    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def value(self) -> bytes:
        return b"%d" % self.number

    @property
    def is_commit(self) -> bool:
        return self.number % 3 != 0

    async def begin(self, channel: Channel) -> ErrorCode:
        reply = await channel.call(InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000), 5)
        self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
        return ErrorCode(reply.error_code)

    async def write(self, channel: Channel) -> None:
        records = build_batch(
            [(1_700_000_000_000, None, self.value, ())],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])
        produced = await channel.call(
            ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1_000, topic_data=[data]), 12
        )
        assert produced.responses[0].partition_responses[0].error_code == NONE
        offset = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.number, committed_metadata="note"
        )
        kept = await channel.call(
            TxnOffsetCommitRequest(
                transactional_id=self.name,
                group_id=self.name,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])],
            ),
            5,
        )
        assert kept.topics[0].partitions[0].error_code == NONE

    async def end(self, channel: Channel) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=self.is_commit,
        )
        return ErrorCode((await channel.call(request, 5)).error_code)


async def open_all(channel: Channel, producers: list[Producer]) -> None:
    for one in producers:
        assert await one.begin(channel) is NONE
        await one.write(channel)


async def end_all(channel: Channel, producers: list[Producer]) -> list[Producer]:
    """Those who were refused."""
    codes = [await one.end(channel) for one in producers]
    assert set(codes) <= {NONE, NOT_COORDINATOR}
    return [one for one, code in zip(producers, codes) if code is NOT_COORDINATOR]


async def names_in(channel: Channel, *states: str) -> set[str]:
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=[])
    reply = await when_loaded(channel, request, 1, lambda reply: reply.error_code)
    assert reply.error_code == NONE
    return {one.transactional_id for one in reply.transaction_states}


async def until_all_know(channel: Channel) -> None:
    """The partitions of every transaction that was decided have heard of it."""
    for _ in range(SETTLE_SECONDS * 20):
        if not await names_in(channel, "PrepareCommit", "PrepareAbort"):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("transactions that were decided are not finished")


def read_committed(broker: BrokerProcess) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([TOPIC])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(SETTLE_SECONDS)
            assert message is not None, "nothing came"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return values
            values.append(message.value() or b"")
    finally:
        consumer.close()


def fill_up(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4_096)):
                pass
        except OSError:
            pass


@pytest.mark.parametrize("ending", ENDINGS)
def test_transactions_on_a_full_disk_end_as_they_were_told_or_stay_open(
    small_disk: Path, tmp_path: Path, ending: str
) -> None:
    producers = [Producer(number, f"transaction-{number}") for number in range(60)]
    late = Producer(61, LONG)
    with serving(small_disk, tmp_path / "broker.log") as broker:
        talk(broker, lambda channel: open_all(channel, producers))
        fill_up(small_disk)
        still_open: list[Producer] = talk(broker, lambda channel: end_all(channel, producers))
        assert still_open
        assert talk(broker, lambda channel: names_in(channel, "Ongoing")) == {one.name for one in still_open}
        assert talk(broker, late.begin) is NOT_COORDINATOR

        make_room(broker, small_disk, ending)
        talk(broker, until_all_know)
        assert talk(broker, lambda channel: names_in(channel, "Ongoing")) == {one.name for one in still_open}
        assert talk(broker, lambda channel: end_all(channel, still_open)) == []
        assert talk(broker, late.begin) is NONE
        talk(broker, late.write)
        assert talk(broker, late.end) is NONE
        talk(broker, until_all_know)
        everybody = [*producers, late]
        assert sorted(read_committed(broker)) == sorted(one.value for one in everybody if one.is_commit)
        offsets = talk(broker, lambda channel: committed(channel, *(one.name for one in everybody)))
        assert offsets == {one.name: (one.number, "note") if one.is_commit else (-1, "") for one in everybody}
