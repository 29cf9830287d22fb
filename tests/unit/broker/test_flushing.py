"""A node whose topics are flushed before they are acknowledged, on a device that takes its time or fails."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from levada.records import build_batch, iter_batches
from levada.sim.requests.topics import records_of
from levada.storage.log import Log
from levada.world.disk import File, SyncFailed
from levada.world.real_async_disk import RealAsyncDisk
from tests.nodes import RunningNode, running_node

NONE, STORAGE_ERROR = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
TOPIC = "t"
LATEST = -1
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}


class Device:
    """Holds the syncs of a topic's records back until it is told how they end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_held = False
        self.waiting: list[asyncio.Future[None]] = []
        self.synced = 0
        self.refusals: list[OSError] = []
        """Of directories that cannot be opened to be synced."""
        sync, sync_directory = RealAsyncDisk.sync, RealAsyncDisk.sync_directory
        device = self

        async def held(self: RealAsyncDisk, file: File) -> None:
            if device.is_held and f"/{TOPIC}-0/" in file.path:
                device.waiting.append(asyncio.get_running_loop().create_future())
                await device.waiting[-1]
            device.synced += 1
            await sync(self, file)

        async def refused(self: RealAsyncDisk, path: str) -> None:
            if device.refusals and path.endswith(f"/{TOPIC}-0"):
                raise device.refusals.pop()
            await sync_directory(self, path)

        monkeypatch.setattr(RealAsyncDisk, "sync", held)
        monkeypatch.setattr(RealAsyncDisk, "sync_directory", refused)

    async def has_begun(self) -> None:
        await until(lambda: bool(self.waiting))

    def let_go(self, error: OSError | None = None) -> None:
        """End the sync that waits, or all of them."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None) if error is None else one.set_exception(error)


@dataclass
class Bench:
    node: RunningNode
    device: Device

    @property
    def log(self) -> Log:
        return self.node.broker.partition(TOPIC, bytes(16), 0).log

    async def connect(self) -> Channel:
        return await Channel.connect(self.node.world.net, "localhost", self.node.node.port)

    def produce(self, value: bytes = b"v", channel: Channel | None = None, **settings: Any) -> "asyncio.Task[Any]":
        """The answer of a produce request that is on its way."""
        batch = build_batch([(0, None, value, ())], **settings)
        topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        return asyncio.ensure_future((channel or self.node.channel).call(request, 9))

    async def begin_transaction(self) -> None:
        """One record of a transaction, which is on the device."""
        partition = self.node.broker.partition(TOPIC, bytes(16), 0)
        batch = build_batch([(0, None, b"v", ())], base_sequence=0, is_transactional=True, **PRODUCER)
        partition.append(batch, allows_zstd=True, now_ms=0, is_verified=True)
        await until(lambda: self.log.high_watermark == 1)

    def end_transaction(self, channel: Channel) -> "asyncio.Task[Any]":
        """The answer to the coordinator's marker, which is on its way."""
        end = WritableTxnMarker(
            transaction_result=True,
            coordinator_epoch=0,
            topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
            **PRODUCER,
        )
        return asyncio.ensure_future(channel.call(WriteTxnMarkersRequest(markers=[end]), 1))

    async def end_offset(self) -> int:
        """What ListOffsets calls the latest."""
        topic = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
        channel = await self.connect()
        response = await channel.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
        channel.close()
        offset: int = response.topics[0].partitions[0].offset
        return offset

    async def values(self, max_wait_ms: int = 0) -> list[bytes | None]:
        """What a consumer can read."""
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
        )
        channel = await self.connect()
        response = await channel.call(request, 12)
        channel.close()
        found = response.responses[0].partitions[0]
        assert found.error_code == NONE, found
        batches = [batch for batch in iter_batches(records_of(found)) if not batch.is_control]
        return [one.value for batch in batches for one in batch.records()]


@asynccontextmanager
async def bench(directory: Path, monkeypatch: pytest.MonkeyPatch, **configs: str) -> AsyncIterator[Bench]:
    device = Device(monkeypatch)
    # Nothing but requests is to flush the topic.
    async with running_node(directory, {"log.flush.offset.checkpoint.interval.ms": "1000000"}) as node:
        given = configs or {"flush_messages": "1"}
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        topic.configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in given.items()]
        response = await node.call(CreateTopicsRequest(topics=[topic]))
        assert response.topics[0].error_code == NONE, response
        yield Bench(node, device)
        device.is_held = False
        device.let_go()


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.002)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


def answer(response: Any) -> tuple[int, int]:
    partition = response.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


def lost() -> OSError:
    return SyncFailed(errno.EIO, os.strerror(errno.EIO))


