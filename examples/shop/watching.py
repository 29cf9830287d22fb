"""How far the pipeline is, asked where Kafka people look for it: consumer groups and the ends of topics."""

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from examples.shop.events import RAW_TOPICS
from examples.shop.pipeline import HOPS
from levada import Admin
from levada.client.types import TopicPartition
from levada.spark.pipeline.groups import group_of
from levada.spark.pipeline.meter import RATE_SECONDS, Meter, Sample, ends_of
from levada.spark.pipeline.progress import Display, QueryProgress
from levada.spark.pipeline.status import read_status

PIPELINE = "pipeline"
"""What its file is called, and so its groups."""
SAMPLE_SECONDS = 1.0
LINES_SECONDS = 15.0
"""How often progress is shown where it is no terminal that it can be written over."""
COLUMNS = 120


@dataclass(slots=True)
class History:
    """Samples over time, for the picture."""

    meter: Meter = field(default_factory=lambda: Meter(kept_seconds=math.inf))
    marks: dict[str, float] = field(default_factory=dict)
    """What happened when."""

    @property
    def seconds(self) -> list[float]:
        return [sample.at for sample in self.meter.samples]

    @property
    def topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.meter.samples[-1].ends})

    def rate(self, topics: Collection[str], at: int = -1, over: float = RATE_SECONDS) -> float:
        """Records a second that came into topics before a sample."""
        return self.meter.incoming([each for each in self.meter.samples[at].ends if each.topic in topics], at, over)

    def seconds_behind(self, query: str, at: int = -1) -> float:
        """The lag of a query as seconds of its input; of all that has come in, where nothing came of late."""
        found, lag = self.meter.seconds_behind(query, at), self.meter.lag(query, at)
        if found is None and lag:
            rate = self.meter.incoming(self.meter.samples[at].positions[query], at, math.inf)
            found = lag / rate if rate else None
        return found or 0.0


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

    def until(self, is_done: Callable[[], bool], seconds: float, head: str = "") -> bool:
        """Sample and show, with `head` before it, until something is so; False if it is not after so many seconds."""
        give_up_at = time.monotonic() + seconds
        while not is_done():
            if time.monotonic() > give_up_at:
                return False
            self.sample()
            self._show(head)
            self._next = max(self._next + SAMPLE_SECONDS, time.monotonic())
            time.sleep(max(self._next - time.monotonic(), 0.05))
        return True

    def mark(self, what: str) -> None:
        self.history.marks[what] = time.monotonic() - self._began

    def sample(self) -> None:
        places = {query: self._places(query, topics) for hop in HOPS for query, topics in hop.items()}
        # The ends last: a query is never ahead of them.
        ends = ends_of(self._admin, self._partitions)
        self.history.meter.note(Sample(time.monotonic() - self._began, ends, places))

    def is_drained(self, hop: Mapping[str, list[str]]) -> bool:
        """Whether a hop has read all that the hop before it, which is done, has written."""
        self.sample()
        return all(self.history.meter.lag(query) == 0 for query in hop)

    def most_behind(self, since: float, until: float) -> tuple[str, float]:
        """The query that was the most seconds behind its input between two moments, and how many."""
        found = {
            (query, at): self.history.seconds_behind(query, at)
            for hop in HOPS
            for query in hop
            for at, moment in enumerate(self.history.seconds)
            if since <= moment <= until
        }
        if not found:
            return "no query", 0.0
        worst = max(found, key=lambda each: found[each])
        return worst[0], found[worst]

    def _show(self, head: str) -> None:
        """The lines that `levada pipeline` shows, from what it notes about itself."""
        if not sys.stdout.isatty():
            if time.monotonic() < self._next_lines:
                return
            self._next_lines = time.monotonic() + LINES_SECONDS
        status = read_status(str(self._checkpoint), PIPELINE)
        progress = [
            QueryProgress(
                each.name, each.batch, 0, each.events_per_second, each.batch_ms, each.lag, each.note, lag_s=each.lag_s
            )
            for each in (() if status is None else status.queries)
        ]
        elapsed = time.monotonic() - self._began
        self._display.show(progress, self.history.rate(RAW_TOPICS), f"{elapsed:4.0f} s  {head}")

    def _places(self, query: str, topics: Collection[str]) -> dict[TopicPartition, int]:
        """Where a query is; at the beginning, if it has told of nothing yet."""
        group, partitions = group_of(PIPELINE, query), [each for each in self._partitions if each.topic in topics]
        committed = self._admin.list_group_offsets({group: partitions})[group]
        return {each: at.offset if (at := committed.get(each)) else 0 for each in partitions}
