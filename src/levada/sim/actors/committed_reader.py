"""Simulated readers of what is committed: of records, which they filter as consumers do, and of groups' offsets."""

import asyncio
import random
from collections.abc import Sequence

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from levada.records import BatchView, iter_batches
from levada.records.builder import ControlType
from levada.sim.actors.transactional_producer import TOPIC
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.transaction_history import CommittedView, TransactionHistory, check_offset
from levada.sim.requests.connections import Caller, Connector
from levada.sim.requests.topics import records_of

READ_COMMITTED = 1
MAX_BYTES = (300, 2_000, 100_000)
NOT_NOW = frozenset((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR))


class CommittedReader:
    """Reads all partitions, again and again from where it is, and now and then from the beginning."""

    def __init__(self, caller: Caller, chance: random.Random, history: TransactionHistory, partitions: int) -> None:
        self.views = [CommittedView(history, partition) for partition in range(partitions)]
        self._caller = caller
        self._chance = chance
        self._generation = 0

    async def run(self) -> None:
        while True:
            if self._chance.random() < 0.01:
                self.begin_again()
            await self.read()
            await asyncio.sleep(self._chance.random() * 0.02)

    def begin_again(self) -> None:
        """Also when the machine lost its power: what it had not on its disk may have other offsets now."""
        self._generation += 1
        for view in self.views:
            view.begin_again()

    async def read(self) -> None:
        generation, max_bytes = self._generation, self._chance.choice(MAX_BYTES)
        wanted = [
            FetchPartition(partition=view.partition, fetch_offset=view.position, partition_max_bytes=max_bytes)
            for view in self.views
        ]
        request = FetchRequest(
            max_wait_ms=self._chance.choice((0, 100)),
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=TOPIC, partitions=wanted)],
        )
        reply = await self._caller.ask(request, 12)
        if reply is None or generation != self._generation:
            return
        for one in reply.responses[0].partitions:
            if one.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                continue
            if one.error_code:
                position = self.views[one.partition_index].position
                raise CheckFailed(f"a fetch at {position} was answered with {ErrorCode(one.error_code).name}")
            take(self.views[one.partition_index], one)


def take(view: CommittedView, answer: PartitionData) -> None:
    """What a consumer makes of an answer: it leaves out the transactions that it is told were aborted."""
    if not view.position <= answer.last_stable_offset <= answer.high_watermark:
        text = f"{view.position} <= {answer.last_stable_offset} <= {answer.high_watermark}"
        raise CheckFailed(f"partition {view.partition} was read up to where it is not stable: not {text}")
    view.last_stable_offset, view.high_watermark = answer.last_stable_offset, answer.high_watermark
    begins = sorted(answer.aborted_transactions or [], key=lambda one: one.first_offset)
    aborted: dict[int, None] = {}
    for batch in iter_batches(records_of(answer)):
        batch.validate()
        while begins and begins[0].first_offset <= batch.last_offset:
            aborted[begins.pop(0).producer_id] = None
        if batch.is_control:
            if _is_abort(batch):
                aborted.pop(batch.producer_id, None)
        elif batch.producer_id not in aborted:
            for record in batch.records():
                if record.offset >= view.position:
                    view.show(record.offset, bytes(record.value or b""))
        view.position = max(view.position, batch.next_offset)
    if view.position > view.last_stable_offset:
        raise CheckFailed(f"partition {view.partition} gave records up to {view.position}, beyond what is stable")
    if view.position == view.last_stable_offset:
        view.settle()


def _is_abort(batch: BatchView) -> bool:
    [record] = batch.records()
    return int.from_bytes(bytes(record.key or b"")[2:4], "big") == ControlType.ABORT


async def watch_offsets(caller: Caller, chance: random.Random, history: TransactionHistory, ids: Sequence[str]) -> None:
    """Read what the groups of transactional ids have committed, with and without what is on its way."""
    while True:
        await asyncio.sleep(chance.random() * 0.2)
        is_stable = chance.random() < 0.5
        transactional_id = chance.choice(ids)
        asked_s = asyncio.get_running_loop().time()
        reply = await caller.ask(_offset_request(transactional_id, require_stable=is_stable), 8)
        label = None if reply is None else _label(reply, require_stable=is_stable)
        if label is not None:
            check_offset(history, transactional_id, label, asked_s, is_stable=is_stable)


async def read_label(connector: Connector, transactional_id: str) -> str | None:
    """The name of the transaction that committed the group's offset; None while that is not settled."""
    return _label(await connector.call(_offset_request(transactional_id, require_stable=True), 8), require_stable=True)


def _offset_request(transactional_id: str, *, require_stable: bool) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id=f"group of {transactional_id}", topics=topics)
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def _label(reply: OffsetFetchResponse, *, require_stable: bool) -> str | None:
    [group] = reply.groups
    if group.error_code in NOT_NOW:
        return None
    if group.error_code:
        raise CheckFailed(f"offsets cannot be read: {ErrorCode(group.error_code).name}")
    one = group.topics[0].partitions[0]
    if one.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT and require_stable:
        return None
    if one.error_code:
        raise CheckFailed(f"an offset cannot be read: {ErrorCode(one.error_code).name}")
    return one.metadata or ""
