"""`levada consumer-perf-test`: measures how fast records can be read, as Apache Kafka's ConsumerPerformance does."""

import argparse
import random
import re
import sys
import time
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import add_connection, check_reachable, given_settings, settings_for
from levada.cli.kit.measuring import metrics_table
from levada.cli.kit.parser import natural, positive
from levada.cli.kit.refusals import WrongUsage
from levada.cli.kit.renamed import move_renamed
from levada.cli.kit.terminal import ProgressBar, progress

if TYPE_CHECKING:
    from levada.client.blocking import Consumer
    from levada.client.types import TopicPartition

DEPRECATED: Final = "Warning: {old} is deprecated. Use {new} instead."

COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec,"
    " fetch.nMsg.sec"
)
BYTES_PER_MB: Final = 1 << 20
RANDOM_GROUPS: Final = 100_000
POLL_SECONDS: Final = 0.1
POLL_RECORDS: Final = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="TOPIC", help="what to read")
    parser.add_argument("--include", metavar="REGEX", type=_regex, help="all topics with such names")
    parser.add_argument("--num-records", metavar="N", type=natural, help="how many to read")
    parser.add_argument("--messages", metavar="N", type=natural, help="older name of --num-records")
    parser.add_argument("--group", metavar="GROUP", help="the group to read in (default one of its own)")
    parser.add_argument("--from-latest", action="store_true", help="begin behind what is there already")
    parser.add_argument(
        "--fetch-size",
        metavar="BYTES",
        type=positive,
        default=1 << 20,
        help="max.partition.fetch.bytes (default 1 MiB)",
    )
    parser.add_argument("--socket-buffer-size", metavar="BYTES", type=positive, help="receive.buffer.bytes")
    parser.add_argument(
        "--timeout", metavar="MS", type=natural, nargs="?", default=10_000, const=10_000,
        help="give up when no record came for so long (default 10000)",
    )  # fmt: skip
    parser.add_argument("--show-detailed-stats", action="store_true", help="a line each interval, no summary")
    parser.add_argument(
        "--reporting-interval", metavar="MS", type=positive, default=5_000, help="of that (default 5000)"
    )
    parser.add_argument(
        "--date-format", metavar="FORMAT", default="yyyy-MM-dd HH:mm:ss:SSS", help="of times, as in Java"
    )
    parser.add_argument("--hide-header", action="store_true", help="leave out the names of the columns")
    parser.add_argument("--print-metrics", action="store_true", help="also print the consumer's metrics")
    add_connection(parser)
    parser.add_argument(
        "--consumer.config", dest="consumer_config", metavar="FILE", help="older name of --command-config"
    )


def run(arguments: argparse.Namespace) -> int:
    if (arguments.topic is None) == (arguments.include is None):
        raise WrongUsage("give either --topic or --include")
    if (arguments.messages is None) == (arguments.num_records is None):
        raise WrongUsage("give --num-records")
    move_renamed(arguments, "--messages", "--num-records", DEPRECATED)
    move_renamed(arguments, "--consumer.config", "--command-config", DEPRECATED)
    settings = consumer_settings(arguments)
    times = _Times(arguments.date_format)
    check_reachable(arguments.bootstrap_server)
    if not arguments.hide_header:
        print("time, threadId" if arguments.show_detailed_stats else "start.time, end.time", COLUMNS, sep=", ")
    sys.stdout.flush()

    from levada.client.blocking import Consumer

    with (
        Consumer(arguments.bootstrap_server, **settings) as consumer,
        progress("reading", arguments.num_records) as shown,
    ):
        reading = ConsumerRun(consumer, times, arguments, shown)
        reading.run(None if "max.poll.records" in settings else POLL_RECORDS)
        shown.close()
        if reading.record_count < arguments.num_records:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout"
                f" ({arguments.timeout} ms) exceeded. You can use the --timeout option to increase the timeout."
            )
        if not arguments.show_detailed_stats:
            print(reading.summary())
        if arguments.print_metrics:
            print(metrics_table("consumer-metrics", settings["client.id"], consumer.metrics()))
    return 0


def consumer_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {"client.id": "perf-consumer-client"}
    settings |= settings_for("consumer", given_settings(arguments))
    settings["group.id"] = arguments.group or f"perf-consumer-{random.randrange(RANDOM_GROUPS)}"
    settings["max.partition.fetch.bytes"] = arguments.fetch_size
    settings["auto.offset.reset"] = "latest" if arguments.from_latest else "earliest"
    settings["check.crcs"] = False
    if arguments.socket_buffer_size is not None:
        settings["receive.buffer.bytes"] = arguments.socket_buffer_size
    settings.pop("key.deserializer", None)
    settings.pop("value.deserializer", None)
    return settings


