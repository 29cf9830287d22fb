"""The flags of `levada replica-verification`, and what is to be read."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import add_connection, admin_for, given_settings, settings_for
from levada.cli.kit.parser import natural, number, positive
from levada.cli.kit.refusals import Refused, WrongUsage
from levada.cli.kit.topic_filter import TopicFilter

if TYPE_CHECKING:
    from levada.cli.replica_verification.reading import VerificationTask
    from levada.client.blocking import Admin
    from levada.client.types import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Runs until it is interrupted, or until replicas differ in their offsets."
    add_connection(parser)
    parser.add_argument(
        "--broker-list", metavar="HOST:PORT,...", dest="bootstrap_server", default=argparse.SUPPRESS,
        help="older name of --bootstrap-server",
    )  # fmt: skip
    parser.add_argument(
        "--topics-include", metavar="REGEX", type=_topics, default=TopicFilter(".*"), help="default all topics"
    )
    parser.add_argument(
        "--time", metavar="MS", type=number, default=LATEST,
        help="verify records from this time on; -1 only new ones (default), -2 all",
    )  # fmt: skip
    parser.add_argument("--fetch-size", metavar="BYTES", type=positive, default=1 << 20, help="default 1048576")
    parser.add_argument(
        "--max-wait-ms",
        metavar="MS",
        type=natural,
        default=1_000,
        help="how long a broker waits for records, default 1000",
    )
    parser.add_argument(
        "--report-interval-ms", metavar="MS", type=natural, default=30_000, help="between reports, default 30000"
    )


def run(arguments: argparse.Namespace) -> int:
    # Imported only here: they load the clients, which --help has no use for.
    import asyncio

    from levada.cli.replica_verification.reading import verify

    if arguments.time < EARLIEST:
        raise WrongUsage(f"--time {arguments.time} is no time: give milliseconds, -1 (new records) or -2 (all)")
    with admin_for(arguments) as admin:
        task = _task(admin, arguments)
    settings: dict[str, Any] = dict(settings_for("admin", given_settings(arguments)))
    return asyncio.run(verify(arguments.bootstrap_server, settings, task))


def _task(admin: "Admin", arguments: argparse.Namespace) -> "VerificationTask":
    from levada.cli.replica_verification.reading import VerificationTask
    from levada.client.types import TopicPartition
    from levada.protocol.declare import NO_UUID

    topics = [name for name in admin.list_topics(include_internal=True) if arguments.topics_include.allows(name)]
    if not topics:
        raise Refused(
            "No topics found. --topics-include if specified, is either filtering out all topics or there is no topic."
        )
    described = admin.describe_topics(topics)
    described.raise_any()
    replicas = {
        TopicPartition(topic.name, one.index): one.replicas for topic in described.values() for one in topic.partitions
    }
    start, end = _positions(admin, list(replicas), arguments.time)
    return VerificationTask(
        replicas=dict(sorted(replicas.items())),
        topic_ids={topic.name: topic.topic_id or NO_UUID for topic in described.values()},
        start=start,
        backlog=sum(end[partition] - offset for partition, offset in start.items()),
        fetch_size=arguments.fetch_size,
        max_wait_ms=arguments.max_wait_ms,
        report_interval_ms=arguments.report_interval_ms,
    )


def _positions(
    admin: "Admin", partitions: "list[TopicPartition]", moment: int
) -> "tuple[dict[TopicPartition, int], dict[TopicPartition, int]]":
    """Where to begin, and where the partitions end now; what has no record since that time begins at its end."""
    from levada.client.admin import OffsetSpec

    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    ends.raise_any()
    end = {partition: one.offset for partition, one in ends.items()}
    if moment == LATEST:
        return dict(end), end
    spec = OffsetSpec.EARLIEST if moment == EARLIEST else moment
    starts = admin.list_offsets(dict.fromkeys(partitions, spec))
    starts.raise_any()
    return {partition: one.offset if one.offset >= 0 else end[partition] for partition, one in starts.items()}, end


def _topics(text: str) -> TopicFilter:
    try:
        return TopicFilter(text)
    except Refused as error:
        raise argparse.ArgumentTypeError(str(error)) from None
