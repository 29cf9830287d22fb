"""What the broker counts: plain integers where requests pass, Kafka's metrics made of them when they are collected."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final, TypeVar

from levada.broker.response_errors import error_codes, error_counter
from levada.model.error_codes import ErrorCode
from levada.model.metrics import (
    BUCKETS,
    Histogram,
    Meter,
    Registry,
    Sample,
    Timer,
    bucket_of,
    histogram_attributes,
)
from levada.protocol.api import ApiKey, response_class

TOPIC_METERS: Final = {
    "messages_in": "MessagesInPerSec",
    "bytes_in": "BytesInPerSec",
    "bytes_out": "BytesOutPerSec",
    "bytes_rejected": "BytesRejectedPerSec",
    "total_produce_requests": "TotalProduceRequestsPerSec",
    "total_fetch_requests": "TotalFetchRequestsPerSec",
    "failed_produce_requests": "FailedProduceRequestsPerSec",
    "failed_fetch_requests": "FailedFetchRequestsPerSec",
    "produce_message_conversions": "ProduceMessageConversionsPerSec",
    "no_key_compacted_topic_records": "NoKeyCompactedTopicRecordsPerSec",
    "invalid_magic_number_records": "InvalidMagicNumberRecordsPerSec",
    "invalid_message_crc_records": "InvalidMessageCrcRecordsPerSec",
    "invalid_offset_or_sequence_records": "InvalidOffsetOrSequenceRecordsPerSec",
}
"""Counters of a topic, and the meters made of them."""

ONLY_FOR_ALL_TOPICS: Final = (
    "no_key_compacted_topic_records",
    "invalid_magic_number_records",
    "invalid_message_crc_records",
    "invalid_offset_or_sequence_records",
)

_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
_REQUESTS: Final = "kafka.network:type=RequestMetrics,name="
_US_PER_MS: Final = 1_000
_CODES_IN_SLICE: Final = 5_000

K = TypeVar("K")


class TopicMetrics:
    """Counters of one topic; the handlers of its requests add to them."""

    __slots__ = (*TOPIC_METERS, "is_busy", "meters", "seen")

    messages_in: int
    bytes_in: int
    bytes_out: int
    bytes_rejected: int
    total_produce_requests: int
    total_fetch_requests: int
    failed_produce_requests: int
    failed_fetch_requests: int
    produce_message_conversions: int
    no_key_compacted_topic_records: int
    invalid_magic_number_records: int
    invalid_message_crc_records: int
    invalid_offset_or_sequence_records: int

    def __init__(self) -> None:
        for counter in TOPIC_METERS:
            setattr(self, counter, 0)
        self.seen = _counters(self)
        self.is_busy = False
        self.meters: dict[str, Meter] = {}


_counters: Callable[[TopicMetrics], tuple[int, ...]] = attrgetter(*TOPIC_METERS)


class ApiMetrics:
    """Requests of one API.

    A request that did not wait leaves one duration: its local time is its total time, and its remote time is zero.
    """

    __slots__ = (
        "_count_errors",
        "_durations",
        "_error_codes",
        "_error_meters",
        "_errors",
        "_failed",
        "_request_meters",
        "_requests",
        "_sizes",
        "_title",
        "_waited_local",
        "_waited_remote",
        "_waited_total",
    )

    def __init__(self, api_key: int, now_ms: int) -> None:
        response = response_class(api_key)
        self._title = ApiKey(api_key).title
        self._requests = [0] * response.versions.stop
        self._count_errors = error_counter(response)
        self._error_codes = error_codes(response)
        self._errors: Counter[int] = Counter()
        self._failed = 0
        self._sizes = Histogram(now_ms)
        self._durations = Histogram(now_ms, _US_PER_MS)
        self._waited_total = Histogram(now_ms, _US_PER_MS)
        self._waited_local = Histogram(now_ms, _US_PER_MS)
        self._waited_remote = Histogram(now_ms, _US_PER_MS)
        self._request_meters: dict[int, Meter] = {}
        self._error_meters: dict[int, Meter] = {}

    def record(self, version: int, size: int, duration_ns: int, response: object) -> None:
        """A request that was answered at once; its response is None where the protocol sends nothing."""
        self._requests[version] += 1
        # As Histogram.record does, without the price of two calls.
        try:
            duration_bucket = BUCKETS[duration_ns // 1_000]
            size_bucket = BUCKETS[size]
        except IndexError:
            duration_bucket = bucket_of(duration_ns // 1_000)
            size_bucket = bucket_of(size)
        self._durations.recent[duration_bucket] += 1
        self._sizes.recent[size_bucket] += 1
        if response is not None and self._count_errors(response, self._errors):
            self._failed += 1

    def record_waited(self, version: int, size: int, local_ns: int, remote_ns: int, response: object) -> None:
        """A request whose answer had to wait for `remote_ns`."""
        self._requests[version] += 1
        self._sizes.record(size)
        self._waited_total.record((local_ns + remote_ns) // 1_000)
        self._waited_local.record(local_ns // 1_000)
        self._waited_remote.record(remote_ns // 1_000)
        if response is not None and self._count_errors(response, self._errors):
            self._failed += 1

    def count_errors(self, response: object) -> int:
        """How many there are in a part of a response; `record_sliced` comes when all parts are there."""
        return self._count_errors(response, self._errors)

    def count_errors_in_slices(self, response: object) -> Iterator[int]:
        """How many there were so far, again and again while they are counted."""
        found = 0
        for looked_at, code in enumerate(self._error_codes(response), 1):
            if code:
                self._errors[code] += 1
                found += 1
            if not looked_at % _CODES_IN_SLICE:
                yield found
        yield found

    def record_sliced(self, version: int, size: int, duration_ns: int, *, has_failed: bool) -> None:
        """A request that was handled in slices, whose errors are counted already."""
        self._requests[version] += 1
        self._sizes.record(size)
        self._waited_total.record(duration_ns // 1_000)
        self._waited_local.record(duration_ns // 1_000)
        self._waited_remote.record(0)
        self._failed += has_failed

    def update(self, since_ms: int) -> None:
        """Show the counters to the meters; a meter that is new began at `since_ms`."""
        _update(self._request_meters, enumerate(self._requests), since_ms)
        succeeded = sum(self._requests) - self._failed
        _update(self._error_meters, ((ErrorCode.NONE, succeeded), *self._errors.items()), since_ms)

    def tick(self, now_ms: int) -> None:
        for meter in (*self._request_meters.values(), *self._error_meters.values()):
            meter.tick(now_ms)
        waited = (self._waited_total, self._waited_local, self._waited_remote)
        for histogram in (self._sizes, self._durations, *waited):
            histogram.tick(now_ms)

    def readings(self) -> Iterator[Sample]:
        # Kafka tells the fetches of consumers from those of followers, except where it counts their errors.
        name = "FetchConsumer" if self._title == "Fetch" else self._title
        for version, meter in list(self._request_meters.items()):
            tags = {"request": name, "version": str(version)}
            yield Sample(f"{_REQUESTS}RequestsPerSec", tags, meter.kind, meter.attributes())
        for code, meter in list(self._error_meters.items()):
            tags = {"request": self._title, "error": ErrorCode(code).name}
            yield Sample(f"{_REQUESTS}ErrorsPerSec", tags, meter.kind, meter.attributes())
        ever, window = self._durations.ever(), self._durations.window()
        no_time_ever, no_time_lately = Counter({0: ever.total()}), Counter({0: window.total()})
        for figure, waited, ever_at_once, lately_at_once in (
            ("TotalTimeMs", self._waited_total, ever, window),
            ("LocalTimeMs", self._waited_local, ever, window),
            ("RemoteTimeMs", self._waited_remote, no_time_ever, no_time_lately),
        ):
            shown = histogram_attributes(ever_at_once + waited.ever(), lately_at_once + waited.window(), _US_PER_MS)
            yield Sample(_REQUESTS + figure, {"request": name}, Histogram.kind, shown)
        yield Sample(f"{_REQUESTS}RequestBytes", {"request": name}, Histogram.kind, self._sizes.attributes())


class ApisCalled(dict[int, ApiMetrics]):
    """By key; an API's metrics begin when it is first asked for."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __missing__(self, api_key: int) -> ApiMetrics:
        self[api_key] = ApiMetrics(api_key, self.now_ms)
        return self[api_key]


