"""Meters, histograms and the registry, without a clock."""

import random
from collections.abc import Iterator

import pytest

from levada.model.metrics import (
    BUCKET_COUNT,
    BUCKETS,
    PERCENTILES,
    WINDOW_MS,
    Histogram,
    Meter,
    Registry,
    Sample,
    Timer,
    bucket_of,
    highest_of,
    lowest_of,
    matches,
    split_name,
)

TICK_MS = 5_000
MINUTE_MS = 60_000
BYTES_IN = "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"


def rates(meter: Meter) -> tuple[object, ...]:
    shown = meter.attributes()
    return shown["OneMinuteRate"], shown["FiveMinuteRate"], shown["FifteenMinuteRate"]


def ticks(meter: Meter, start_ms: int, end_ms: int) -> None:
    for now_ms in range(start_ms + TICK_MS, end_ms + 1, TICK_MS):
        meter.tick(now_ms)


def test_a_meter_fades_as_yammers_does() -> None:
    meter = Meter(now_ms=1_000)
    meter.count += 3
    meter.tick(1_000 + TICK_MS)
    assert rates(meter) == pytest.approx((0.6, 0.6, 0.6))
    # The figures of Yammer's own tests.
    ticks(meter, 1_000 + TICK_MS, 1_000 + TICK_MS + MINUTE_MS)
    assert rates(meter) == pytest.approx((0.22072766, 0.49123845, 0.56130419))
    ticks(meter, 1_000 + TICK_MS + MINUTE_MS, 1_000 + TICK_MS + 2 * MINUTE_MS)
    assert rates(meter) == pytest.approx((0.08120117, 0.40219203, 0.52510399))
    assert meter.attributes()["Count"] == 3
    assert meter.attributes()["MeanRate"] == pytest.approx(3 / 125)


def test_a_meter_that_was_quiet_at_first_rises_slowly() -> None:
    meter = Meter(now_ms=0)
    meter.tick(TICK_MS)
    meter.count += 50
    meter.tick(2 * TICK_MS)
    assert rates(meter) == pytest.approx((0.7995558, 0.1652855, 0.0554016), rel=1e-5)


def test_a_late_tick_counts_what_happened_over_the_time_it_took() -> None:
    late, steady = Meter(0), Meter(0)
    for now_ms in (5_000, 10_000, 15_000):
        steady.count += 10
        steady.tick(now_ms)
    late.count = 10
    late.tick(5_000)
    late.count = 30
    late.tick(15_000)
    assert rates(late) == pytest.approx(rates(steady))
    assert rates(late) == pytest.approx((2.0, 2.0, 2.0))
    late.tick(15_000)
    late.tick(14_000)
    assert rates(late) == pytest.approx((2.0, 2.0, 2.0)), "a tick without time changes nothing"


def test_a_meter_that_slept_is_where_it_would_be() -> None:
    slept, awake = Meter(0), Meter(0)
    for meter in (slept, awake):
        meter.count = 1_000
        meter.tick(TICK_MS)
    ticks(awake, TICK_MS, 10 * MINUTE_MS)
    slept.tick(10 * MINUTE_MS)
    assert rates(slept) == pytest.approx(rates(awake))


