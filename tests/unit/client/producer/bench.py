"""The parts of a producer without brokers: requests are kept, and a test answers them as it likes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from struct import unpack_from
from typing import Any, cast

from levada.client.cluster import Address, Backoff, BrokerView, Cluster, ClusterView, PartitionView, TopicView
from levada.client.errors import KafkaError, TimedOut
from levada.client.options import Options, producer_options
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.handle import Handle
from levada.client.producer.identity import ProducerIdentity
from levada.client.producer.outcome import BatchOutcomes
from levada.client.producer.partition_queue import PartitionQueue
from levada.client.producer.routes import Routes, TopicQueues
from levada.client.producer.sender import Sender
from levada.client.producer.session import PlainSession
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from levada.world.world import ClientWorld

TOPIC = "t"
TOPIC_ID = bytes(15) + b"\x07"
LEADER = 1
VERSION = 11


class FakeClock:
    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def perf_ns(self) -> int:
        return self.ms * 1_000_000


class FakeEntropy:
    """The middle of everything: no jitter."""

    def random_bytes(self, size: int) -> bytes:
        return bytes(size)

    def below(self, bound: int) -> int:
        return bound // 2


@dataclass
class Asked:
    """A Produce request that waits for its answer."""

    request: ProduceRequest
    future: "asyncio.Future[ProduceResponse]"

    @property
    def batches(self) -> list[tuple[int, int, int, int]]:
        """Partition, producer epoch, base sequence and count of each."""
        return [
            (part.index, *_numbers(bytes(cast(bytes, part.records))))
            for topic in self.request.topic_data
            for part in topic.partition_data
        ]

    def answer(
        self, code: ErrorCode = ErrorCode.NONE, base_offset: int = 0, leader: tuple[int, int] = (-1, -1)
    ) -> None:
        topics = [
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(
                        index=part.index,
                        error_code=code,
                        base_offset=-1 if code else base_offset,
                        current_leader=LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
                    )
                    for part in topic.partition_data
                ],
            )
            for topic in self.request.topic_data
        ]
        self.future.set_result(ProduceResponse(responses=topics))

    def lose(self) -> None:
        self.future.set_exception(TimedOut("no answer"))


def _numbers(batch: bytes) -> tuple[int, int, int]:
    epoch, sequence, count = unpack_from(">hii", batch, 51)
    return epoch, sequence, count


class FakeNode:
    is_connected = True
    is_throttled = False
    is_congested = False

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def version_of(self, api_key: int, at_most: int | None = None) -> int:
        return VERSION

    def post(self, request: ProduceRequest, version: int, timeout_ms: float) -> "asyncio.Future[ProduceResponse]":
        asked = Asked(request, asyncio.get_running_loop().create_future())
        self.asked.append(asked)
        return asked.future

    def post_without_answer(self, request: ProduceRequest, version: int) -> None:
        self.asked.append(Asked(request, asyncio.get_running_loop().create_future()))

    def is_drained(self, on_drained: Callable[[], None]) -> bool:
        return not self.is_congested

    def take(self) -> list[Asked]:
        """The requests since the test last looked."""
        taken, self.asked = self.asked, []
        return taken


class FakeCluster:
    def __init__(self, clock: FakeClock, partitions: int) -> None:
        self.world = ClientWorld(clock, FakeEntropy(), None)  # type: ignore[arg-type]
        self.backoff = Backoff(FakeEntropy(), 100, 100)
        self.refreshes = 0
        self.heard: list[tuple[str, int, int, int]] = []
        self.one_node = FakeNode()
        self._partitions = partitions
        self.led_by(LEADER)

    def led_by(self, leader: int) -> None:
        """From now on this broker leads all partitions; the same node answers for it."""
        views = [PartitionView(index, leader, 0, [leader], [leader], []) for index in range(self._partitions)]
        self.topic_view = TopicView(TOPIC, TOPIC_ID, False, views, 0)
        brokers = {leader: BrokerView(leader, Address("localhost", 1), None)}
        self.view = ClusterView("c", leader, brokers, {TOPIC: self.topic_view})

    def node(self, node_id: int) -> FakeNode:
        return self.one_node

    def refresh_soon(self) -> None:
        self.refreshes += 1

    def heard_of_leader(self, topic: str, partition: int, leader: int, epoch: int) -> None:
        self.heard.append((topic, partition, leader, epoch))


class CountingSession(PlainSession):
    """Idempotent, with an id from the start."""

    def __init__(self) -> None:
        self.identity = ProducerIdentity(5, 0)
        self.failures: list[KafkaError] = []


class Bench:
    """Accumulator, outcomes and sender around a fake cluster; inside a running loop."""

    def __init__(self, *, partitions: int = 1, idempotent: bool = True, transactional: bool = False, **options: Any):
        self.clock = FakeClock()
        self.options = options_of(**options)
        self.cluster = FakeCluster(self.clock, partitions)
        self.node = self.cluster.one_node
        self.wakes = 0
        self.accumulator = Accumulator(self.options, self.clock.monotonic_ms, self._woken)
        self.routes = Routes(self.options, FakeEntropy().below, self.clock.monotonic_ms)
        self.topic: TopicQueues = self.routes.add(self.cluster.topic_view)
        for queue in self.topic.partitions:
            # The leader knows the producer: several batches may be under way from the start.
            queue.acknowledged_producer_id = 5
        self.session = CountingSession() if idempotent else PlainSession()
        self.failures: list[KafkaError] = []
        self.outcomes = BatchOutcomes(
            cast(Cluster, self.cluster),
            self.options,
            self.accumulator,
            is_transactional=transactional,
            on_failure=self.failures.append,
        )
        self.sender = Sender(cast(Cluster, self.cluster), self.options, self.accumulator, self.session, self.outcomes)

    @property
    def identity(self) -> ProducerIdentity:
        assert self.session.identity is not None
        return self.session.identity

    @property
    def queue(self) -> PartitionQueue:
        return self.topic.partitions[0]

    def put(self, value: bytes = b"value", partition: int = 0, on_delivery: Any = None) -> Handle | None:
        queue = self.topic.partitions[partition]
        return self.accumulator.append(queue, self.clock.now_ms(), None, value, (), on_delivery)

    def send(self, count: int = 1, partition: int = 0) -> list[Handle]:
        """So many batches of one record each, and whatever may go out of them."""
        handles = []
        for number in range(count):
            handle = self.put(b"%d" % number, partition)
            assert handle is not None
            handles.append(handle)
            with self.accumulator.lock:
                self.accumulator.close(self.topic.partitions[partition])
        self.sender.pump()
        return handles

    def pass_ms(self, ms: int) -> None:
        self.clock.ms += ms
        self.sender.pump()

    async def turn(self) -> None:
        """Let answers be heard."""
        for _ in range(3):
            await asyncio.sleep(0)

    def _woken(self) -> None:
        self.wakes += 1


def options_of(**options: Any) -> Options:
    return producer_options("localhost:9092", options)