def test_a_flush_that_fails_after_its_client_has_left_takes_the_log_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of lost pages once: the next flush would pass, and acknowledge what is not there."""

    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            at.device.is_held = True
            log, leaving = at.log, await at.connect()
            gone = at.produce(b"lost", leaving)
            await at.device.has_begun()
            connections = at.node.node._connections
            before = connections.open
            leaving.close()
            await until(lambda: connections.open < before)
            at.device.let_go(lost())
            at.device.is_held = False
            assert answer(await at.produce())[0] == STORAGE_ERROR
            assert log.is_offline
            await asyncio.gather(gone, return_exceptions=True)

    run(main())


def test_what_was_not_flushed_stays_unseen_when_the_log_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            partition = at.node.broker.partition(TOPIC, bytes(16), 0)
            at.device.is_held = True
            lost_one = at.produce(b"lost")
            await at.device.has_begun()
            at.device.let_go(lost())
            assert answer(await lost_one)[0] == STORAGE_ERROR
            assert partition.log.is_offline
            partition.follow(replace(partition.state, leader_epoch=partition.leader_epoch + 1), node_id=1)
            assert (partition.high_watermark, partition.log.end_offset) == (0, 1)

    run(main())


def test_a_watcher_that_fails_harms_neither_the_log_nor_those_who_wait_for_its_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object, __: int) -> None:
        raise RuntimeError("a fault of a coordinator")

    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            at.node.broker.partition(TOPIC, bytes(16), 0).watch(fail)
            at.device.is_held = True
            first = at.produce(b"first")
            await at.device.has_begun()
            second = at.produce(b"second", await at.connect())
            await until(lambda: at.log.end_offset == 2)
            at.device.is_held = False
            at.device.let_go()
            assert [answer(await each) for each in (first, second)] == [(NONE, 0), (NONE, 1)]
            assert not at.log.is_offline
            assert await at.values() == [b"first", b"second"]

    run(main())
    assert "watcher failed partition=t-0" in caplog.text
    caplog.clear()


def test_readers_see_records_when_they_are_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            assert answer(await at.produce(b"first")) == (NONE, 0)
            at.device.is_held = True
            second = at.produce(b"second")
            await at.device.has_begun()
            assert await at.values() == [b"first"]
            assert await at.end_offset() == 1
            at.device.is_held = False
            at.device.let_go()
            assert answer(await second) == (NONE, 1)
            assert await at.values() == [b"first", b"second"]
            assert await at.end_offset() == 2

    run(main())


def test_a_fetch_that_waits_hears_of_records_when_they_are_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            waiting = asyncio.ensure_future(at.values(max_wait_ms=20_000))
            at.device.is_held = True
            produced = at.produce(b"v")
            await at.device.has_begun()
            await asyncio.sleep(0.02)
            assert not waiting.done()
            at.device.is_held = False
            at.device.let_go()
            assert await waiting == [b"v"]
            assert answer(await produced) == (NONE, 0)

    run(main())


@pytest.mark.parametrize("acks", [0, 1])
def test_records_that_ask_for_less_are_not_shown_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            at.device.is_held = True
            batch = build_batch([(0, None, b"v", ())])
            topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
            sent = asyncio.ensure_future(
                at.node.channel.call(ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[topic]), 9)
            )
            await at.device.has_begun()
            assert await at.values() == []
            at.device.is_held = False
            at.device.let_go()
            assert await at.values(max_wait_ms=20_000) == [b"v"]
            sent.cancel()
            await asyncio.gather(sent, return_exceptions=True)

    run(main())


def test_those_who_come_while_a_flush_runs_share_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            assert answer(await at.produce()) == (NONE, 0)
            at.device.is_held = True
            first = at.produce(b"1")
            await at.device.has_begun()
            others = [at.produce(b"%d" % number) for number in range(2, 12)]
            await until(lambda: at.log.end_offset == 12)
            at.device.synced = 0
            at.device.let_go()
            assert answer(await first) == (NONE, 1)
            # What the first flush covers is seen before the second ends, and no more than that.
            assert await at.values() == [b"v", b"1"]
            assert not any(one.done() for one in others)
            await at.device.has_begun()
            at.device.is_held = False
            at.device.let_go()
            answers = [answer(one) for one in await asyncio.gather(*others)]
            assert answers == [(NONE, offset) for offset in range(2, 12)]
            # With the snapshot of a segment that has one.
            assert at.device.synced <= 4

    run(main())


def test_what_is_appended_behind_records_that_wait_waits_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch, flush_messages="3") as at:
            for number in range(2):
                # Not enough of them for a flush: as in Apache they are acknowledged and shown without.
                assert answer(await at.produce(b"%d" % number)) == (NONE, number)
            at.device.is_held = True
            third = at.produce(b"2")
            await at.device.has_begun()
            assert await at.values() == [b"0", b"1"]
            fourth = at.produce(b"3")
            await until(lambda: at.log.end_offset == 4)
            assert await at.values() == [b"0", b"1"]
            at.device.is_held = False
            at.device.let_go()
            assert [answer(one) for one in await asyncio.gather(third, fourth)] == [(NONE, 2), (NONE, 3)]
            assert await at.values() == [b"0", b"1", b"2", b"3"]

    run(main())


def test_a_batch_that_comes_again_waits_for_the_flush_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            at.device.is_held = True
            leaving = await at.connect()
            first = at.produce(b"v", leaving, base_sequence=0, **PRODUCER)
            await at.device.has_begun()
            leaving.close()
            again = at.produce(b"v", base_sequence=0, **PRODUCER)
            await asyncio.sleep(0.02)
            assert not again.done()
            assert await at.values() == []
            at.device.is_held = False
            at.device.let_go()
            assert answer(await again) == (NONE, 0)
            assert await at.values() == [b"v"]
            await asyncio.gather(first, return_exceptions=True)

    run(main())


def test_the_end_of_a_transaction_is_seen_when_it_is_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            await at.begin_transaction()
            at.device.is_held = True
            leaving = await at.connect()
            ended = at.end_transaction(leaving)
            await at.device.has_begun()
            assert (at.log.last_stable_offset, at.log.high_watermark, at.log.end_offset) == (0, 1, 2)
            leaving.close()
            at.device.is_held = False
            at.device.let_go()
            await until(lambda: at.log.last_stable_offset == 2)
            await asyncio.gather(ended, return_exceptions=True)

    run(main())


def test_a_marker_whose_flush_fails_is_not_acknowledged_and_ends_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that took it for written would forget a transaction that is open after a power cut."""

    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            await at.begin_transaction()
            at.device.is_held = True
            log = at.log
            ended = at.end_transaction(await at.connect())
            await at.device.has_begun()
            at.device.let_go(lost())
            [marker] = (await ended).markers
            assert marker.topics[0].partitions[0].error_code == STORAGE_ERROR
            assert log.is_offline
            assert log.last_stable_offset == 0

    run(main())


