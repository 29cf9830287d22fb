"""`levada verifiable-producer`: sends numbers and says what became of each, as Kafka's VerifiableProducer does."""

import argparse
import time
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import add_connection, check_reachable, given_settings, settings_for
from levada.cli.kit.ending import code_of, terminable
from levada.cli.kit.events import print_event
from levada.cli.kit.parser import number, positive
from levada.cli.kit.renamed import move_renamed

if TYPE_CHECKING:
    from levada.client.blocking import Producer
    from levada.client.errors import KafkaError
    from levada.client.types import RecordMetadata

DEPRECATED: Final = "Option {old} has been deprecated and will be removed in a future version. Use {new} instead."
NO_TIME: Final = -1
ALL: Final = -1

JAVA_ERRORS: Final = {
    "MESSAGE_TOO_LARGE": "RecordTooLargeException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "CORRUPT_MESSAGE": "CorruptRecordException",
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
}
"""Java's exceptions that are not named as their codes are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="TOPIC", required=True, help="where the records go")
    add_connection(parser)
    parser.add_argument(
        "--producer.config", dest="producer_config", metavar="FILE", help="older name of --command-config"
    )
    parser.add_argument(
        "--max-messages", metavar="N", type=number, default=ALL, help="end after so many (default none)"
    )
    parser.add_argument(
        "--throughput", metavar="RATE", type=number, default=-1, help="records a second, about (default no limit)"
    )
    parser.add_argument("--acks", type=int, choices=(0, 1, -1), default=-1, help="default -1, which is all")
    parser.add_argument(
        "--message-create-time", metavar="MS", type=number, default=NO_TIME, help="of the first record, since 1970"
    )
    parser.add_argument("--value-prefix", metavar="N", type=number, help="values are N.0, N.1, ...")
    parser.add_argument("--repeating-keys", metavar="N", type=positive, help="keys are 0 to N-1, again and again")


def run(arguments: argparse.Namespace) -> int:
    move_renamed(arguments, "--producer.config", "--command-config", DEPRECATED)
    settings: dict[str, Any] = {"acks": str(arguments.acks), "retries": 0}
    settings |= settings_for("producer", given_settings(arguments))
    settings.pop("key.serializer", None)
    settings.pop("value.serializer", None)
    check_reachable(arguments.bootstrap_server)

    from levada.client.blocking import Producer

    sending = VerifiedSending(Producer(arguments.bootstrap_server, **settings), arguments)
    code = 0
    with terminable():
        try:
            print_event("startup_complete")
            sending.send_all()
        except KeyboardInterrupt as interrupt:
            code = code_of(interrupt)
        sending.close()
    return code


class VerifiedSending:
    """Outcomes come from the producer's thread; they are printed here, between two records."""

    def __init__(self, producer: "Producer", arguments: argparse.Namespace) -> None:
        self._producer = producer
        self._topic: str = arguments.topic
        self._limit: int = arguments.max_messages
        self._rate: int = arguments.throughput
        self._prefix = "" if arguments.value_prefix is None else f"{arguments.value_prefix}."
        self._key_count: int | None = arguments.repeating_keys
        self._create_time_ms: int = arguments.message_create_time
        self._outcomes: SimpleQueue[_Outcome] = SimpleQueue()
        self._acked = 0
        self._failed = 0
        self._started = time.monotonic()

    def send_all(self) -> None:
        for sequence in count() if self._limit < 0 else range(self._limit):
            self._send(sequence)
            due = time.monotonic() if self._rate <= 0 else self._started + (sequence + 1) / self._rate
            self._print_outcomes(until=due)

    def close(self) -> None:
        """Send the rest, print its outcomes, and sum up."""
        self._producer.close()
        self._print_outcomes(until=0.0)
        print_event("shutdown_complete")
        print_event(
            "tool_data",
            sent=self._acked + self._failed,
            acked=self._acked,
            target_throughput=self._rate,
            avg_throughput=self._acked / max(time.monotonic() - self._started, 0.001),
        )

    def _send(self, sequence: int) -> None:
        from levada.client.errors import KafkaError

        value = f"{self._prefix}{sequence}"
        key = None if self._key_count is None else str(sequence % self._key_count)
        try:
            self._producer.send(
                self._topic,
                value.encode(),
                key=None if key is None else key.encode(),
                timestamp_ms=self._next_time_ms(),
                on_delivery=lambda metadata, error: self._outcomes.put((key, value, metadata, error)),
            )
        except KafkaError as error:
            self._outcomes.put((key, value, None, error))

    def _next_time_ms(self) -> int | None:
        if self._create_time_ms == NO_TIME:
            return None
        time_ms = self._create_time_ms
        # Kafka's tool adds all the time since the start with every record.
        self._create_time_ms += int((time.monotonic() - self._started) * 1_000)
        return time_ms

    def _print_outcomes(self, until: float) -> None:
        """Those that are there, and those that come until then."""
        while True:
            left = until - time.monotonic()
            try:
                outcome = self._outcomes.get(block=left > 0, timeout=max(left, 0))
            except Empty:
                return
            self._print(*outcome)

    def _print(
        self, key: str | None, value: str, metadata: "RecordMetadata | None", error: "KafkaError | None"
    ) -> None:
        if metadata is not None:
            self._acked += 1
            print_event(
                "producer_send_success",
                key=key,
                value=value,
                offset=metadata.offset,
                topic=metadata.topic,
                partition=metadata.partition,
            )
        else:
            self._failed += 1
            assert error is not None
            print_event(
                "producer_send_error",
                topic=self._topic,
                key=key,
                value=value,
                exception=f"class {java_exception(error)}",
                message=str(error),
            )


_Outcome = tuple[str | None, str, "RecordMetadata | None", "KafkaError | None"]


def java_exception(error: "KafkaError") -> str:
    """The class that Java's client would have raised."""
    from levada.client.errors import TimedOut

    if isinstance(error, TimedOut):
        name = "TimeoutException"
    elif error.code is None:
        name = f"{type(error).__name__}Exception"
    else:
        words = "".join(word.capitalize() for word in error.code.name.split("_")).removesuffix("Exception")
        name = JAVA_ERRORS.get(error.code.name, f"{words}Exception")
    return f"org.apache.kafka.common.errors.{name}"
