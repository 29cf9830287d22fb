"""The five-minute tour as a program: a broker, clients that know nothing of it, a crash in between, our own clients."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaConsumer

from levada import Consumer as OwnConsumer
from levada import Producer as OwnProducer

TOPIC = "first"
OWN_TOPIC = "own"
PARTITIONS = 3
RECORDS = 10_000


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="levada-demo-") as directory:
        broker, bootstrap = start_broker(directory)
        try:
            create_topic(bootstrap)
            produce(bootstrap)
            consume_in_a_group(bootstrap)
            say("killing the broker with SIGKILL, and starting it again on the same directory")
            os.kill(broker.pid, signal.SIGKILL)
            broker.wait()
            broker, bootstrap = start_broker(directory)
            asyncio.run(read_back(bootstrap))
            use_own_clients(bootstrap)
            show_files(directory)
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(10)
    print(
        "\nTo go on:\n"
        "  .venv/bin/levada serve                 a broker on localhost:9092, data in ./levada-data\n"
        "  .venv/bin/levada serve --help          every option\n"
        "  point any Kafka client at localhost:9092, and see README.md for the tour\n"
    )
    return 0


def say(text: str) -> None:
    print(f"\n>> {text}", flush=True)


def start_broker(directory: str) -> "tuple[subprocess.Popen[str], str]":
    start = time.perf_counter()
    command = [sys.executable, "-m", "levada", "serve", "--data-dir", directory, "--listen", "localhost:0"]
    command += ["--set", "group.initial.rebalance.delay.ms=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line.startswith("levada: broker"):
        raise SystemExit("the broker did not start; run 'levada serve' to see why")
    say(f"{line} (after {time.perf_counter() - start:.2f} s)")
    return process, line.rpartition(" ")[2]


def create_topic(bootstrap: str) -> None:
    say(f"confluent-kafka creates topic {TOPIC!r} with {PARTITIONS} partitions")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        created.result(10)


def produce(bootstrap: str) -> None:
    say(f"confluent-kafka produces {RECORDS} records, lz4, acks=all, idempotent")
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "enable.idempotence": True})
    start = time.perf_counter()
    for number in range(RECORDS):
        producer.produce(TOPIC, key=f"user-{number % 100}", value=f"event {number}")
        producer.poll(0)
    left = producer.flush(30)
    assert left == 0, f"{left} records were not acknowledged"
    print(f"   all acknowledged in {time.perf_counter() - start:.2f} s")


def consume_in_a_group(bootstrap: str) -> None:
    say("kafka-python consumes them in a consumer group and commits")
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="demo",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
    )
    counts: dict[int, int] = {}
    for record in consumer:
        counts[record.partition] = counts.get(record.partition, 0) + 1
        if sum(counts.values()) == RECORDS:
            break
    consumer.commit()
    consumer.close()
    assert sum(counts.values()) == RECORDS, counts
    for partition, count in sorted(counts.items()):
        print(f"   partition {partition}: {count} records")


async def read_back(bootstrap: str) -> None:
    say("aiokafka reads everything again")
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        last: Any = None
        total = 0
        while total < RECORDS:
            for records in (await consumer.getmany(*partitions, timeout_ms=10_000)).values():
                total += len(records)
                last = records[-1]
    finally:
        await consumer.stop()
    print(f"   {total} records survived; the last one of a partition: {last.key!r} -> {last.value!r}")


def use_own_clients(bootstrap: str) -> None:
    say("Levada's own clients send as many again, as one transaction, and read what was committed")
    with OwnProducer(bootstrap, transactional_id="demo") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send_many(OWN_TOPIC, [f"event {number}".encode() for number in range(RECORDS)])
    total = 0
    with OwnConsumer(bootstrap, group_id="own", auto_offset_reset="earliest", isolation_level="read_committed") as own:
        own.subscribe([OWN_TOPIC])
        while total < RECORDS:
            total += len(own.poll(10.0))
    print(f"   {total} records, all or none of them")


def show_files(directory: str) -> None:
    say("on disk, in Apache Kafka's layout")
    for path in sorted(Path(directory).glob(f"{TOPIC}-*/*.log")):
        print(f"   {path.relative_to(directory)}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(main())