def test_a_flush_by_time_holds_no_producer_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Apache, where it is done beside the appends."""

    async def main() -> None:
        async with bench(tmp_path, monkeypatch, flush_ms="0") as at:
            at.device.is_held = True
            assert answer(await at.produce(b"1")) == (NONE, 0)
            await at.device.has_begun()
            assert answer(await at.produce(b"2")) == (NONE, 1)
            assert await at.values() == [b"1", b"2"]
            at.device.is_held = False
            at.device.let_go()
            await until(lambda: at.log.recovery_point == 2)

    run(main())


def test_what_a_dead_broker_left_is_shown_when_it_is_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            partition = at.node.broker.partition(TOPIC, bytes(16), 0)
            # Written by a broker that died before the flush.
            state, end = partition.state, at.log.end_offset
            at.device.is_held = True
            partition.append(build_batch([(0, None, b"v", ())]), allows_zstd=True, now_ms=0)
            partition.follow(state, at.node.broker.identity.node_id)
            assert at.log.high_watermark == end
            at.device.is_held = False
            at.device.let_go()
            await until(lambda: at.log.high_watermark == end + 1)
            assert at.log.recovery_point == end + 1

    run(main())


def test_settings_that_want_no_flush_any_more_show_what_waited_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            at.device.is_held = True
            produced = at.produce(b"v")
            await at.device.has_begun()
            partition = at.node.broker.partition(TOPIC, bytes(16), 0)
            assert await at.values() == []
            partition.reconfigure(at.node.broker.log_config_of("another"))
            assert await at.values() == [b"v"]
            at.device.is_held = False
            at.device.let_go()
            assert answer(await produced) == (NONE, 0)

    run(main())


def test_a_flush_for_which_no_file_can_be_opened_is_late_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            at.device.refusals = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]
            assert answer(await at.produce(b"v"))[0] == STORAGE_ERROR
            assert not at.log.is_offline
            # The upkeep of the node tries again.
            assert await at.values(max_wait_ms=20_000) == [b"v"]
            assert answer(await at.produce(b"w")) == (NONE, 1)

    run(main())


def test_a_stop_waits_for_a_flush_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with bench(tmp_path, monkeypatch) as at:
            at.device.is_held = True
            produced = at.produce(b"v")
            await at.device.has_begun()
            log = at.log
            asyncio.get_running_loop().call_later(0.05, at.device.let_go, lost())
            await at.node.node.stop()
            assert log.is_offline
            await asyncio.gather(produced, return_exceptions=True)
        assert not any(name == ".kafka_cleanshutdown" for name in os.listdir(tmp_path))

    run(main())
