"""Meters, histograms and gauges, under the names that Kafka gives its MBeans."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import accumulate
from math import exp
from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias

Value: TypeAlias = int | float | str

WINDOW_MS: Final = 150_000

_STEP_BITS: Final = 4
_STEPS: Final = 1 << _STEP_BITS
_LARGEST: Final = (1 << 32) - 1
PERCENTILES: Final = {
    "50thPercentile": 0.5,
    "75thPercentile": 0.75,
    "95thPercentile": 0.95,
    "98thPercentile": 0.98,
    "99thPercentile": 0.99,
    "999thPercentile": 0.999,
}


class Sample(NamedTuple):
    """What one metric says at one moment."""

    family: str
    """The name without its tags: `domain:type=...,name=...`."""
    tags: Mapping[str, str]
    kind: str
    """`meter`, `histogram`, `timer`, `gauge` (its one attribute is Value), or `attributes`."""
    attributes: Mapping[str, Value]

    @property
    def name(self) -> str:
        return self.family + "".join(f",{tag}={value}" for tag, value in self.tags.items())


class Metric(Protocol):
    kind: ClassVar[str]

    def tick(self, now_ms: int) -> None:
        """Every five seconds: what depends on time is brought up to it."""
        ...

    def attributes(self) -> dict[str, Value]: ...


class Meter:
    """Counts events by `meter.count += n`; its rates fade as those of Yammer's meters do in Kafka."""

    __slots__ = ("_fifteen", "_five", "_one", "_seen", "_started_ms", "_ticked_ms", "count")
    kind: ClassVar[str] = "meter"

    def __init__(self, now_ms: int) -> None:
        self.count = 0
        self._seen = 0
        self._started_ms = self._ticked_ms = now_ms
        self._one = self._five = self._fifteen = 0.0

    def tick(self, now_ms: int) -> None:
        """At any time: the events since the last tick are taken as spread over the time since then."""
        elapsed_ms = now_ms - self._ticked_ms
        if elapsed_ms <= 0:
            return
        recent = (self.count - self._seen) * 1_000 / elapsed_ms
        # The first interval is all there is to go by.
        one, five, fifteen = (0.0, 0.0, 0.0) if self._ticked_ms == self._started_ms else _decays(elapsed_ms)
        self._one = recent + (self._one - recent) * one
        self._five = recent + (self._five - recent) * five
        self._fifteen = recent + (self._fifteen - recent) * fifteen
        self._seen = self.count
        self._ticked_ms = now_ms

    def attributes(self) -> dict[str, Value]:
        age_ms = self._ticked_ms - self._started_ms
        return {
            "Count": self.count,
            "MeanRate": self.count * 1_000 / age_ms if age_ms else 0.0,
            "OneMinuteRate": self._one,
            "FiveMinuteRate": self._five,
            "FifteenMinuteRate": self._fifteen,
        }


class Histogram:
    """Counts integers in buckets of 1/16 of their octave. Percentiles are of the last minutes, the rest is of all time.

    The attributes show what was recorded divided by `divisor`.
    """

    __slots__ = ("_ever", "_older", "_rotated_ms", "divisor", "recent")
    kind: ClassVar[str] = "histogram"

    def __init__(self, now_ms: int, divisor: int = 1) -> None:
        self.recent = [0] * BUCKET_COUNT
        self.divisor = divisor
        self._older: Counter[int] = Counter()
        self._ever: Counter[int] = Counter()
        self._rotated_ms = now_ms

    def record(self, value: int) -> None:
        try:
            self.recent[BUCKETS[value]] += 1
        except IndexError:
            self.recent[bucket_of(value)] += 1

    def tick(self, now_ms: int) -> None:
        if now_ms - self._rotated_ms < WINDOW_MS:
            return
        self._rotated_ms = now_ms
        recent = _used(self.recent)
        # What falls silent keeps its last percentiles, as Yammer's samples do.
        if recent:
            self._older = recent
            self._ever += recent
            self.recent = [0] * BUCKET_COUNT

    def window(self) -> "Counter[int]":
        """Buckets and their counts of the last 2.5 to 5 minutes in which there were any."""
        return self._older + _used(self.recent)

    def ever(self) -> "Counter[int]":
        return self._ever + _used(self.recent)

    def attributes(self) -> dict[str, Value]:
        return histogram_attributes(self.ever(), self.window(), self.divisor)


class Timer:
    """How often something happens and how long it takes, in microseconds; shown in milliseconds."""

    __slots__ = ("_meter", "durations")
    kind: ClassVar[str] = "timer"

    def __init__(self, now_ms: int) -> None:
        self.durations = Histogram(now_ms, divisor=1_000)
        self._meter = Meter(now_ms)

    def record(self, duration_us: int) -> None:
        self.durations.record(duration_us)
        self._meter.count += 1

    def tick(self, now_ms: int) -> None:
        self.durations.tick(now_ms)
        self._meter.tick(now_ms)

    def attributes(self) -> dict[str, Value]:
        return {**self.durations.attributes(), **self._meter.attributes()}


class Gauge:
    """A value that is worked out when it is read."""

    __slots__ = ("_read",)
    kind: ClassVar[str] = "gauge"

    def __init__(self, read: Callable[[], Value]) -> None:
        self._read = read

    def tick(self, now_ms: int) -> None:
        """Nothing of it depends on time."""

    def attributes(self) -> dict[str, Value]:
        return {"Value": self._read()}


