"""`levada broker-api-versions`: the requests that each broker serves, as kafka-broker-api-versions.sh prints them."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.terminal import print_json

if TYPE_CHECKING:
    from levada.client.admin import BrokerDescription, VersionRange

OF_QUORUMS: Final = {80: ("AddRaftVoter", range(2)), 81: ("RemoveRaftVoter", range(1))}
"""Requests to Apache's brokers that are about their quorum of controllers, with the versions of Apache's clients."""

BETWEEN_SERVERS: Final = frozenset({56, 58, 62, 63, 67, 73, 32001})
"""AlterPartition, Envelope, BrokerRegistration, BrokerHeartbeat, AllocateProducerIds, AssignReplicasToDirs, and our
AwaitMetadata."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON document, with requests that only ours serve")


def run(arguments: argparse.Namespace) -> int:
    with admin_for(arguments) as admin:
        brokers = admin.describe_cluster().brokers
        found = admin.describe_api_versions(broker.broker_id for broker in brokers)
    if arguments.json:
        print_json(
            {
                "brokers": [
                    _document(broker, found.done.get(broker.broker_id), found.errors.get(broker.broker_id))
                    for broker in brokers
                ]
            }
        )
        return 0
    for broker in brokers:
        served = found.done.get(broker.broker_id)
        outcome = f"ERROR: {found.errors[broker.broker_id]}" if served is None else text(served)
        print(f"{_place(broker)} -> {outcome}")
    return 0


def text(served: "Mapping[int, VersionRange]") -> str:
    """A line for each request that is served or that a client might miss.

    Requests of our own are left out: brokers tell only our clients of them, and Apache's tool prints none.
    """
    from levada.protocol.api import FIRST_PRIVATE

    lines = [
        f"{name}({key}): {_verdict(served[key], versions) if key in served else 'UNSUPPORTED'}"
        for key, (name, versions) in _named(served).items()
        if key < FIRST_PRIVATE
    ]
    return "(\n\t" + ",\n\t".join(lines) + "\n)"


def _named(served: "Mapping[int, VersionRange]") -> dict[int, tuple[str, range]]:
    """Names, and the versions that clients know, of all requests that are served or that clients might send."""
    from levada.protocol.api import ApiKey, request_class

    unknown = {key: ("UNKNOWN", range(0)) for key in served}
    ours = {int(key): (key.title, request_class(key).versions) for key in ApiKey if key not in BETWEEN_SERVERS}
    return dict(sorted({**unknown, **ours, **OF_QUORUMS}.items()))


def _verdict(served: "VersionRange", versions: range) -> str:
    spelled = f"{served.lowest}" if served.lowest == served.highest else f"{served.lowest} to {served.highest}"
    if not versions:
        return spelled
    usable = _usable(served, versions)
    if usable is not None:
        return f"{spelled} [usable: {usable}]"
    return f"{spelled} [unusable: node too {'new' if versions[-1] < served.lowest else 'old'}]"


def _usable(served: "VersionRange | None", versions: range) -> int | None:
    if served is None or not versions or versions[-1] < served.lowest or served.highest < versions[0]:
        return None
    return min(versions[-1], served.highest)


def _document(
    broker: "BrokerDescription", served: "Mapping[int, VersionRange] | None", error: Exception | None
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "broker": broker.broker_id, "host": broker.host, "port": broker.port, "rack": broker.rack
    }  # fmt: skip
    if served is None:
        return {**described, "error": str(error)}
    return {
        **described,
        "apis": [
            {
                "api_key": key,
                "name": name,
                "lowest": served[key].lowest if key in served else None,
                "highest": served[key].highest if key in served else None,
                "usable": _usable(served.get(key), versions),
            }
            for key, (name, versions) in _named(served).items()
        ],
    }


def _place(broker: "BrokerDescription") -> str:
    rack = "null" if broker.rack is None else broker.rack
    fenced = str(broker.is_fenced).lower()
    return f"{broker.host}:{broker.port} (id: {broker.broker_id} rack: {rack} isFenced: {fenced})"
