"""`levada verifiable-consumer`: reads in a group and says what happens, as Kafka's VerifiableConsumer does."""

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import add_connection, check_reachable, given_settings, settings_for
from levada.cli.kit.ending import code_of, terminable
from levada.cli.kit.events import print_event
from levada.cli.kit.parser import number, positive
from levada.cli.kit.renamed import move_renamed

if TYPE_CHECKING:
    from levada.client.blocking import Consumer
    from levada.client.types import TopicPartition
    from levada.records import ConsumerRecord

DEPRECATED: Final = "Option {old} has been deprecated and will be removed in a future version. Use {new} instead."
POLL_SECONDS: Final = 3_600.0
NO_LIMIT: Final = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="TOPIC", required=True, help="what to read")
    parser.add_argument("--group-id", metavar="GROUP", required=True, help="the group to read in")
    add_connection(parser)
    parser.add_argument(
        "--consumer.config", dest="consumer_config", metavar="FILE", help="older name of --command-config"
    )
    parser.add_argument("--group-protocol", type=str.lower, choices=("classic", "consumer"), default="classic")
    parser.add_argument("--group-remote-assignor", metavar="NAME", help="the broker's, with --group-protocol consumer")
    parser.add_argument("--group-instance-id", metavar="ID", help="a name that survives restarts")
    parser.add_argument(
        "--assignment-strategy", metavar="CLASS", default="range", help="default range; with --group-protocol classic"
    )
    parser.add_argument("--session-timeout", metavar="MS", type=positive, help="session.timeout.ms")
    parser.add_argument("--max-messages", metavar="N", type=number, default=NO_LIMIT, help="end after so many")
    parser.add_argument("--verbose", action="store_true", help="a line for each record")
    parser.add_argument("--enable-autocommit", action="store_true", help="leave committing to the consumer")
    parser.add_argument("--reset-policy", metavar="POLICY", default="earliest", help="earliest (default), latest, none")


def run(arguments: argparse.Namespace) -> int:
    move_renamed(arguments, "--consumer.config", "--command-config", DEPRECATED)
    settings = consumer_settings(arguments)
    check_reachable(arguments.bootstrap_server)

    from levada.client.blocking import Consumer

    consumer = Consumer(arguments.bootstrap_server, **settings)
    watched = Watched(consumer, arguments)
    with terminable():
        try:
            print_event("startup_complete")
            watched.read_all()
        except KeyboardInterrupt as interrupt:
            print_event("shutdown_requested")
            return code_of(interrupt)
        finally:
            consumer.close()
            print_event("shutdown_complete")
        # Kafka's tool says so whenever it ends, also of its own accord.
        print_event("shutdown_requested")
    return 0


def consumer_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = settings_for("consumer", given_settings(arguments))
    settings["group.id"] = arguments.group_id
    settings["group.protocol"] = arguments.group_protocol
    settings["enable.auto.commit"] = arguments.enable_autocommit
    settings["auto.offset.reset"] = arguments.reset_policy
    if arguments.group_protocol == "classic":
        settings["partition.assignment.strategy"] = arguments.assignment_strategy
    elif arguments.group_remote_assignor is not None:
        settings["group.remote.assignor"] = arguments.group_remote_assignor
    if arguments.session_timeout is not None:
        settings["session.timeout.ms"] = arguments.session_timeout
    if arguments.group_instance_id is not None:
        settings["group.instance.id"] = arguments.group_instance_id
    settings.pop("key.deserializer", None)
    settings.pop("value.deserializer", None)
    return settings


class Watched:
    """A consumer whose every step is printed."""

    def __init__(self, consumer: "Consumer", arguments: argparse.Namespace) -> None:
        self._consumer = consumer
        self._topic: str = arguments.topic
        self._limit: int = arguments.max_messages
        self._is_verbose: bool = arguments.verbose
        self._commits: bool = not arguments.enable_autocommit
        self._count = 0

    def read_all(self) -> None:
        self._consumer.subscribe([self._topic], listener=self)
        while self._limit < 0 or self._count < self._limit:
            left = None if self._limit < 0 else self._limit - self._count
            offsets = self._print_records(self._consumer.poll(POLL_SECONDS, left))
            if self._commits:
                self._commit(offsets)

    def on_partitions_assigned(self, partitions: "Collection[TopicPartition]") -> None:
        print_event("partitions_assigned", partitions=_named(partitions))

    def on_partitions_revoked(self, partitions: "Collection[TopicPartition]") -> None:
        print_event("partitions_revoked", partitions=_named(partitions))

    on_partitions_lost = on_partitions_revoked

    def _print_records(self, records: "list[ConsumerRecord]") -> dict[tuple[str, int], int]:
        """What was read, and where to go on in each partition."""
        by_partition: dict[tuple[str, int], list[ConsumerRecord]] = {}
        for record in records:
            by_partition.setdefault((record.topic, record.partition), []).append(record)
        if self._is_verbose:
            for record in records:
                print_event(
                    "record_data",
                    key=_text(record.key),
                    value=_text(record.value),
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                )
        self._count += len(records)
        summaries = [
            {
                "topic": topic,
                "partition": partition,
                "count": len(own),
                "minOffset": own[0].offset,
                "maxOffset": own[-1].offset,
            }
            for (topic, partition), own in by_partition.items()
        ]
        print_event("records_consumed", count=len(records), partitions=summaries)
        return {partition: own[-1].offset + 1 for partition, own in by_partition.items()}

    def _commit(self, offsets: dict[tuple[str, int], int]) -> None:
        from levada.client.errors import FencedInstance, KafkaError

        outcome: dict[str, Any] = {"success": True}
        try:
            self._consumer.commit(offsets)
        except FencedInstance:
            raise
        except KafkaError as error:
            outcome = {"error": str(error), "success": False}
        committed = [
            {"topic": topic, "partition": partition, "offset": offset} for (topic, partition), offset in offsets.items()
        ]
        print_event("offsets_committed", offsets=committed, **outcome)


def _named(partitions: "Collection[TopicPartition]") -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
