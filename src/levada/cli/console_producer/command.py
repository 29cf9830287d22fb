"""The command: its flags, the producer's settings that follow from them, and the way of lines into records."""

import argparse
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from levada.cli.console_producer.line_reader import LineColumns, LineReader, read_lines
from levada.cli.kit.connecting import add_connection, check_reachable, given_settings, settings_for
from levada.cli.kit.files import read_properties
from levada.cli.kit.parser import key_value, natural, number, positive
from levada.cli.kit.refusals import FAILED, Refused, warn
from levada.cli.kit.renamed import move_renamed
from levada.cli.kit.terminal import is_terminal

if TYPE_CHECKING:
    from levada.client.blocking import Producer
    from levada.client.producer.handle import Handle, ManyHandle

DEPRECATED: Final = "Warning: {old} is deprecated and will be removed in a future version. Use {new} instead."
BATCH_SIZE_DEPRECATED: Final = (
    "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0."
    " Use --batch-size instead."
)

LINE_READERS: Final = ("org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")

DEFAULTS: Final = {
    "linger.ms": "1000",
    "acks": "-1",
    "request.timeout.ms": "1500",
    "retries": "3",
    "client.id": "console-producer",
}
"""Where Kafka's tool has others than its producer."""

FLAGS: Final = {
    "timeout": "linger.ms",
    "request_required_acks": "acks",
    "request_timeout_ms": "request.timeout.ms",
    "message_send_max_retries": "retries",
    "retry_backoff_ms": "retry.backoff.ms",
    "socket_buffer_size": "send.buffer.bytes",
    "max_memory_bytes": "buffer.memory",
    "batch_size": "batch.size",
    "max_partition_memory_bytes": "batch.size",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "max_block_ms": "max.block.ms",
    "compression_codec": "compression.type",
}
"""Flags that stand for one of the producer's settings; the later wins."""

LONG_LINE: Final = 1 << 16
"""From here on a line is sent alone, so that one that is too large takes no others with it."""

FLUSH_SECONDS: Final = 4.0
"""How long an interrupted command waits for what is under way."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Reader properties: parse.key, key.separator (tab), parse.headers, headers.delimiter (tab), headers.separator"
        " (,), headers.key.separator (:), null.marker, ignore.error. A line is HEADERS, KEY and VALUE, as far as they"
        " are parsed: h1:v1,h2:v2<tab>key<tab>value."
    )
    parser.add_argument("--topic", metavar="TOPIC", required=True, help="where the records go")
    add_connection(parser)
    _add_older(parser)
    parser.add_argument(
        "--reader-property", metavar="KEY=VALUE", action="append", default=[], type=key_value,
        help="how a line is read; wins over --reader-config",
    )  # fmt: skip
    parser.add_argument("--reader-config", metavar="FILE", help="a file of reader properties")
    parser.add_argument("--line-reader", metavar="CLASS", default=LINE_READERS[0], help=f"only {LINE_READERS[0]}")
    parser.add_argument("--sync", action="store_true", help="wait for each record before the next is read")
    parser.add_argument(
        "--compression-codec", metavar="CODEC", nargs="?", const="gzip",
        help="none, gzip (if none is named), snappy, lz4 or zstd",
    )  # fmt: skip
    parser.add_argument("--batch-size", metavar="BYTES", type=natural, help="batch.size (default 16384)")
    parser.add_argument("--message-send-max-retries", metavar="N", type=natural, help="retries (default 3)")
    parser.add_argument("--retry-backoff-ms", metavar="MS", type=natural, help="retry.backoff.ms (default 100)")
    parser.add_argument("--timeout", metavar="MS", type=natural, help="linger.ms (default 1000)")
    parser.add_argument("--request-required-acks", metavar="ACKS", help="acks (default -1, which is all)")
    parser.add_argument("--request-timeout-ms", metavar="MS", type=positive, help="request.timeout.ms (default 1500)")
    parser.add_argument("--metadata-expiry-ms", metavar="MS", type=natural, help="metadata.max.age.ms")
    parser.add_argument("--max-block-ms", metavar="MS", type=natural, help="max.block.ms (default 60000)")
    parser.add_argument("--max-memory-bytes", metavar="BYTES", type=positive, help="buffer.memory (default 32 MiB)")
    parser.add_argument("--socket-buffer-size", metavar="BYTES", type=number, help="send.buffer.bytes")


def _add_older(parser: argparse.ArgumentParser) -> None:
    older: dict[str, Any] = {"action": "append", "default": [], "type": key_value, "metavar": "KEY=VALUE"}
    parser.add_argument("--property", help="older name of --reader-property", **older)
    parser.add_argument("--producer-property", help="older name of --command-property", **older)
    parser.add_argument(
        "--producer.config", dest="producer_config", metavar="FILE", help="older name of --command-config"
    )
    parser.add_argument(
        "--max-partition-memory-bytes", metavar="BYTES", type=natural, help="older name of --batch-size"
    )


def run(arguments: argparse.Namespace) -> int:
    move_renamed(arguments, "--producer-property", "--command-property", DEPRECATED)
    move_renamed(arguments, "--producer.config", "--command-config", DEPRECATED)
    move_renamed(arguments, "--property", "--reader-property", DEPRECATED)
    if arguments.max_partition_memory_bytes is not None:
        print(BATCH_SIZE_DEPRECATED)
    if arguments.line_reader not in LINE_READERS:
        raise Refused(f"there is no line reader {arguments.line_reader} here, only {LINE_READERS[0]}")
    reader = LineReader(reader_properties(arguments))
    settings: dict[str, Any] = dict(producer_settings(arguments))
    check_reachable(arguments.bootstrap_server)

    from levada.client.blocking import Producer

    with Producer(arguments.bootstrap_server, **settings) as producer:
        sending = Sending(producer, arguments.topic, waits=arguments.sync)
        try:
            return _send_all(reader, sending)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(sending.interrupted()) from None


def reader_properties(arguments: argparse.Namespace) -> dict[str, str]:
    properties = {}
    if arguments.reader_config is not None:
        properties.update(read_properties(arguments.reader_config, "--reader-config"))
    properties.update(arguments.reader_property)
    return properties


def producer_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Flags win over properties, and properties over what the tool would do by itself."""
    settings = DEFAULTS | settings_for("producer", given_settings(arguments))
    for flag, name in FLAGS.items():
        if (value := getattr(arguments, flag)) is not None:
            settings[name] = str(value)
    # Lines are bytes.
    settings.pop("key.serializer", None)
    settings.pop("value.serializer", None)
    return settings


