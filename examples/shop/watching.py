"""How far the pipeline is, asked where Kafka people look for it: consumer groups and the ends of topics."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from examples.shop.pipeline import HOPS
from levada import Admin
from levada.client.admin import IsolationLevel
from levada.client.types import TopicPartition

LATEST = -1
SAMPLE_SECONDS = 1.0


@dataclass(slots=True)
class History:
    """Samples over time, for the picture."""

    seconds: list[float] = field(default_factory=list)
    written: list[dict[str, int]] = field(default_factory=list)
    """Records in each topic."""
    lags: list[dict[str, int]] = field(default_factory=list)
    """Records that each query has still to read."""


class Watch:
    """Samples topics and groups; everything is asked anew each time."""

    def __init__(self, admin: Admin, topics: Iterable[str], partitions: int) -> None:
        self.history = History()
        self._admin = admin
        self._partitions = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        self._start: float | None = None
        self._next = time.monotonic()

    def until(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Sample until something is so; False if it is not after so many seconds."""
        give_up_at = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > give_up_at:
                return False
            self.sample()
            self._next = max(self._next + SAMPLE_SECONDS, time.monotonic())
            time.sleep(max(self._next - time.monotonic(), 0.05))
        return True

    def sample(self) -> None:
        ends = self._ends()
        lags = {
            query: sum(self._lag(f"shop-{query}-{topic}", topic, ends) for topic in topics)
            for hop in HOPS
            for query, topics in hop.items()
        }
        now = time.monotonic()
        self._start = now if self._start is None else self._start
        self.history.seconds.append(now - self._start)
        self.history.written.append({topic: _total(ends, topic) for topic in {each.topic for each in ends}})
        self.history.lags.append(lags)

    def is_drained(self, hop: Mapping[str, list[str]]) -> bool:
        """Whether a hop has read all that the hop before it, which is done, has written."""
        ends = self._ends()
        return all(
            self._lag(f"shop-{query}-{topic}", topic, ends) == 0 for query, topics in hop.items() for topic in topics
        )

    def _ends(self) -> dict[TopicPartition, int]:
        listed = self._admin.list_offsets(
            dict.fromkeys(self._partitions, LATEST), isolation_level=IsolationLevel.READ_COMMITTED
        )
        return {partition: found.offset for partition, found in listed.done.items()}

    def _lag(self, group: str, topic: str, ends: Mapping[TopicPartition, int]) -> int:
        partitions = [each for each in ends if each.topic == topic]
        committed = self._admin.list_group_offsets({group: partitions})[group]
        return sum(ends[each] - (at.offset if (at := committed.get(each)) else 0) for each in partitions)


def _total(ends: Mapping[TopicPartition, int], topic: str) -> int:
    return sum(end for partition, end in ends.items() if partition.topic == topic)
