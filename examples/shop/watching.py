"""How far the pipeline is, asked where Kafka people look for it: consumer groups and the ends of topics."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from examples.shop.pipeline import HOPS
from levada import Admin
from levada.client.admin import IsolationLevel
from levada.client.types import TopicPartition
from levada.spark.pipeline.progress import Display, QueryProgress
from levada.spark.pipeline.status import read_status

LATEST = -1
SAMPLE_SECONDS = 1.0
LINES_SECONDS = 15.0
"""How often progress is shown where it is no terminal that it can be written over."""
RATE_SECONDS = 15.0
"""What a query's input is measured over."""
COLUMNS = 120


@dataclass(slots=True)
class History:
    """Samples over time, for the picture."""

    seconds: list[float] = field(default_factory=list)
    written: list[dict[str, int]] = field(default_factory=list)
    """Records in each topic."""
    lags: list[dict[str, int]] = field(default_factory=list)
    """Records that each query has still to read."""
    marks: dict[str, float] = field(default_factory=dict)
    """What happened when."""

    def rate(self, topics: Iterable[str], at: int = -1, over: float = RATE_SECONDS) -> float:
        """Records a second that came into topics before a sample."""
        end = at % len(self.seconds)
        begin = next(each for each in range(end + 1) if self.seconds[end] - self.seconds[each] <= over or each == end)
        if begin == end:
            return 0.0
        count = sum(self.written[end].get(each, 0) - self.written[begin].get(each, 0) for each in topics)
        return count / (self.seconds[end] - self.seconds[begin])

    def seconds_behind(self, query: str, topics: Iterable[str], at: int = -1) -> float:
        """The lag of a query as seconds of its input; 0 where nothing comes in."""
        rate = self.rate(topics, at)
        return self.lags[at][query] / rate if rate else 0.0


class Watch:
    """Samples topics and groups; everything is asked anew each time."""

    def __init__(self, admin: Admin, topics: Iterable[str], partitions: int, checkpoint: Path, began: float) -> None:
        self.history = History()
        self._admin = admin
        self._partitions = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        self._checkpoint = checkpoint
        self._began = began
        self._next = self._next_lines = time.monotonic()
        self._display = Display(sys.stdout, is_terminal=sys.stdout.isatty(), columns=COLUMNS)

    def until(self, is_done: Callable[[], bool], seconds: float, head: Callable[[], str]) -> bool:
        """Sample and show until something is so; False if it is not after so many seconds."""
        give_up_at = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > give_up_at:
                return False
            self.sample()
            self._show(head())
            self._next = max(self._next + SAMPLE_SECONDS, time.monotonic())
            time.sleep(max(self._next - time.monotonic(), 0.05))
        return True

    def mark(self, what: str) -> None:
        self.history.marks[what] = time.monotonic() - self._began

    def sample(self) -> None:
        ends = self._ends()
        lags = {
            query: sum(self._lag(f"shop-{query}-{topic}", topic, ends) for topic in topics)
            for hop in HOPS
            for query, topics in hop.items()
        }
        self.history.seconds.append(time.monotonic() - self._began)
        self.history.written.append({topic: _total(ends, topic) for topic in {each.topic for each in ends}})
        self.history.lags.append(lags)

    def is_drained(self, hop: Mapping[str, list[str]]) -> bool:
        """Whether a hop has read all that the hop before it, which is done, has written."""
        ends = self._ends()
        return all(
            self._lag(f"shop-{query}-{topic}", topic, ends) == 0 for query, topics in hop.items() for topic in topics
        )

    def most_behind(self, since: float, until: float) -> tuple[str, float]:
        """The query that was the most seconds behind its input between two moments, and how many."""
        found = {
            (query, at): self.history.seconds_behind(query, topics, at)
            for hop in HOPS
            for query, topics in hop.items()
            for at, moment in enumerate(self.history.seconds)
            if since <= moment <= until
        }
        if not found:
            return "no query", 0.0
        worst = max(found, key=lambda each: found[each])
        return worst[0], found[worst]

    def _show(self, head: str) -> None:
        """The lines that `levada pipeline` shows, from what it notes about itself, with the lags of now."""
        if not sys.stdout.isatty():
            if time.monotonic() < self._next_lines:
                return
            self._next_lines = time.monotonic() + LINES_SECONDS
        status = read_status(str(self._checkpoint), "pipeline")
        lags = self.history.lags[-1]
        progress = [
            QueryProgress(each.name, each.batch, 0, each.rows_per_second, each.batch_ms, lags[each.name], each.note)
            for each in (() if status is None else status.queries)
        ]
        self._display.show(progress, f"{time.monotonic() - self._began:4.0f} s  {head}")

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
