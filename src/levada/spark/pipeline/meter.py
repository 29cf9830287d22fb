"""How much comes into topics and how far queries are behind, measured by the clock and at the ends of now."""

import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from levada import Admin, OffsetSpec
from levada.client.admin import IsolationLevel
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.spark.pipeline.progress import QueryProgress

logger = logging.getLogger("levada.spark")

SAMPLE_SECONDS: Final = 1.0
RATE_SECONDS: Final = 15.0
"""What a rate is measured over."""
KEPT_SECONDS: Final = 60.0
STALE_SECONDS: Final = 10.0
"""What brokers have said so long ago is not the lag of now."""

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one moment: where topics end, where queries are in them, and how many events these have read."""

    at: float
    ends: Ends
    positions: Mapping[str, Ends]
    read: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Meter:
    """Rates and lags from samples over time."""

    kept_seconds: float = KEPT_SECONDS
    samples: list[Sample] = field(default_factory=list)

    def note(self, sample: Sample) -> None:
        self.samples.append(sample)
        while self.samples[0].at < sample.at - self.kept_seconds:
            del self.samples[0]

    def incoming(self, partitions: Collection[TopicPartition], at: int = -1, over: float = RATE_SECONDS) -> float:
        """Records a second that came into partitions before a sample, since each of them was first looked at."""
        span = self._span(at, over)
        return sum(_rate(_ends_in(span, each)) for each in partitions)

    def reading(self, query: str, at: int = -1, over: float = RATE_SECONDS) -> float:
        """Events a second that a query has read before a sample."""
        return _rate([(sample.at, sample.read.get(query, 0)) for sample in self._span(at, over)])

    def lag(self, query: str, at: int = -1) -> int | None:
        """Records that a query has still to read; None if its place is not known."""
        sample = self.samples[at]
        places = sample.positions.get(query, {})
        known = [max(0, sample.ends[each] - offset) for each, offset in places.items() if each in sample.ends]
        return sum(known) if known else None

    def seconds_behind(self, query: str, at: int = -1) -> float | None:
        """The lag as seconds of the query's input; None if that is not known, as where nothing comes in."""
        lag = self.lag(query, at)
        if not lag:
            return None if lag is None else 0.0
        rate = self.incoming(self.samples[at].positions[query], at)
        return lag / rate if rate > 0 else None

    def _span(self, at: int, over: float) -> list[Sample]:
        last = at % len(self.samples)
        first = last
        while first > 0 and self.samples[last].at - self.samples[first - 1].at <= over:
            first -= 1
        return self.samples[first : last + 1]


def _ends_in(span: Sequence[Sample], partition: TopicPartition) -> list[tuple[float, int]]:
    first = next((sample for sample in span if partition in sample.ends), span[-1])
    return [(sample.at, sample.ends[partition]) for sample in (first, span[-1]) if partition in sample.ends]


def _rate(counts: Sequence[tuple[float, int]]) -> float:
    """A second, from the first of some counts to the last.

    >>> _rate([(1.0, 10), (2.0, 15), (5.0, 30)]), _rate([(1.0, 10)]), _rate([])
    (5.0, 0.0, 0.0)
    """
    if not counts or counts[-1][0] <= counts[0][0]:
        return 0.0
    (begin, before), (end, now) = counts[0], counts[-1]
    return (now - before) / (end - begin)


def ends_of(admin: Admin, partitions: Collection[TopicPartition]) -> Ends:
    """What readers of committed records can read up to now; without partitions that are gone."""
    wanted = dict.fromkeys(partitions, OffsetSpec.LATEST)
    listed = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED).done
    return {partition: found.offset for partition, found in listed.items()}


class ProgressWatch:
    """Asks for the ends of what queries read, in a thread: brokers that do not answer hold nothing up."""

    def __init__(self, bootstrap: str, own_topics: Collection[str]) -> None:
        self._admin = Admin(bootstrap)
        self._own_topics = frozenset(own_topics)
        """What the pipeline writes itself: that is no news when it reads it again."""
        self._meter = Meter()
        self._meter.note(Sample(time.monotonic(), {}, {}))
        self._lock = threading.Lock()
        self._latest: Sequence[QueryProgress] = ()
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._sampled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="levada-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._wanted.set()
        # It may be waiting for brokers, whose client is closed under it then.
        self._admin.close()
        self._thread.join()

    def look(self) -> None:
        """Now, for the last words of a run; brokers are not waited for long."""
        self._sampled.clear()
        self._wanted.set()
        self._sampled.wait(SAMPLE_SECONDS)

    def measured(self, progress: Sequence[QueryProgress]) -> list[QueryProgress]:
        """The same with the rates and lags of now; a lag that only Spark can tell stays as it says."""
        with self._lock:
            self._latest = progress
            return [self._measured(one) for one in progress]

    def events_per_second(self) -> float:
        """What comes in from outside: into topics, each counted once, and to queries that read no topic."""
        with self._lock:
            outside = {
                partition
                for one in self._latest
                for partition in one.offsets
                if partition.topic not in self._own_topics
            }
            others = [one.name for one in self._latest if not one.offsets]
            return self._meter.incoming(outside) + sum(map(self._meter.reading, others))

    def _measured(self, one: QueryProgress) -> QueryProgress:
        meter = self._meter
        rate = meter.reading(one.name)
        if not one.offsets:
            return replace(one, events_per_second=rate)
        is_stale = time.monotonic() - meter.samples[-1].at > STALE_SECONDS
        lag, behind = (None, None) if is_stale else (meter.lag(one.name), meter.seconds_behind(one.name))
        return replace(one, events_per_second=rate, lag=lag, lag_s=behind)

    def _run(self) -> None:
        for _ in self._ticks():
            with self._lock:
                latest = self._latest
            partitions = {partition for one in latest for partition in one.offsets}
            try:
                ends = ends_of(self._admin, partitions) if partitions else {}
            except KafkaError as error:
                logger.debug("the ends of topics are not known now: %s", error)
                continue
            except Exception:
                if not self._stopping.is_set():
                    logger.exception("the ends of topics are not looked at any more")
                return
            with self._lock:
                places = {one.name: one.offsets for one in latest if one.offsets}
                self._meter.note(Sample(time.monotonic(), ends, places, {one.name: one.rows for one in latest}))

    def _ticks(self) -> Iterator[None]:
        while True:
            self._wanted.wait(SAMPLE_SECONDS)
            self._wanted.clear()
            if self._stopping.is_set():
                return
            yield
            self._sampled.set()
