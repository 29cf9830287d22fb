"""`levada cluster-status`: who decides, which brokers live, and what has no leader or too few copies."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.parser import natural
from levada.cli.kit.refusals import FAILED
from levada.cli.kit.terminal import paint, print_json

if TYPE_CHECKING:
    from levada.client.admin import BrokerDescription
    from levada.client.blocking import Admin

PARTITIONS_TOLD: Final = 20
WATCH_SECONDS: Final = 2


@dataclass(frozen=True, slots=True)
class Status:
    cluster_id: str | None
    controller_id: int
    controller_epoch: int
    end_offset: int
    """Where the metadata log ends."""
    brokers: "Sequence[BrokerDescription]"
    offsets: dict[int, int]
    """How far each broker has read it, as the controller has heard."""
    topics: int
    partitions: int
    leaderless: list[str]
    under_replicated: list[str]

    @property
    def fenced(self) -> list[int]:
        return [broker.broker_id for broker in self.brokers if broker.is_fenced]

    @property
    def is_well(self) -> bool:
        return not (self.fenced or self.leaderless or self.under_replicated)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exits with 1 where a broker is fenced or a partition has no leader or too few in-sync replicas."
    add_connection(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    parser.add_argument(
        "--watch", metavar="SECONDS", type=natural, nargs="?", const=WATCH_SECONDS,
        help=f"again and again until Ctrl-C (default every {WATCH_SECONDS})",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    with admin_for(arguments) as admin:
        while True:
            status = look(admin)
            if arguments.json:
                print_json(document(status))
            else:
                for line in lines(status):
                    print(line)
            if arguments.watch is None:
                return 0 if status.is_well else FAILED
            print(flush=True)
            time.sleep(arguments.watch)


def look(admin: "Admin") -> Status:
    cluster = admin.describe_cluster(include_fenced_brokers=True)
    quorum = admin.describe_quorum()
    names = list(admin.list_topics(include_internal=True))
    topics = admin.describe_topics(names).done if names else {}
    partitions = [(name, one) for name, topic in sorted(topics.items()) for one in topic.partitions]
    return Status(
        cluster_id=cluster.cluster_id,
        controller_id=quorum.leader_id,
        controller_epoch=quorum.leader_epoch,
        end_offset=quorum.high_watermark,
        brokers=sorted(cluster.brokers, key=lambda broker: broker.broker_id),
        offsets={one.replica_id: one.log_end_offset for one in (*quorum.voters, *quorum.observers)},
        topics=len(topics),
        partitions=len(partitions),
        leaderless=[f"{name}-{one.index}" for name, one in partitions if one.leader is None],
        under_replicated=[f"{name}-{one.index}" for name, one in partitions if len(one.in_sync) < len(one.replicas)],
    )


def lines(status: Status) -> list[str]:
    heading = (
        f"cluster {status.cluster_id}: controller {status.controller_id} epoch {status.controller_epoch},"
        f" metadata offset {status.end_offset}, {status.topics} topics, {status.partitions} partitions"
    )
    found = [paint(heading, "bold")]
    for broker in status.brokers:
        state = "fenced" if broker.is_fenced else "alive"
        rack = "" if broker.rack is None else f" rack {broker.rack}"
        line = f"  broker {broker.broker_id} {broker.host}:{broker.port}{rack}: {state}"
        found.append(paint(line, "red") if broker.is_fenced else line)
    for what, partitions in (("no leader", status.leaderless), ("under-replicated", status.under_replicated)):
        if partitions:
            more = f" and {len(partitions) - PARTITIONS_TOLD} more" if len(partitions) > PARTITIONS_TOLD else ""
            told = ", ".join(partitions[:PARTITIONS_TOLD])
            found.append(paint(f"  {what}: {len(partitions)} partitions: {told}{more}", "red"))
    return found


def document(status: Status) -> dict[str, Any]:
    return {
        "cluster_id": status.cluster_id,
        "controller_id": status.controller_id,
        "controller_epoch": status.controller_epoch,
        "metadata_end_offset": status.end_offset,
        "brokers": [
            {
                "id": broker.broker_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "is_fenced": broker.is_fenced,
                "metadata_offset": status.offsets.get(broker.broker_id),
            }
            for broker in status.brokers
        ],
        "topics": status.topics,
        "partitions": status.partitions,
        "leaderless": status.leaderless,
        "under_replicated": status.under_replicated,
    }