def _send_all(reader: LineReader, sending: "Sending") -> int:
    # Java's tool looks for a console, which takes a terminal on both sides.
    prompts = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    _prompt(prompts)
    for lines in read_lines(sys.stdin.buffer):
        columns = reader.parse(lines)
        if columns.values:
            sending.send(columns)
        if columns.fault is not None:
            sending.finish()
            raise Refused(f"{columns.fault}; what came before it is sent ({sending.count} records)")
        _prompt(prompts)
    return sending.finish()


def _prompt(prompts: bool) -> None:
    if prompts:
        print(">", end="", flush=True)


class Sending:
    """Records on their way: what became of them is looked at while others follow."""

    def __init__(self, producer: "Producer", topic: str, *, waits: bool) -> None:
        self.count = 0
        """Of records that were handed to the producer."""
        self._producer = producer
        self._topic = topic
        self._waits = waits
        self._handles: deque[ManyHandle | Handle] = deque()
        self._has_failed = False

    def send(self, columns: LineColumns) -> None:
        if columns.headers is None and not self._waits and _longest(columns) < LONG_LINE:
            self._handles.append(self._producer.send_many(self._topic, columns.values, keys=columns.keys))
        else:
            self._send_each(columns)
        self.count += len(columns.values)
        while self._handles and self._handles[0].done():
            self._look_at(self._handles.popleft())

    def finish(self) -> int:
        """Wait until all are acknowledged or given up; the command's exit code."""
        self._producer.flush()
        while self._handles:
            self._look_at(self._handles.popleft())
        return FAILED if self._has_failed else 0

    def interrupted(self) -> str:
        """Give what is under way a moment; what to say about it."""
        from levada.client.errors import KafkaError

        try:
            self._producer.flush(FLUSH_SECONDS)
        except KafkaError:
            return f"interrupted: some of the last of {self.count} records may not have been sent"
        return f"interrupted: {self.count} records were sent"

    def _send_each(self, columns: LineColumns) -> None:
        from levada.client.errors import RecordTooLarge

        nothing = [None] * len(columns.values)
        for value, key, headers in zip(columns.values, columns.keys or nothing, columns.headers or nothing):
            try:
                handle = self._producer.send(self._topic, value, key=key, headers=headers)
            except RecordTooLarge as error:
                if self._waits:
                    raise
                self._fail(error)
                continue
            if self._waits:
                self._producer.flush()
                handle.result()
            else:
                self._handles.append(handle)

    def _look_at(self, handle: "ManyHandle | Handle") -> None:
        from levada.client.errors import KafkaError

        try:
            handle.result()
        except KafkaError as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """The other lines are sent all the same."""
        self._has_failed = True
        warn(f"not sent to {self._topic}: {error}")


def _longest(columns: LineColumns) -> int:
    return max(len(value or b"") for value in columns.values) + max(len(key or b"") for key in columns.keys or (b"",))
