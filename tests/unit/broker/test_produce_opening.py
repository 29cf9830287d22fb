"""Batches that must be opened and hold very much: checked elsewhere, in order, within a bound."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from levada.broker.handlers import produce
from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import BatchView, Codec, build_batch, iter_batches
from levada.storage import validation
from tests.logs import T0, read_all
from tests.nodes import RunningNode, running_node

PATIENCE_SECONDS = 60
MEGABYTE = 1 << 20


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


async def create(node: RunningNode, name: str, partitions: int = 1, **configs: str) -> None:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=given)
    assert (await node.call(CreateTopicsRequest(topics=[topic]))).topics[0].error_code == 0


def bomb(key: bytes | None, megabytes: int = 4) -> bytes:
    records = [(T0, key, bytes(MEGABYTE), ()) for _ in range(megabytes)]
    return build_batch(records, codec=Codec.ZSTD)


def request(name: str, *batches: bytes) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name=name, partition_data=data)])


def watch(node: RunningNode) -> list[Any]:
    """The calls that are made elsewhere."""
    calls: list[Any] = []
    compute = node.broker.workers.compute

    async def noted(call: Any) -> Any:
        calls.append(call)
        return await compute(call)

    node.broker.workers.compute = noted  # type: ignore[method-assign]
    return calls


def codes(response: Any) -> list[int]:
    return [one.error_code for one in response.responses[0].partition_responses]


def test_a_batch_that_holds_much_is_opened_elsewhere_and_a_later_one_does_not_overtake_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await create(node, "compacted", cleanup_policy="compact")
            calls = watch(node)
            small = build_batch([(T0, b"small", b"", ())])
            first = node.channel.send(request("compacted", bomb(b"large")), 9)
            second = node.channel.send(request("compacted", small), 9)
            answers = [(await each).responses[0].partition_responses[0] for each in (first, second)]
            assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 4)]
            assert len(calls) == 1

    run(main())


def test_what_opening_shows_is_answered_as_ever(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await create(node, "compacted", 3, cleanup_policy="compact")
            calls = watch(node)
            response = await node.call(
                request("compacted", bomb(None), bomb(b"key"), build_batch([(T0, None, b"", ())])), 9
            )
            assert codes(response) == [ErrorCode.INVALID_RECORD, ErrorCode.NONE, ErrorCode.INVALID_RECORD]
            assert [one.batch_index for one in response.responses[0].partition_responses[0].record_errors] == [
                0,
                1,
                2,
                3,
            ]
            assert len(calls) == 2

    run(main())


def test_a_batch_that_is_compressed_anew_is_so_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await create(node, "gzipped", compression_type="gzip")
            calls = watch(node)
            assert codes(await node.call(request("gzipped", build_batch([(T0, None, bytes(500_000), ())])), 9)) == [0]
            assert codes(await node.call(request("gzipped", build_batch([(T0, None, b"short", ())])), 9)) == [0]
            assert len(calls) == 1
            log = node.broker.partition("gzipped", bytes(16), 0).log
            assert [value for _, value in read_all(log)] == [bytes(500_000), b"short"]
            assert {batch.codec for batch in iter_batches(log.active.file.read(0, log.size))} == {Codec.GZIP}

    run(main())


def test_batches_beyond_the_time_of_a_turn_are_opened_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "LONGEST_TURN_NS", 0)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await create(node, "compacted", 3, cleanup_policy="compact")
            calls = watch(node)
            batches = [build_batch([(T0, b"k", b"", ())], codec=codec) for codec in (Codec.LZ4, Codec.NONE, Codec.GZIP)]
            assert codes(await node.call(request("compacted", *batches), 9)) == [0, 0, 0]
            assert len(calls) == 2

    run(main())


def test_there_is_a_bound_to_what_a_batch_may_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_OPENED", 3 * MEGABYTE)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await create(node, "compacted", cleanup_policy="compact")
            assert codes(await node.call(request("compacted", bomb(b"key")), 9)) == [ErrorCode.MESSAGE_TOO_LARGE]
            assert BatchView(bomb(b"key")).size < MEGABYTE

    run(main())


SETTINGS = {"log.flush.interval.messages": "1", "transaction.state.log.num.partitions": "1"}


def of_transaction(
    count: int, size: int, sequence: int, producer: tuple[int, int], codec: Codec = Codec.ZSTD
) -> ProduceRequest:
    batch = build_batch(
        [(T0, b"k", bytes(size), ())] * count,
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    message = request("compacted", batch)
    message.transactional_id = "t"
    return message


async def new_producer(node: RunningNode, version: int) -> tuple[int, int]:
    await node.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]))
    begin = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    while (begun := await node.call(begin, version)).error_code:
        await asyncio.sleep(0.01)
    return begun.producer_id, begun.producer_epoch


def hold(node: RunningNode) -> tuple[asyncio.Event, asyncio.Event]:
    """Set when a batch is to be opened; to be set when it may be."""
    is_opening, may_go_on = asyncio.Event(), asyncio.Event()
    compute = node.broker.workers.compute

    async def held(call: Any) -> Any:
        is_opening.set()
        await may_go_on.wait()
        return await compute(call)

    node.broker.workers.compute = held  # type: ignore[method-assign]
    return is_opening, may_go_on


def test_a_batch_of_a_transaction_is_not_overtaken_while_the_coordinator_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path, SETTINGS) as node:
            await create(node, "compacted", cleanup_policy="compact")
            producer = await new_producer(node, 5)
            sent = [
                node.channel.send(of_transaction(4, MEGABYTE, 0, producer), 12),
                node.channel.send(of_transaction(1, 1, 4, producer, Codec.NONE), 12),
            ]
            answers = [(await each).responses[0].partition_responses[0] for each in sent]
            assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 4)]

    run(main())


@pytest.mark.parametrize("has_begun", [False, True], ids=["first records", "later records"])
def test_records_whose_transaction_ends_while_they_are_opened_are_refused(tmp_path: Path, has_begun: bool) -> None:
    """Behind the marker they would open a transaction, and the next commit would show what was aborted (KIP-890)."""

    async def main() -> None:
        async with running_node(tmp_path, SETTINGS) as node:
            await create(node, "compacted", cleanup_policy="compact")
            producer = await new_producer(node, 4)
            identity: dict[str, Any] = {"producer_id": producer[0], "producer_epoch": producer[1]}
            topics = [AddPartitionsToTxnTopic(name="compacted", partitions=[0])]
            old_names = {f"v3_and_below_{name}": value for name, value in identity.items()}
            add = AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics, **old_names)
            added = await node.call(add, 3)
            assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
            if has_begun:
                assert codes(await node.call(of_transaction(1, 1, 0, producer, Codec.NONE), 9)) == [0]
            is_opening, may_go_on = hold(node)
            late = node.channel.send(of_transaction(4, MEGABYTE, int(has_begun), producer), 9)
            await is_opening.wait()
            other = await Channel.connect(node.world.net, "localhost", node.node.port)
            ended = await other.call(EndTxnRequest(transactional_id="t", committed=False, **identity), 3)
            assert ended.error_code == 0
            log = node.broker.partition("compacted", bytes(16), 0).log
            while not log.producers.ends_of(producer[0]):
                await asyncio.sleep(0.001)
            may_go_on.set()
            assert codes(await late) == [ErrorCode.INVALID_TXN_STATE]
            # The marker itself may still wait for its flush.
            while log.producers.first_unstable_offset is not None:
                await asyncio.sleep(0.001)
            assert log.end_offset == int(has_begun) + 1
            other.close()

    run(main())


def test_records_whose_log_moves_while_they_are_opened_are_taken(tmp_path: Path) -> None:
    """The log in the other directory counts the ended transactions of a producer on."""

    async def main() -> None:
        directories = [str(tmp_path / "a"), str(tmp_path / "b")]
        async with running_node(tmp_path, {**SETTINGS, "log.dirs": ",".join(directories)}) as node:
            await create(node, "compacted", cleanup_policy="compact")
            producer_id, epoch = await new_producer(node, 5)
            assert codes(await node.call(of_transaction(1, 1, 0, (producer_id, epoch), Codec.NONE), 12)) == [0]
            end = EndTxnRequest(transactional_id="t", producer_id=producer_id, producer_epoch=epoch, committed=True)
            ended = await node.call(end, 5)
            partition = node.broker.partition("compacted", bytes(16), 0)
            while not partition.log.producers.ends_of(producer_id):
                await asyncio.sleep(0.001)
            is_opening, may_go_on = hold(node)
            message = of_transaction(4, MEGABYTE, 0, (ended.producer_id, ended.producer_epoch))
            late = node.channel.send(message, 12)
            while not is_opening.is_set():
                if late.done():
                    assert codes(late.result()) == [ErrorCode.CONCURRENT_TRANSACTIONS]
                    late = node.channel.send(message, 12)
                await asyncio.sleep(0.001)
            first = partition.log
            [elsewhere] = [one for one in directories if not first.directory.startswith(one)]
            topics = [AlterReplicaLogDirTopic(name="compacted", partitions=[0])]
            move = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=elsewhere, topics=topics)])
            other = await Channel.connect(node.world.net, "localhost", node.node.port)
            moved = await other.call(move, 2)
            assert moved.results[0].partitions[0].error_code == 0
            while partition.log is first:
                await asyncio.sleep(0.001)
            may_go_on.set()
            assert codes(await late) == [0]
            other.close()

    run(main())
