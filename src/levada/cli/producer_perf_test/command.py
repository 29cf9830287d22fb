"""The command: its flags, and the loop that sends and looks at what was acknowledged meanwhile."""

import argparse
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import DEFAULT_SERVER, check_reachable, given_settings, settings_for
from levada.cli.kit.measuring import UNLIMITED, RateThrottle, metrics_table
from levada.cli.kit.parser import key_value, positive
from levada.cli.kit.refusals import FAILED, WrongUsage, warn
from levada.cli.kit.renamed import move_renamed
from levada.cli.kit.terminal import ProgressBar, progress
from levada.cli.producer_perf_test.payloads import file_payloads, numbered_payloads, random_payloads
from levada.cli.producer_perf_test.stats import Stats

if TYPE_CHECKING:
    from levada.client.blocking import Producer
    from levada.client.producer.batch import Batch

DEPRECATED: Final = "Option {old} has been deprecated and will be removed in a future version. Use {new} instead."
CLIENT_ID: Final = "perf-producer-client"
TRANSACTIONAL_ID: Final = "performance-producer-"
TRANSACTION_MS: Final = 3_000
FLUSH_SECONDS: Final = 0.2
"""How long acknowledgements may wait to be counted while the rest is sent."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="TOPIC", required=True, help="where the records go")
    parser.add_argument("--num-records", metavar="N", type=positive, required=True, help="how many to send")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", metavar="BYTES", type=positive, help="values of so many random letters")
    payload.add_argument("--payload-file", metavar="FILE", help="values from this file, in random order")
    payload.add_argument("--payload-monotonic", action="store_true", help="values 0, 1, 2, ...")
    parser.add_argument(
        "--payload-delimiter", metavar="REGEX", default="\\n", help="between the values of the file (default \\n)"
    )
    parser.add_argument(
        "--throughput", metavar="RATE", type=_rate, required=True, help="records a second, about; -1 for no limit"
    )
    parser.add_argument("--warmup-records", metavar="N", type=int, default=0, help="left out of a second summary")
    parser.add_argument(
        "--reporting-interval", metavar="MS", type=positive, default=5_000, help="between two lines (default 5000)"
    )
    parser.add_argument("--print-metrics", action="store_true", help="also print the producer's metrics")
    parser.add_argument("--transactional-id", metavar="ID", help="send in transactions of this id")
    parser.add_argument(
        "--transaction-duration-ms", metavar="MS", type=positive,
        help=f"send in transactions of so long (default {TRANSACTION_MS})",
    )  # fmt: skip
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT,...", help=f"brokers to ask first (default {DEFAULT_SERVER})"
    )
    parser.add_argument("--command-config", metavar="FILE", help="a producer's properties file")
    parser.add_argument("--producer.config", dest="producer_config", metavar="FILE", help="older name of it")
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": [], "type": key_value}
    parser.add_argument("--command-property", metavar="KEY=VALUE", help="settings; win over the file", **several)
    parser.add_argument("--producer-props", metavar="KEY=VALUE", help="older name of --command-property", **several)


def run(arguments: argparse.Namespace) -> int:
    if arguments.warmup_records >= arguments.num_records:
        raise WrongUsage("--warmup-records must be fewer than --num-records")
    if arguments.producer_config is not None and arguments.command_config is not None:
        raise WrongUsage("--producer.config is the old name of --command-config: give only --command-config")
    payloads = _payloads(arguments)
    move_renamed(arguments, "--producer-props", "--command-property", DEPRECATED)
    move_renamed(arguments, "--producer.config", "--command-config", DEPRECATED)
    given = dict(arguments.command_property)
    server = arguments.bootstrap_server or given.get("bootstrap.servers") or DEFAULT_SERVER
    settings = producer_settings(arguments)
    check_reachable(server)
    sys.stdout.flush()

    from levada.client.blocking import Producer

    with Producer(server, **settings) as producer, progress("sending", arguments.num_records) as shown:
        transactions = None
        if "transactional.id" in settings:
            producer.init_transactions()
            transactions = TimedTransactions(producer, arguments.transaction_duration_ms or TRANSACTION_MS)
        if arguments.warmup_records > 0:
            print(
                f"Warmup first {arguments.warmup_records} records."
                " Steady state results will print after the complete test summary."
            )
        test = PerformanceTest(arguments, producer, shown)
        try:
            test.send_all(payloads, transactions)
        except KeyboardInterrupt:
            test.print_totals()
            raise KeyboardInterrupt("interrupted: the line above is about what was sent until then") from None
        test.print_totals()
        if arguments.print_metrics:
            print(metrics_table("producer-metrics", settings["client.id"], producer.metrics()))
    return FAILED if test.has_failed else 0


def producer_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {"client.id": CLIENT_ID} | settings_for("producer", given_settings(arguments))
    for name in ("key.serializer", "value.serializer"):
        settings.pop(name, None)
    if arguments.transactional_id is not None:
        settings["transactional.id"] = arguments.transactional_id
    elif arguments.transaction_duration_ms is not None:
        settings.setdefault("transactional.id", TRANSACTIONAL_ID + str(uuid.uuid4()))
    return settings


def _payloads(arguments: argparse.Namespace) -> Iterator[bytes]:
    if arguments.payload_file is not None:
        return file_payloads(arguments.payload_file, arguments.payload_delimiter)
    return numbered_payloads() if arguments.payload_monotonic else random_payloads(arguments.record_size)


class TimedTransactions:
    """Begins a transaction where none is open, and commits it when it has lasted long enough."""

    def __init__(self, producer: "Producer", duration_ms: int) -> None:
        self._duration_ms = duration_ms
        self._producer = producer
        self._ends_ms: float | None = None

    def before(self, now_ms: float) -> None:
        if self._ends_ms is None:
            self._producer.begin_transaction()
            self._ends_ms = now_ms + self._duration_ms

    def after(self, now_ms: float) -> None:
        if self._ends_ms is not None and now_ms >= self._ends_ms:
            self.end()

    def end(self) -> None:
        if self._ends_ms is not None:
            self._producer.commit_transaction()
            self._ends_ms = None


class PerformanceTest:
    """Sends records one by one; a batch is looked at once, when it is acknowledged."""

    def __init__(self, arguments: argparse.Namespace, producer: "Producer", shown: ProgressBar) -> None:
        self.has_failed = False
        self._topic: str = arguments.topic
        self._record_count: int = arguments.num_records
        self._warmup_count = max(arguments.warmup_records, 0)
        self._interval_ms: int = arguments.reporting_interval
        self._rate: float = arguments.throughput
        self._producer = producer
        self._shown = shown
        self._sent: dict[Batch, _Sent] = {}
        # Filled on the producer's thread; looked at here, where the times of a batch's records are complete.
        self._done: deque[tuple[Batch, float]] = deque()
        self._stats = Stats(self._record_count, self._interval_ms, _now_ms())
        self._steady: Stats | None = None

    def send_all(self, payloads: Iterator[bytes], transactions: TimedTransactions | None) -> None:
        send, topic = self._producer.send, self._topic
        throttle = None if self._rate == UNLIMITED else RateThrottle(self._rate)
        current: Batch | None = None
        for number in range(self._record_count):
            payload = next(payloads)
            now_ms = _now_ms()
            if transactions is not None:
                transactions.before(now_ms)
            if number == self._warmup_count and number:
                self._steady = Stats(self._record_count - number, self._interval_ms, now_ms, is_steady=True)
            batch = send(topic, payload).batch
            if batch is not current:
                # Before the new batch is known: only then has every batch that is done all its times.
                self._look()
                current = batch
                sent = self._of_batch(batch, number)
            sent.times_ms.append(now_ms)
            sent.size += len(payload)
            if transactions is not None:
                transactions.after(now_ms)
            if throttle is not None:
                throttle.wait(number + 1)
        if transactions is not None:
            transactions.end()
        self._flush()

    def print_totals(self) -> None:
        now_ms = _now_ms()
        self._shown.close()
        print(self._stats.total_line(now_ms))
        if self._steady is not None:
            print(self._steady.total_line(now_ms))

    def _of_batch(self, batch: "Batch", number: int) -> "_Sent":
        sent = self._sent.get(batch)
        if sent is None:
            sent = self._sent[batch] = _Sent(number)
            batch.when_done(lambda: self._done.append((batch, _now_ms())))
        return sent

    def _flush(self) -> None:
        from levada.client.errors import TimedOut

        while True:
            try:
                self._producer.flush(FLUSH_SECONDS)
            except TimedOut:
                self._look()
            else:
                self._look()
                return

    def _look(self) -> None:
        """Count what was acknowledged since the last time."""
        while self._done:
            batch, done_ms = self._done.popleft()
            sent = self._sent.pop(batch)
            if (error := batch.failure()) is not None:
                self._fail(error)
                continue
            latencies = [int(done_ms - time_ms) for time_ms in sent.times_ms]
            lines = self._stats.record(latencies, sent.size, done_ms)
            if self._steady is not None:
                if self._warmup_count <= sent.first_number:
                    lines = self._steady.record(latencies, sent.size, done_ms)
                else:
                    lines = self._record_late(sent, latencies, done_ms)
            for line in lines:
                self._shown.close()
                print(line, flush=True)
        self._shown.to(self._stats.count)

    def _record_late(self, sent: "_Sent", latencies: list[int], done_ms: float) -> list[str]:
        """Of a batch that was begun while it was warming up, only the records behind that count as steady."""
        assert self._steady is not None
        steady = latencies[self._warmup_count - sent.first_number :]
        return self._steady.record(steady, sent.size * len(steady) // len(latencies), done_ms) if steady else []

    def _fail(self, error: Exception) -> None:
        if not self.has_failed:
            warn(f"records were not sent to {self._topic}: {error}")
        self.has_failed = True


class _Sent:
    """The records of a batch: when each was sent, and their size together."""

    __slots__ = ("first_number", "size", "times_ms")

    def __init__(self, first_number: int) -> None:
        self.first_number = first_number
        self.size = 0
        self.times_ms: list[float] = []


def _now_ms() -> float:
    return time.monotonic() * 1_000


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not (rate > 0 or rate == UNLIMITED):
        raise argparse.ArgumentTypeError(f"{text!r} is neither above 0 nor -1, which is no limit")
    return rate
