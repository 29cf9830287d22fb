"""What Kafka's own tool does: the cluster's id and its brokers' addresses, and brokers taken off its list."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.parser import natural
from levada.cli.kit.refusals import WrongUsage, changing
from levada.cli.kit.terminal import paint, print_json

if TYPE_CHECKING:
    from levada.client.admin import BrokerDescription
    from levada.client.blocking import Admin

WIDTH_WITHOUT_RACKS: Final = 10


def add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    cluster_id = commands.add_parser("cluster-id", help="print the cluster's id")
    unregister = commands.add_parser("unregister", help="forget a broker that is gone for good")
    endpoints = commands.add_parser("list-endpoints", help="print the brokers' addresses")
    for each in (cluster_id, unregister, endpoints):
        add_connection(each)
        for short, name in (("-b", "bootstrap_server"), ("-c", "command_config")):
            each.add_argument(short, dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        each.add_argument("--config", metavar="FILE", help="older name of --command-config")
    for each in (cluster_id, endpoints):
        each.add_argument("--json", action="store_true", help="print a JSON document")
    unregister.add_argument("--id", "-i", metavar="ID", type=natural, required=True, help="the broker to forget")
    endpoints.add_argument("--include-fenced-brokers", action="store_true", help="also brokers that are not in service")


def run_command(arguments: argparse.Namespace) -> int:
    if arguments.config is not None:
        if arguments.command_config is not None:
            raise WrongUsage("--config and --command-config cannot be specified together.")
        print(
            "Option --config has been deprecated and will be removed in a future version. Use --command-config instead."
        )
        arguments.command_config = arguments.config
    with admin_for(arguments) as admin:
        COMMANDS[arguments.command](admin, arguments)
    return 0


def _cluster_id(admin: "Admin", arguments: argparse.Namespace) -> None:
    cluster_id = admin.describe_cluster().cluster_id
    if arguments.json:
        print_json({"cluster_id": cluster_id})
    elif cluster_id is None:
        print("No cluster ID found. The Kafka version is probably too old.")
    else:
        print(f"Cluster ID: {cluster_id}")


def _unregister(admin: "Admin", arguments: argparse.Namespace) -> None:
    from levada.client.errors import UnsupportedVersion

    try:
        with changing(f"broker {arguments.id} was being taken off the list"):
            admin.unregister_broker(arguments.id)
    except UnsupportedVersion:
        print("The target cluster does not support the broker unregistration API.")
    else:
        print(f"Broker {arguments.id} is no longer registered.")


def _list_endpoints(admin: "Admin", arguments: argparse.Namespace) -> None:
    from levada.client.errors import UnsupportedVersion

    try:
        brokers = admin.describe_cluster(include_fenced_brokers=arguments.include_fenced_brokers).brokers
    except UnsupportedVersion as error:
        print(error)
        return
    if arguments.json:
        print_json({"brokers": [_document(broker) for broker in brokers]})
        return
    heading, *rows = endpoint_lines(brokers)
    print(paint(heading, "bold"))
    for broker, row in zip(brokers, rows, strict=True):
        print(paint(row, "red") if broker.is_fenced else row)


COMMANDS: Final = {"cluster-id": _cluster_id, "unregister": _unregister, "list-endpoints": _list_endpoints}


def endpoint_lines(brokers: "Sequence[BrokerDescription]") -> list[str]:
    """A heading and a line for each broker, padded as Apache pads them."""
    host_width = max((len(broker.host) for broker in brokers), default=100)
    rack_width = max((len(broker.rack) for broker in brokers if broker.rack is not None), default=WIDTH_WITHOUT_RACKS)
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for broker in brokers:
        rack = "null" if broker.rack is None else broker.rack
        state = "fenced" if broker.is_fenced else "unfenced"
        rows.append((str(broker.broker_id), broker.host, str(broker.port), rack, state, "broker"))
    widths = (10, host_width, 10, rack_width, 10, 15)
    return [" ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]


def _document(broker: "BrokerDescription") -> dict[str, object]:
    return {
        "id": broker.broker_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "state": "fenced" if broker.is_fenced else "unfenced",
        "endpoint_type": "broker",
    }
