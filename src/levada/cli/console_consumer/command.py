"""The command: its flags, the consumer's settings that follow from them, and the loop from records to lines."""

import argparse
import random
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from levada.cli.console_consumer.formatters import DEFAULT, Formatter, Unprintable, formatter_named
from levada.cli.kit.connecting import add_connection, check_reachable, given_settings, settings_for
from levada.cli.kit.ending import Signals, code_of, terminable
from levada.cli.kit.files import read_properties
from levada.cli.kit.parser import key_value, natural, number
from levada.cli.kit.refusals import Refused, WrongUsage, warn
from levada.cli.kit.renamed import move_renamed
from levada.model.near_names import did_you_mean

if TYPE_CHECKING:
    from levada.client.blocking import Consumer
    from levada.records import ConsumerRecord

DEPRECATED: Final = "Option {old} is deprecated and will be removed in a future version. Use {new} instead."

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
NO_LIMIT: Final = -1
POLL_SECONDS: Final = 3_600.0
POLL_RECORDS: Final = 10_000
"""Records that are printed at once, at most."""
RANDOM_GROUPS: Final = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Formatter properties: print.timestamp, print.partition, print.offset, print.delivery, print.epoch,"
        " print.headers, print.key (all false), print.value (true), key.separator (tab), line.separator,"
        " headers.separator (,), null.literal (null), key.deserializer, value.deserializer, headers.deserializer."
    )
    parser.add_argument("--topic", metavar="TOPIC", help="what to read")
    parser.add_argument(
        "--include", metavar="REGEX", type=_regex, help="all topics with such names, instead of --topic"
    )
    parser.add_argument("--partition", metavar="N", type=natural, help="only this partition, without a group")
    parser.add_argument(
        "--offset",
        metavar="OFFSET",
        type=_offset,
        help="where in the --partition: earliest, latest (default), a number",
    )
    parser.add_argument(
        "--from-beginning", action="store_true", help="from the first record where nothing is committed"
    )
    parser.add_argument("--group", metavar="GROUP", help="the group to read in (default one of its own)")
    parser.add_argument("--max-messages", metavar="N", type=number, default=NO_LIMIT, help="end after so many")
    parser.add_argument(
        "--timeout-ms", metavar="MS", type=number, default=NO_LIMIT, help="end when none came for so long"
    )
    parser.add_argument("--isolation-level", metavar="LEVEL", help="read_uncommitted (default) or read_committed")
    parser.add_argument(
        "--skip-message-on-error", action="store_true", help="go on without a record that cannot be printed"
    )
    parser.add_argument("--formatter", metavar="CLASS", default=DEFAULT, help=f"default {DEFAULT}")
    parser.add_argument(
        "--formatter-property", metavar="KEY=VALUE", action="append", default=[], type=key_value,
        help="how a record is printed; wins over --formatter-config",
    )  # fmt: skip
    parser.add_argument("--formatter-config", metavar="FILE", help="a file of formatter properties")
    parser.add_argument("--key-deserializer", metavar="CLASS", help="as the property key.deserializer")
    parser.add_argument("--value-deserializer", metavar="CLASS", help="as the property value.deserializer")
    parser.add_argument("--enable-systest-events", action="store_true", help="also say that the end is reached")
    add_connection(parser)
    older: dict[str, Any] = {"action": "append", "default": [], "type": key_value, "metavar": "KEY=VALUE"}
    parser.add_argument("--property", help="older name of --formatter-property", **older)
    parser.add_argument("--consumer-property", help="older name of --command-property", **older)
    parser.add_argument(
        "--consumer.config", dest="consumer_config", metavar="FILE", help="older name of --command-config"
    )


def run(arguments: argparse.Namespace) -> int:
    check_flags(arguments)
    move_renamed(arguments, "--consumer-property", "--command-property", DEPRECATED)
    move_renamed(arguments, "--consumer.config", "--command-config", DEPRECATED)
    settings: dict[str, Any] = dict(consumer_settings(arguments, given_settings(arguments)))
    move_renamed(arguments, "--property", "--formatter-property", DEPRECATED)
    formatter = formatter_named(arguments.formatter, formatter_properties(arguments))
    sys.stdout.flush()
    check_reachable(arguments.bootstrap_server)

    from levada.client.blocking import Consumer

    printing = Printing(formatter, skips_errors=arguments.skip_message_on_error)
    consumer = Consumer(arguments.bootstrap_server, **settings)
    try:
        with terminable() as signals, consumer:
            _begin(consumer, arguments)
            if arguments.topic is not None:
                _warn_of_missing(consumer, arguments.topic, arguments.partition)
            _print_all(consumer, printing, signals, arguments.max_messages, arguments.timeout_ms)
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)
    finally:
        print(f"Processed a total of {printing.count} messages", file=sys.stderr)
        if arguments.enable_systest_events:
            print("shutdown_complete")
    return 0


def check_flags(arguments: argparse.Namespace) -> None:
    if (arguments.topic is None) == (arguments.include is None):
        raise WrongUsage("give either --topic or --include")
    if arguments.partition is None:
        if arguments.offset is not None:
            raise WrongUsage("--offset needs --partition")
        return
    if arguments.topic is None:
        raise WrongUsage("--partition needs --topic")
    if arguments.from_beginning and arguments.offset is not None:
        raise WrongUsage("give either --from-beginning or --offset")