class Joining:
    """Adds up how long the group kept this consumer without partitions."""

    def __init__(self) -> None:
        self.total_ms = 0
        self.window_ms = 0
        self._since = time.monotonic()
        self._assigned: set[TopicPartition] = set()

    def on_partitions_revoked(self, partitions: "Collection[TopicPartition]") -> None:
        self._assigned.difference_update(partitions)
        if not self._assigned:
            self._since = time.monotonic()

    def on_partitions_assigned(self, partitions: "Collection[TopicPartition]") -> None:
        if not self._assigned:
            elapsed_ms = int((time.monotonic() - self._since) * 1_000)
            self.total_ms += elapsed_ms
            self.window_ms += elapsed_ms
        self._assigned.update(partitions)

    on_partitions_lost = on_partitions_revoked


class ConsumerRun:
    def __init__(
        self, consumer: "Consumer", times: "_Times", arguments: argparse.Namespace, shown: ProgressBar
    ) -> None:
        self.record_count = 0
        self._byte_count = 0
        self._joining = Joining()
        self._consumer = consumer
        self._times = times
        self._shown = shown
        self._wanted: int = arguments.num_records
        self._timeout_s: float = arguments.timeout / 1_000
        self._interval_s: float = arguments.reporting_interval / 1_000
        self._is_detailed: bool = arguments.show_detailed_stats
        self._topics = arguments.include or [arguments.topic]
        self._started = self._ended = time.time()

    def run(self, most: int | None) -> None:
        """Read until there are enough, or none come any more; `most` at a time."""
        self._consumer.subscribe(self._topics, listener=self._joining)
        read_at = reported_at = time.monotonic()
        reported_records = reported_bytes = 0
        while self.record_count < self._wanted:
            left = self._wanted - self.record_count
            records = self._consumer.poll(POLL_SECONDS, None if most is None else min(most, left))
            now = time.monotonic()
            if records:
                read_at = now
                self.record_count += len(records)
                self._byte_count += sum(len(record.key or b"") + len(record.value or b"") for record in records)
            elif now - read_at > self._timeout_s:
                break
            if records and now - reported_at >= self._interval_s:
                if self._is_detailed:
                    self._shown.close()
                    print(self._detail(now - reported_at, reported_records, reported_bytes), flush=True)
                self._joining.window_ms = 0
                reported_at, reported_records, reported_bytes = now, self.record_count, self._byte_count
            self._shown.to(self.record_count)
        self._ended = time.time()

    def summary(self) -> str:
        elapsed_ms = max(int((self._ended - self._started) * 1_000), 1)
        return (
            f"{self._times.text(self._started)}, {self._times.text(self._ended)}, "
            + _rates(self._byte_count, self._byte_count, self.record_count, self.record_count, elapsed_ms)
            + _fetch_rates(self._byte_count, self.record_count, elapsed_ms, self._joining.total_ms)
        )

    def _detail(self, seconds: float, records_before: int, bytes_before: int) -> str:
        elapsed_ms = max(int(seconds * 1_000), 1)
        records, size = self.record_count - records_before, self._byte_count - bytes_before
        return (
            f"{self._times.text(time.time())}, 0, "
            + _rates(self._byte_count, size, self.record_count, records, elapsed_ms)
            + _fetch_rates(size, records, elapsed_ms, self._joining.window_ms)
        )


def _rates(total_bytes: int, size: int, total_records: int, records: int, elapsed_ms: int) -> str:
    """
    >>> _rates(2**20, 2**20, 10, 10, 500)
    '1.0000, 2.0000, 10, 20.0000'
    """
    per_second = 1_000 / elapsed_ms
    return (
        f"{total_bytes / BYTES_PER_MB:.4f}, {size / BYTES_PER_MB * per_second:.4f}, {total_records},"
        f" {records * per_second:.4f}"
    )


def _fetch_rates(size: int, records: int, elapsed_ms: int, joining_ms: int) -> str:
    fetching_ms = elapsed_ms - joining_ms
    per_second = 1_000 / fetching_ms if fetching_ms > 0 else 0.0
    return f", {joining_ms}, {fetching_ms}, {size / BYTES_PER_MB * per_second:.4f}, {records * per_second:.4f}"


class _Times:
    """Moments as the flag wants them."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        try:
            self.text(0.0)
        except ValueError as error:
            raise WrongUsage(f"--date-format: {error}") from None

    def text(self, seconds: float) -> str:
        from levada.cli.metrics import java_date

        return java_date(self._pattern, datetime.fromtimestamp(seconds).astimezone())


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
