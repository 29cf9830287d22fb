"""Ends of transactions in the partitions of a broker: one that is refused, and writes of which a part is there."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from levada.broker import markers
from levada.broker.handlers import write_txn_markers
from levada.broker.markers import MarkerSender
from levada.broker.partition import Partition
from levada.groups import CommittedOffset, GroupSettings, commit_record
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from levada.records import BatchView, build_batch
from levada.storage.marker_writes import MarkerWrite
from levada.storage.outcomes import MarkersAppended
from levada.storage.producers import Origin, Producers, TransactionEnd
from levada.transactions import Marker, MarkerWork
from tests.logs import T0
from tests.nodes import RunningNode, running_node
from tests.unit.broker.hosted_groups import coordinator_of, loaded, offsets_partition
from tests.unit.broker.test_group_coordinator import LoopClock

GROUP = bytes(range(16))
MEMBERS = (101, 102, 103)
FENCED = 102
WAIT_SECONDS = 20


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, WAIT_SECONDS))


async def begun(node: RunningNode) -> Partition:
    """A partition with a transaction of each member; one of them has gone on to a later epoch."""
    await node.create("topic")
    partition = node.broker.partition("topic", bytes(16), 0)
    for producer in MEMBERS:
        batch = build_batch(
            [(T0, None, b"value", ())],
            producer_id=producer,
            producer_epoch=1 if producer == FENCED else 0,
            base_sequence=0,
            is_transactional=True,
        )
        partition.append(batch, allows_zstd=True, now_ms=T0, is_verified=True)
    assert partition.log.last_stable_offset == 0
    return partition


def is_open(partition: Partition, producer_id: int) -> bool:
    known = partition.log.producers.get(producer_id)
    return known is not None and known.transaction_start is not None


def test_a_refused_marker_of_a_group_keeps_no_other_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            partition = await begun(node)
            ends = tuple(Marker(f"{one}", one, 0, True, 0, (("topic", 0),)) for one in MEMBERS)
            completed: list[Sequence[Marker]] = []
            await MarkerSender(node.broker).send(MarkerWork(ends, GROUP), 0, completed.append)
            assert completed == [[], list(ends)], "what is refused has ended in another way"
            assert [is_open(partition, one) for one in MEMBERS] == [False, True, False]
            assert partition.log.last_stable_offset == MEMBERS.index(FENCED)

    run(main())


def test_others_have_turns_while_a_transaction_of_many_partitions_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "MARKERS_AT_ONCE", 2)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("wide", 9)
            work = MarkerWork((Marker("t", 101, 0, True, 0, tuple(("wide", index) for index in range(9))),))
            completed: list[Sequence[Marker]] = []
            beside = asyncio.ensure_future(other())
            await MarkerSender(node.broker).send(work, 0, completed.append)
            beside.cancel()
            assert completed[-1] == list(work.markers)

    run(main())
    assert turns >= 3


def test_each_marker_of_a_request_is_answered_for_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            partition = await begun(node)
            request = WriteTxnMarkersRequest(
                markers=[
                    WritableTxnMarker(
                        producer_id=one,
                        producer_epoch=0,
                        transaction_result=True,
                        coordinator_epoch=0,
                        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in ("topic", "none")],
                    )
                    for one in MEMBERS
                ]
            )
            answer = await node.call(request)
            codes = [[topic.partitions[0].error_code for topic in one.topics] for one in answer.markers]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert codes == [
                [ErrorCode.NONE, unknown],
                [ErrorCode.INVALID_PRODUCER_EPOCH, unknown],
                [ErrorCode.NONE, unknown],
            ]
            assert [is_open(partition, one) for one in MEMBERS] == [False, True, False]

    run(main())


def test_a_marker_that_names_a_partition_twice_ends_its_transaction_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            partition = await begun(node)
            topics = [WritableTxnMarkerTopic(name="topic", partition_indexes=[0, 0])] * 2
            marker = WritableTxnMarker(
                producer_id=101, producer_epoch=0, transaction_result=True, coordinator_epoch=0, topics=topics
            )
            answer = await node.call(WriteTxnMarkersRequest(markers=[marker]))
            codes = [one.error_code for topic in answer.markers[0].topics for one in topic.partitions]
            assert codes == [ErrorCode.NONE] * 4
            assert partition.log.end_offset == len(MEMBERS) + 1

    run(main())


def test_others_have_turns_while_a_request_with_many_markers_is_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_txn_markers, "AT_ONCE", 10)
    sizes: list[int] = []

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("topic", 2)
            partition = node.broker.partition("topic", bytes(16), 0)
            append = Partition.append_markers

            def noted(self: Partition, ends: Sequence[TransactionEnd], group: bytes, now_ms: int) -> MarkersAppended:
                if self is partition:
                    sizes.append(len(ends))
                return append(self, ends, group, now_ms)

            monkeypatch.setattr(Partition, "append_markers", noted)
            topics = [WritableTxnMarkerTopic(name="topic", partition_indexes=[0, 1])]
            markers = [
                WritableTxnMarker(
                    producer_id=one, producer_epoch=0, transaction_result=True, coordinator_epoch=0, topics=topics
                )
                for one in range(25)
            ]
            answer = await node.call(WriteTxnMarkersRequest(markers=markers))
            assert len(answer.markers) == 25
            assert partition.log.end_offset == 25

    run(main())
    assert sizes == [10, 10, 5]


def test_offsets_of_a_group_commit_count_when_all_its_markers_are_in_their_partition(tmp_path: Path) -> None:
    """Those that a torn write has left say nothing to the group coordinator that reads them."""
    producers = MEMBERS[:2]

    async def committed(partition: Partition) -> dict[int, int]:
        coordinator = coordinator_of(GroupSettings(), LoopClock())
        await loaded(coordinator, partition)
        [machine] = coordinator.machines()
        coordinator.close()
        return {index: one.offset for index, one in machine.offsets.of("g").get("topic", {}).items()}

    async def main() -> None:
        partition = offsets_partition(tmp_path)
        coordinator = coordinator_of(GroupSettings(), LoopClock())
        await loaded(coordinator, partition)
        for index, producer in enumerate(producers):
            request = TxnOffsetCommitRequest(
                transactional_id="t", group_id="g", producer_id=producer, producer_epoch=0, topics=[]
            )
            records = [commit_record("g", "topic", index, CommittedOffset(5, 0, "", 0), producer, 0)]
            codes: list[ErrorCode] = await coordinator.submit(
                "g",
                lambda machine, token, now_ms: machine.commit_in_transaction(token, request, 5, records, now_ms),  # noqa: B023
            )
            assert len(codes) == len(records)
        coordinator.close()
        ends = [TransactionEnd(one, 0, True, 0, 0) for one in producers]
        first, _ = MarkerWrite(Producers(), ends, GROUP, T0).batches(0, 0)
        partition.log.append(BatchView(first), leader_epoch=0, origin=Origin.REPLICATION, now_ms=T0)
        assert await committed(partition) == {}
        partition.append_markers(ends, GROUP, T0)
        assert await committed(partition) == {0: 5, 1: 5}

    run(main())
