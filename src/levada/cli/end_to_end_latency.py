"""`levada end-to-end-latency`: measures the time from sending a record to reading it, as Kafka's EndToEndLatency."""

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import DEFAULT_SERVER, add_connection, check_reachable, given_settings, settings_for
from levada.cli.kit.parser import natural, number, positive
from levada.cli.kit.refusals import Refused, WrongUsage, changing
from levada.cli.kit.terminal import progress

if TYPE_CHECKING:
    from levada.client.blocking import Consumer, Producer
    from levada.records import ConsumerRecord

POSITIONAL_WARNING: Final = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named"
    " arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, --command-config"
)
POSITIONS: Final = ("bootstrap_server", "topic", "num_records", "producer_acks", "record_size", "command_config")
REQUIRED: Final = POSITIONS[1:5]

ACKS: Final = ("1", "all")
NO_VALUE: Final = -1
POLL_SECONDS: Final = 60.0
REPORT_EACH: Final = 1_000
PERCENTILES: Final = {"50th": 0.5, "99th": 0.99, "99.9th": 0.999, "99.99th": 0.9999}

Record = tuple[bytes, bytes, list[tuple[str, bytes | None]]]
"""Key, value and headers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.set_defaults(bootstrap_server=None)
    parser.add_argument("--topic", metavar="TOPIC", help="is created with one partition where it is missing")
    parser.add_argument("--num-records", metavar="N", type=positive, help="how many to send")
    parser.add_argument("--producer-acks", metavar="ACKS", type=_acks, help="1 or all")
    parser.add_argument("--record-size", metavar="BYTES", type=natural, help="of each value")
    optional: dict[str, Any] = {"nargs": "?", "const": 0, "default": 0}
    parser.add_argument("--record-key-size", metavar="BYTES", type=natural, help="of each key", **optional)
    parser.add_argument("--num-headers", metavar="N", type=natural, help="of each record", **optional)
    parser.add_argument("--record-header-key-size", metavar="BYTES", type=natural, help="of their keys", **optional)
    parser.add_argument(
        "--record-header-size", metavar="BYTES", type=_size_or_null, help="of their values; -1 for none", **optional
    )
    parser.add_argument("positional", nargs="*", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    _take_positional(arguments)
    missing = [f"--{name.replace('_', '-')}" for name in REQUIRED if getattr(arguments, name) is None]
    if missing:
        raise WrongUsage(f"give {', '.join(missing)}")
    server = arguments.bootstrap_server or DEFAULT_SERVER
    given = given_settings(arguments)
    check_reachable(server)
    sys.stdout.flush()

    from levada.client.blocking import Consumer, Producer

    with (
        Consumer(server, **_consumer_settings(given)) as consumer,
        Producer(server, **_producer_settings(given, arguments.producer_acks)) as producer,
    ):
        if arguments.topic not in consumer.list_topics():
            _create_topic(server, given, arguments.topic)
        _stand_at_the_end(consumer, arguments.topic)
        _print_results(_measure(consumer, producer, arguments))
    return 0


def _take_positional(arguments: argparse.Namespace) -> None:
    """The older way: five or six words without flags."""
    words = arguments.positional
    if not words:
        return
    if any(getattr(arguments, name) is not None for name in POSITIONS[:5]):
        raise WrongUsage(f"{words[0]!r} belongs to no flag")
    if len(words) not in (5, 6):
        raise WrongUsage(f"five or six words without flags are taken, not {len(words)}; better give flags")
    kinds: tuple[Callable[[str], Any], ...] = (str, str, positive, _acks, natural, str)
    try:
        for name, kind, word in zip(POSITIONS, kinds, words):
            setattr(arguments, name, kind(word))
    except argparse.ArgumentTypeError as error:
        raise WrongUsage(str(error)) from None
    print(POSITIONAL_WARNING)


def _consumer_settings(given: dict[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = settings_for("consumer", given)
    settings |= {"enable.auto.commit": False, "auto.offset.reset": "latest"}
    for name in ("key.deserializer", "value.deserializer"):
        settings.pop(name, None)
    return settings


def _producer_settings(given: dict[str, str], acks: str) -> dict[str, Any]:
    settings: dict[str, Any] = settings_for("producer", given)
    settings |= {"linger.ms": 0, "acks": acks}
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    return settings


def _create_topic(server: str, given: dict[str, str], topic: str) -> None:
    from levada.client.admin import NewTopic
    from levada.client.blocking import Admin

    print(
        f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1', flush=True
    )
    settings: dict[str, Any] = dict(settings_for("admin", given))
    with changing(f"creating topic {topic}"), Admin(server, **settings) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)]).raise_any()


def _stand_at_the_end(consumer: "Consumer", topic: str) -> None:
    partitions = [(topic, partition.index) for partition in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_end(partitions)
    for partition in partitions:
        consumer.position(partition)


def _measure(consumer: "Consumer", producer: "Producer", arguments: argparse.Namespace) -> list[int]:
    """The latency of each record in ns: sent, acknowledged, and read."""
    latencies = []
    with progress("measuring", arguments.num_records) as shown:
        for count in range(arguments.num_records):
            key, value, headers = sent = _random_record(arguments)
            begun = time.perf_counter_ns()
            producer.send(arguments.topic, value, key=key, headers=headers).result()
            records = consumer.poll(POLL_SECONDS)
            latencies.append(time.perf_counter_ns() - begun)
            _check(sent, records)
            if count % REPORT_EACH == 0:
                shown.close()
                print(f"{count}\t{latencies[-1] / 1e6}", flush=True)
            shown.advance()
    return latencies


def _random_record(arguments: argparse.Namespace) -> Record:
    headers = [
        (
            _letters(arguments.record_header_key_size).decode(),
            None if arguments.record_header_size == NO_VALUE else _letters(arguments.record_header_size),
        )
        for _ in range(arguments.num_headers)
    ]
    return _letters(arguments.record_key_size), _letters(arguments.record_size), headers


def _letters(size: int) -> bytes:
    """One letter, so many times."""
    return bytes([random.randrange(ord("A"), ord("Z") + 1)]) * size


def _check(sent: Record, records: "list[ConsumerRecord]") -> None:
    if not records:
        raise Refused(f"the record did not arrive within {POLL_SECONDS:.0f} s")
    if len(records) != 1:
        raise Refused(f"one record was sent, but {len(records)} arrived: another producer sends to this topic too")
    key, value, headers = sent
    read = records[0]
    for name, is_same in (
        ("value", read.value == value),
        ("key", read.key == key),
        ("headers", list(read.headers) == headers),
    ):
        if not is_same:
            raise Refused(
                f"the {name} of the record that was read is not what was sent: does another producer send here?"
            )


def _print_results(latencies: list[int]) -> None:
    print(f"Avg latency: {sum(latencies) / len(latencies) / 1e6:.4f} ms")
    ordered = sorted(latency // 1_000_000 for latency in latencies)
    shares = ", ".join(f"{name} = {ordered[int(len(ordered) * share)]}" for name, share in PERCENTILES.items())
    print(f"Percentiles: {shares}")


def _acks(text: str) -> str:
    if text not in ACKS:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 1 nor all: only what is acknowledged can be timed")
    return text


def _size_or_null(text: str) -> int:
    return NO_VALUE if number(text) == NO_VALUE else natural(text)