def test_buckets_follow_each_other_and_are_narrow() -> None:
    assert [bucket_of(value) for value in range(40)] == [*range(32), *(32 + step // 2 for step in range(8))]
    for bucket in range(BUCKET_COUNT):
        low, high = lowest_of(bucket), highest_of(bucket)
        assert bucket_of(low) == bucket_of(high) == bucket
        assert high - low < max(low / 16, 1)
        assert lowest_of(bucket + 1) == high + 1
    assert list(BUCKETS) == [bucket_of(value) for value in range(65_536)]
    assert bucket_of(10**15) == bucket_of(2**32 - 1) == BUCKET_COUNT - 1
    assert bucket_of(-1) == 0


@pytest.mark.parametrize("largest", [12, 3_000, 5_000_000])
def test_percentiles_are_those_of_the_values_within_a_bucket(largest: int) -> None:
    chance = random.Random(largest)
    values = sorted(chance.randrange(1, largest) for _ in range(20_000))
    histogram = Histogram(now_ms=0)
    for value in values:
        histogram.record(value)
    shown = histogram.attributes()
    for name, share in PERCENTILES.items():
        assert shown[name] == pytest.approx(values[int(share * (len(values) - 1))], rel=1 / 16), name
    assert shown["Mean"] == pytest.approx(sum(values) / len(values), rel=1 / 32)
    assert shown["Min"] == pytest.approx(values[0], rel=1 / 16)
    assert shown["Max"] == pytest.approx(values[-1], rel=1 / 16)
    assert shown["Count"] == len(values)


def test_a_histogram_without_values_shows_zeros() -> None:
    assert set(Histogram(0).attributes().values()) == {0}


def test_what_is_shown_is_divided() -> None:
    histogram = Histogram(0, divisor=1_000)
    histogram.record(12)
    assert {histogram.attributes()[name] for name in ("Min", "Max", "Mean", "50thPercentile")} == {0.012}


def test_percentiles_forget_and_counts_do_not() -> None:
    histogram = Histogram(0)
    histogram.record(10)
    histogram.tick(WINDOW_MS - 1)
    assert histogram.recent[10] == 1, "too early"
    histogram.tick(WINDOW_MS)
    histogram.record(3)
    assert histogram.attributes()["999thPercentile"] == 10
    histogram.tick(2 * WINDOW_MS)
    assert histogram.attributes()["999thPercentile"] == 3
    assert (histogram.attributes()["Count"], histogram.attributes()["Max"]) == (2, 10)


def test_a_silent_histogram_keeps_its_last_percentiles() -> None:
    histogram = Histogram(0)
    histogram.record(7)
    for window in range(1, 10):
        histogram.tick(window * WINDOW_MS)
    assert histogram.attributes()["50thPercentile"] == 7
    assert histogram.attributes()["Count"] == 1


def test_a_timer_tells_how_often_and_how_long() -> None:
    timer = Timer(0)
    timer.record(1_500)
    timer.record(1_500)
    timer.tick(TICK_MS)
    shown = timer.attributes()
    assert (shown["Count"], shown["OneMinuteRate"]) == (2, 0.4)
    assert shown["Mean"] == pytest.approx(1.5, rel=1 / 32)


def test_the_registry_keeps_its_order_and_asks_its_sources() -> None:
    registry = Registry()
    meter = Meter(0)
    registry.register(f"{BYTES_IN},topic=b", meter)
    registry.register_gauge("kafka.server:type=KafkaServer,name=BrokerState", lambda: 3)
    registry.register(f"{BYTES_IN},topic=a", Meter(0))

    def source() -> Iterator[Sample]:
        yield Sample("kafka.log:type=Log,name=Size", {"topic": "t", "partition": "0"}, "gauge", {"Value": meter.count})

    registry.add_source(source)
    meter.count = 5
    registry.tick(TICK_MS)
    readings = list(registry.collect())
    assert [reading.name for reading in readings] == [
        f"{BYTES_IN},topic=b",
        "kafka.server:type=KafkaServer,name=BrokerState",
        f"{BYTES_IN},topic=a",
        "kafka.log:type=Log,name=Size,topic=t,partition=0",
    ]
    assert [reading.kind for reading in readings] == ["meter", "gauge", "meter", "gauge"]
    assert readings[0].attributes["OneMinuteRate"] == 1.0
    assert (readings[1].attributes, readings[3].attributes) == ({"Value": 3}, {"Value": 5})
    with pytest.raises(AssertionError, match="twice"):
        registry.register(f"{BYTES_IN},topic=a", Meter(0))


def test_metrics_are_removed_by_family_and_tag() -> None:
    def names() -> list[str]:
        return [reading.name for reading in registry.collect()]

    registry = Registry()
    for name in (BYTES_IN, f"{BYTES_IN},topic=a", f"{BYTES_IN},topic=ab", "kafka.log:type=Log,name=Size,topic=a"):
        registry.register_gauge(name, lambda: 0)
    registry.remove("kafka.server:type=BrokerTopicMetrics", topic="a")
    assert names() == [BYTES_IN, f"{BYTES_IN},topic=ab", "kafka.log:type=Log,name=Size,topic=a"]
    registry.remove(topic="a")
    assert names() == [BYTES_IN, f"{BYTES_IN},topic=ab"]
    registry.remove("kafka.server")
    assert names() == []


def test_a_name_is_split_into_family_and_tags() -> None:
    name = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9"
    family, tags = split_name(name)
    assert family == "kafka.network:type=RequestMetrics,name=RequestsPerSec"
    assert tags == {"request": "Produce", "version": "9"}
    assert Sample(family, tags, "meter", {}).name == name
    assert split_name("kafka.server:type=raft-metrics") == ("kafka.server:type=raft-metrics", {})


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        (f"{BYTES_IN},topic=orders", True),
        ("kafka.server:topic=orders,name=BytesInPerSec,type=BrokerTopicMetrics", True),
        (f"{BYTES_IN},topic=*", True),
        (f"{BYTES_IN},*", True),
        ("kafka.*:type=Broker*,name=Bytes??PerSec,topic=o*s", True),
        ("*:*", True),
        (BYTES_IN, False),
        (f"{BYTES_IN},topic=order", False),
        (f"{BYTES_IN},topic=orders,partition=*", False),
        ("kafka.log:*", False),
        (f"{BYTES_IN},topic=[o]rders", False),
        ("", False),
    ],
)
def test_patterns_are_those_of_jmx(pattern: str, fits: bool) -> None:
    assert matches(pattern, f"{BYTES_IN},topic=orders") is fits