def consumer_settings(arguments: argparse.Namespace, given: dict[str, str]) -> dict[str, str]:
    settings = settings_for("consumer", given)
    reset = settings.get("auto.offset.reset")
    if arguments.from_beginning and reset not in (None, EARLIEST):
        raise WrongUsage(f"--from-beginning contradicts auto.offset.reset={reset}: give one of them")
    settings.setdefault("auto.offset.reset", EARLIEST if arguments.from_beginning else LATEST)
    settings.setdefault("client.id", "console-consumer")
    # A name that is mistyped must not become a topic by being read.
    settings.setdefault("allow.auto.create.topics", "false")
    if arguments.isolation_level is not None:
        settings["isolation.level"] = arguments.isolation_level
    groups = {group for group in (arguments.group, settings.get("group.id")) if group is not None}
    if len(groups) > 1:
        raise WrongUsage(f"--group and the property group.id name different groups: {', '.join(sorted(groups))}")
    if groups and arguments.partition is not None:
        raise WrongUsage("a group chooses partitions by itself: give either --partition or a group")
    if groups:
        settings["group.id"] = groups.pop()
    else:
        settings["group.id"] = f"console-consumer-{random.randrange(RANDOM_GROUPS)}"
        # No consumer will come back to this group.
        settings.setdefault("enable.auto.commit", "false")
    # Only the formatter makes sense of bytes.
    settings.pop("key.deserializer", None)
    settings.pop("value.deserializer", None)
    return settings


def formatter_properties(arguments: argparse.Namespace) -> dict[str, str]:
    properties = {}
    if arguments.formatter_config is not None:
        properties.update(read_properties(arguments.formatter_config, "--formatter-config"))
    for field in ("key", "value"):
        if chosen := getattr(arguments, f"{field}_deserializer"):
            properties[f"{field}.deserializer"] = chosen
    properties.update(arguments.formatter_property)
    return properties


def _begin(consumer: "Consumer", arguments: argparse.Namespace) -> None:
    if arguments.partition is None:
        consumer.subscribe([arguments.topic] if arguments.topic is not None else arguments.include)
        return
    partition = (arguments.topic, arguments.partition)
    consumer.assign([partition])
    if isinstance(arguments.offset, int):
        consumer.seek(partition, arguments.offset)
    elif arguments.offset == EARLIEST or arguments.from_beginning:
        consumer.seek_to_beginning([partition])
    else:
        consumer.seek_to_end([partition])


def _warn_of_missing(consumer: "Consumer", topic: str, partition: int | None) -> None:
    """As Kafka's tool, it waits until there is such a topic; but it says so."""
    topics = consumer.list_topics()
    partitions = topics.get(topic)
    if partitions is None:
        advice = did_you_mean(topic, topics)
        waiting = f"{advice} Waiting for it" if advice else " yet: waiting for it"
        warn(f"there is no topic {topic}{waiting}")
    elif partition is not None and partition not in {each.index for each in partitions}:
        warn(f"topic {topic} has no partition {partition}, only {len(partitions)} of them: waiting for it")


def _print_all(consumer: "Consumer", printing: "Printing", signals: Signals, limit: int, timeout_ms: int) -> None:
    patience = timeout_ms / 1_000 if timeout_ms >= 0 else None
    waiting_since = time.monotonic()
    while limit == NO_LIMIT or printing.count < limit:
        most = POLL_RECORDS if limit == NO_LIMIT else min(POLL_RECORDS, limit - printing.count)
        records = consumer.poll(POLL_SECONDS if patience is None else patience, most)
        if records:
            with signals.shielded():
                printing.print(records, consumer)
            waiting_since = time.monotonic()
        elif patience is not None and time.monotonic() - waiting_since >= patience:
            return


class Printing:
    """Records to stdout; those that were not printed are given back, so that the group does not commit them."""

    def __init__(self, formatter: Formatter, *, skips_errors: bool) -> None:
        self.count = 0
        self._formatter = formatter
        self._skips_errors = skips_errors

    def print(self, records: "list[ConsumerRecord]", consumer: "Consumer") -> None:
        text = bytearray()
        done = 0
        try:
            for record in records:
                done += 1
                self._write(record, text)
        except Refused:
            # The one that cannot be printed is passed over, or no member of the group would ever get beyond it.
            _give_back(records[done:], consumer)
            raise
        finally:
            self.count += done
            self._put_out(text, records, consumer)

    def _write(self, record: "ConsumerRecord", text: bytearray) -> None:
        try:
            self._formatter.write(record, text)
        except Unprintable as error:
            if not self._skips_errors:
                raise Refused(f"{error} (--skip-message-on-error goes on without such records)") from None
            warn(f"{error}; going on without it")

    def _put_out(self, text: bytearray, records: "list[ConsumerRecord]", consumer: "Consumer") -> None:
        left = memoryview(text)
        try:
            # Without a buffer (PYTHONUNBUFFERED) a write may take only a part.
            while left:
                left = left[sys.stdout.buffer.write(left) :]
            sys.stdout.buffer.flush()
        except (OSError, KeyboardInterrupt):
            _give_back(records, consumer)
            raise


def _give_back(records: "list[ConsumerRecord]", consumer: "Consumer") -> None:
    firsts: dict[tuple[str, int], int] = {}
    for record in records:
        firsts.setdefault((record.topic, record.partition), record.offset)
    for partition, offset in firsts.items():
        consumer.seek(partition, offset)


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _offset(text: str) -> int | str:
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither earliest, latest nor an offset from 0 on")