class BrokerMetrics:
    """All counters of a broker. `tick` wants to be called every five seconds."""

    def __init__(self, registry: Registry, now_ms: int) -> None:
        self.registry = registry
        self.apis = ApisCalled(now_ms)
        self.fetch_session_evictions = Meter(now_ms)
        self.log_flushes = Timer(now_ms)
        self._ticked_ms = now_ms
        self._topics: dict[str, TopicMetrics] = {}
        self._all_topics = {counter: Meter(now_ms) for counter in TOPIC_METERS}
        evictions = "kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec"
        registry.register(evictions, self.fetch_session_evictions)
        registry.register("kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs", self.log_flushes)
        registry.add_source(self._readings)

    def topic(self, name: str) -> TopicMetrics:
        if name not in self._topics:
            self._topics[name] = TopicMetrics()
        return self._topics[name]

    def forget_topic(self, name: str) -> None:
        """A deleted topic's metrics go; what it counted stays in the figures of all topics."""
        topic = self._topics.pop(name, None)
        if topic is not None:
            self._update_topic(topic)

    def tick(self, now_ms: int) -> None:
        self._update()
        for meter in self._all_topics.values():
            meter.tick(now_ms)
        for topic in self._topics.values():
            if topic.is_busy:
                topic.is_busy = False
                _tick(topic, now_ms)
        for api in self.apis.values():
            api.tick(now_ms)
        self.registry.tick(now_ms)
        self._ticked_ms = self.apis.now_ms = now_ms

    def _update(self) -> None:
        for topic in self._topics.values():
            self._update_topic(topic)
        for api in self.apis.values():
            api.update(self._ticked_ms)

    def _update_topic(self, topic: TopicMetrics) -> None:
        counters = _counters(topic)
        # Of many topics few are busy: the others cost one comparison, and their meters wait for their next event.
        if counters == topic.seen:
            return
        _tick(topic, self._ticked_ms)
        topic.is_busy = True
        for counter, count, seen in zip(TOPIC_METERS, counters, topic.seen):
            self._all_topics[counter].count += count - seen
        topic.seen = counters
        own = ((counter, count) for counter, count in zip(TOPIC_METERS, counters) if counter not in ONLY_FOR_ALL_TOPICS)
        _update(topic.meters, own, self._ticked_ms)

    def _readings(self) -> Iterator[Sample]:
        self._update()
        for counter, meter in self._all_topics.items():
            yield Sample(_TOPICS + TOPIC_METERS[counter], {}, meter.kind, meter.attributes())
        for name, topic in list(self._topics.items()):
            _tick(topic, self._ticked_ms)
            for counter, meter in list(topic.meters.items()):
                yield Sample(_TOPICS + TOPIC_METERS[counter], {"topic": name}, meter.kind, meter.attributes())
        for api in list(self.apis.values()):
            yield from api.readings()


def _tick(topic: TopicMetrics, now_ms: int) -> None:
    for meter in topic.meters.values():
        meter.tick(now_ms)


def _update(meters: dict[K, Meter], counts: Iterable[tuple[K, int]], since_ms: int) -> None:
    """As in Kafka, what never happened has no meter."""
    for key, count in counts:
        if count and key not in meters:
            meters[key] = Meter(since_ms)
        if count:
            meters[key].count = count