class Registry:
    """All metrics of a node by name, in the order they were registered."""

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[str, dict[str, str], Metric]] = {}
        self._sources: list[Callable[[], Iterable[Sample]]] = []

    def register(self, name: str, metric: Metric) -> None:
        assert name not in self._metrics, f"{name} is registered twice"
        self._metrics[name] = (*split_name(name), metric)

    def register_gauge(self, name: str, read: Callable[[], Value]) -> None:
        self.register(name, Gauge(read))

    def add_source(self, source: Callable[[], Iterable[Sample]]) -> None:
        """Metrics that come and go: `source` is called by each `collect`. It must not mind that they change while it
        is iterated."""
        self._sources.append(source)

    def remove(self, family: str = "", **tags: str) -> None:
        """Forget the registered metrics whose family begins so and that have all these tags."""
        gone = [
            name
            for name, (its_family, its_tags, _) in self._metrics.items()
            if its_family.startswith(family) and tags.items() <= its_tags.items()
        ]
        for name in gone:
            del self._metrics[name]

    def tick(self, now_ms: int) -> None:
        for _, _, metric in self._metrics.values():
            metric.tick(now_ms)

    def collect(self) -> Iterator[Sample]:
        """What every metric says. A caller that takes it in slices gets each reading as of the moment it is taken."""
        for family, tags, metric in list(self._metrics.values()):
            yield Sample(family, tags, metric.kind, metric.attributes())
        for source in self._sources:
            yield from source()


def histogram_attributes(ever: "Counter[int]", window: "Counter[int]", divisor: int) -> dict[str, Value]:
    """Everything a histogram shows, exact but for the width of the buckets."""
    count = ever.total()
    if not count:
        return {"Count": 0, **dict.fromkeys(("Min", "Max", "Mean", *PERCENTILES), 0.0)}
    total = sum((lowest_of(bucket) + highest_of(bucket)) / 2 * times for bucket, times in ever.items())
    return {
        "Count": count,
        "Min": lowest_of(min(ever)) / divisor,
        "Max": highest_of(max(ever)) / divisor,
        "Mean": total / count / divisor,
        **_percentiles(window, divisor),
    }


def bucket_of(value: int) -> int:
    """Values below 16 have a bucket each; above, each octave has 16."""
    if value < _STEPS:
        return max(value, 0)
    octave = min(value, _LARGEST).bit_length() - _STEP_BITS - 1
    return octave * _STEPS + (min(value, _LARGEST) >> octave)


def lowest_of(bucket: int) -> int:
    if bucket < _STEPS:
        return bucket
    octave, step = divmod(bucket - _STEPS, _STEPS)
    return (_STEPS + step) << octave


def highest_of(bucket: int) -> int:
    return lowest_of(bucket + 1) - 1


BUCKET_COUNT: Final = bucket_of(_LARGEST) + 1
_BELOW: Final = 1 << 16
# Bucket by bucket: a call for each value would be an eighth of a second of every start.
BUCKETS: Final = b"".join(
    bytes((bucket,)) * (highest_of(bucket) - lowest_of(bucket) + 1) for bucket in range(bucket_of(_BELOW - 1) + 1)
)
"""The bucket of each value below 65,536, for code that cannot afford a call."""


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """An MBean's name as its family (domain, type and name) and its further tags."""
    domain, properties = _parse(name)
    inner = ",".join(f"{key}={properties.pop(key)}" for key in ("type", "name") if key in properties)
    return f"{domain}:{inner}", properties


def matches(pattern: str, name: str) -> bool:
    """Whether a name fits a JMX pattern: tags in any order, `*` and `?` in values, `,*` for any further tags."""
    wanted_domain, wanted = _parse(pattern)
    domain, tags = _parse(name)
    allows_more = wanted.pop("*", None) is not None
    if not allows_more and len(wanted) != len(tags):
        return False
    return _fits(wanted_domain, domain) and all(tag in tags and _fits(text, tags[tag]) for tag, text in wanted.items())


def _parse(name: str) -> tuple[str, dict[str, str]]:
    domain, _, rest = name.partition(":")
    pairs = [item.partition("=") for item in rest.split(",")]
    return domain, {tag: value for tag, _, value in pairs}


def _fits(pattern: str, text: str) -> bool:
    # Brackets mean nothing in JMX.
    return fnmatchcase(text, pattern.replace("[", "[[]"))


@lru_cache(maxsize=64)
def _decays(elapsed_ms: int) -> tuple[float, float, float]:
    """What is left of a rate of one, five and fifteen minutes."""
    return exp(-elapsed_ms / 60_000), exp(-elapsed_ms / 300_000), exp(-elapsed_ms / 900_000)


def _used(counts: list[int]) -> "Counter[int]":
    return Counter({bucket: count for bucket, count in enumerate(counts) if count})


def _percentiles(window: "Counter[int]", divisor: int) -> dict[str, Value]:
    buckets = sorted(window)
    ends = list(accumulate(window[bucket] for bucket in buckets))

    def value_at(rank: int) -> float:
        at = bisect_right(ends, rank)
        low, high = lowest_of(buckets[at]), highest_of(buckets[at])
        # Where in its bucket a value lies is unknown; even spacing is the best guess.
        before = ends[at] - window[buckets[at]]
        return low + (high - low) * (rank - before + 0.5) / window[buckets[at]]

    last = ends[-1] - 1
    shown: dict[str, Value] = {}
    for name, share in PERCENTILES.items():
        # Between two values as Yammer's snapshots have it.
        position = min(max(share * (last + 2) - 1, 0), last)
        low, high = value_at(int(position)), value_at(min(int(position) + 1, last))
        shown[name] = (low + (high - low) * (position % 1)) / divisor
    return shown
