"""A cluster without brokers, for the parts of a consumer that only look at it or ask it something."""

from collections.abc import Callable
from typing import Any

from levada.client.cluster import Address, Backoff, BrokerView, ClusterView, PartitionView, TopicView
from levada.client.options import Options, consumer_options
from levada.world.world import ClientWorld

TOPIC_ID = bytes(15) + b"\x01"


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
    def random_bytes(self, size: int) -> bytes:
        return bytes(size)

    def below(self, bound: int) -> int:
        return bound // 2


class FakeCluster:
    """Answers what a test's function says."""

    def __init__(self, answer: Callable[[int, Any], Any] | None = None, **options: Any) -> None:
        self.clock = FakeClock()
        self.world = ClientWorld(self.clock, FakeEntropy(), None)  # type: ignore[arg-type]
        self.options: Options = consumer_options("localhost:9092", options)
        self.backoff = Backoff(FakeEntropy(), 1, 1)
        self.view = ClusterView()
        self.refreshes = 0
        self.asked: list[tuple[int, Any]] = []
        self.heard: list[tuple[str, int, int, int]] = []
        self._answer = answer

    def see(self, *leaders: tuple[int, int], topic: str = "t", brokers: int = 3) -> None:
        """A topic whose partitions have these leaders in these epochs."""
        partitions = [PartitionView(index, *leader, [leader[0]], [], []) for index, leader in enumerate(leaders)]
        self.view = ClusterView(
            "cluster",
            1,
            {node: BrokerView(node, Address("host", 9000 + node), None) for node in range(1, brokers + 1)},
            {topic: TopicView(topic, TOPIC_ID, False, partitions, 0)},
            {},
            {TOPIC_ID: topic},
        )

    async def call(self, node_id: int, request: Any, *, at_least: int = 0) -> Any:
        self.asked.append((node_id, request))
        assert self._answer is not None
        answer = self._answer(node_id, request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def refresh_soon(self) -> None:
        self.refreshes += 1

    def heard_of_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> None:
        self.heard.append((topic, partition, leader, leader_epoch))
