"""What an application sees: throughput and latency through librdkafka (confluent-kafka), for acks 0, 1 and all."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.figures import Spread, spread
from benchmarks.load import Connection
from benchmarks.servers import Server, broker_command, running
from benchmarks.wire import check_created, create_topic_frame

ACKS = ("0", "1", "all")
BULK, PINGED = "bulk", "pings"
VALUE_BYTES = 100
MESSAGES = 50_000
PINGS = 200
TIMEOUT_SECONDS = 60
SILENT = 0
"""librdkafka would tell that the broker went away at the end of each round."""


def measure(rounds: int) -> dict[str, Any]:
    samples: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        first = number % len(ACKS)
        for acks in ACKS[first:] + ACKS[:first]:
            for name, value in _round(acks).items():
                samples.setdefault(acks, {}).setdefault(name, []).append(value)
    rows = {acks: {name: spread(taken) for name, taken in figures.items()} for acks, figures in samples.items()}
    for acks, figures in rows.items():
        print(describe(acks, figures))
    return {
        "value_bytes": VALUE_BYTES,
        "messages": MESSAGES,
        "pings": PINGS,
        "acks": {acks: {name: figure.as_json() for name, figure in figures.items()} for acks, figures in rows.items()},
    }


def describe(acks: str, figures: dict[str, Spread]) -> str:
    return (
        f"acks={acks:4} produce {figures['produced_per_second'].median:8.0f}/s"
        f" ({figures['produce_cpu_us'].median:.2f} µs of broker CPU each)"
        f"   consume {figures['consumed_per_second'].median:8.0f}/s ({figures['consume_cpu_us'].median:.2f} µs)"
        f"   acknowledged p50 {figures['ack_p50_us'].median:.0f} p99 {figures['ack_p99_us'].median:.0f} µs"
        f"   end to end p50 {figures['end_p50_us'].median:.0f} p99 {figures['end_p99_us'].median:.0f} µs"
    )


def _round(acks: str) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory(prefix="levada-bench-") as directory,
        running(broker_command(Path(directory) / "data")) as server,
    ):
        client = Connection(server.port)
        for topic in (BULK, PINGED):
            check_created(client.call(create_topic_frame(1, topic)))
        client.close()
        address = f"127.0.0.1:{server.port}"
        settings = {"bootstrap.servers": address, "log_level": SILENT, "acks": acks}
        figures = _timed(server, "produced_per_second", "produce_cpu_us", lambda: _produce(settings))
        figures |= _timed(server, "consumed_per_second", "consume_cpu_us", lambda: _consume(address))
        return figures | _latencies({**settings, "linger.ms": 0}, address)


def _timed(server: Server, rate: str, cpu: str, run: Callable[[], None]) -> dict[str, float]:
    cpu_ns, begun = server.cpu_ns(), time.perf_counter()
    run()
    seconds, used_ns = time.perf_counter() - begun, server.cpu_ns() - cpu_ns
    return {rate: MESSAGES / seconds, cpu: used_ns / 1000 / MESSAGES}


def _produce(settings: dict[str, Any]) -> None:
    failures: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({**settings, "queue.buffering.max.messages": MESSAGES})
    value = bytes(VALUE_BYTES)
    for _ in range(MESSAGES):
        producer.produce(BULK, value, on_delivery=on_delivery)
    left = producer.flush(TIMEOUT_SECONDS)
    assert not left, f"{left} messages were not delivered"
    assert not failures, failures[0]


def _consume(address: str) -> None:
    consumer = _consumer(address, BULK)
    # With acks=0 the last ones may still be on their way when the producer is done.
    deadline = time.monotonic() + TIMEOUT_SECONDS
    count = 0
    while count < MESSAGES:
        count += len(consumer.consume(10_000, timeout=0.1))
        assert time.monotonic() < deadline, f"only {count} of {MESSAGES} messages came"
    consumer.close()


def _latencies(settings: dict[str, Any], address: str) -> dict[str, float]:
    """One message at a time: until its delivery report, which acks=0 gives when it is sent, and until it is read."""
    producer, consumer = Producer(settings), _consumer(address, PINGED)
    acknowledged, arrived = [], []
    for number in range(PINGS + PINGS // 10):
        begun = time.perf_counter()
        producer.produce(PINGED, b"ping")
        assert not producer.flush(TIMEOUT_SECONDS)
        acknowledged_at = time.perf_counter()
        message = consumer.poll(TIMEOUT_SECONDS)
        assert message is not None
        assert message.error() is None, message.error()
        if number >= PINGS // 10:
            acknowledged.append((acknowledged_at - begun) * 1e6)
            arrived.append((time.perf_counter() - begun) * 1e6)
    consumer.close()
    return {
        "ack_p50_us": percentile(acknowledged, 50),
        "ack_p99_us": percentile(acknowledged, 99),
        "end_p50_us": percentile(arrived, 50),
        "end_p99_us": percentile(arrived, 99),
    }


def _consumer(address: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "log_level": SILENT,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def percentile(sample: list[float], share: int) -> float:
    ordered = sorted(sample)
    return ordered[min(len(ordered) * share // 100, len(ordered) - 1)]
