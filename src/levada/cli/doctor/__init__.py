"""`levada doctor`: names what is risky in a machine, a cluster, its topics and clients' settings, and the remedy."""

import argparse
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from levada.cli.doctor.findings import Finding, Level, note
from levada.cli.doctor.machine import check_machine
from levada.cli.doctor.reliability import Settings, check_consumer, check_producer
from levada.cli.kit.connecting import DEFAULT_SERVER, add_connection, admin_for
from levada.cli.kit.files import read_properties
from levada.cli.kit.refusals import FAILED, Refused, WrongUsage
from levada.cli.kit.terminal import paint, print_json
from levada.client.options.older_keys import OLD_CONSUMER_KEYS, OLD_PRODUCER_KEYS

STYLES: Final = {Level.OK: "green", Level.NOTE: "yellow", Level.RISK: "red"}
PRODUCERS_OWN: Final = (
    frozenset(
        {"acks", "retries", "enable.idempotence", "delivery.timeout.ms", "linger.ms", "batch.size", "transactional.id"}
    )
    | OLD_PRODUCER_KEYS
)
CONSUMERS_OWN: Final = (
    frozenset({"group.id", "enable.auto.commit", "auto.offset.reset", "session.timeout.ms"}) | OLD_CONSUMER_KEYS
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit code 1 when a risk was found."
    add_connection(parser)
    # Told apart from the default: a cluster that was not named may be absent.
    parser.set_defaults(bootstrap_server=None)
    parser.add_argument("--topic", metavar="NAME", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument(
        "--client-config", metavar="FILE", action="append", default=[],
        help="a producer's or consumer's properties file; may be repeated",
    )  # fmt: skip
    parser.add_argument("--data-dir", metavar="DIR", default="./levada-data", help="default ./levada-data")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help=f"default the first --bootstrap-server, or {DEFAULT_SERVER}"
    )
    for part in ("machine", "cluster"):
        parser.add_argument(f"--no-{part}", action="store_true", help=f"do not look at the {part}")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    parts: dict[str, Iterable[Finding]] = {}
    if not arguments.no_machine:
        from levada.node.listeners import parse_listener

        directories = [Path(one.strip()) for one in arguments.data_dir.split(",")]
        listen = arguments.listen or (arguments.bootstrap_server or DEFAULT_SERVER).partition(",")[0]
        parts["machine"] = check_machine(directories, parse_listener("--listen", listen))
    if not arguments.no_cluster:
        parts["cluster"] = _cluster(arguments)
    elif arguments.topic:
        raise WrongUsage("--topic is looked at in the cluster, and --no-cluster leaves that out")
    if arguments.client_config:
        parts["clients"] = [finding for path in arguments.client_config for finding in _client(path)]
    findings = {part: list(found) for part, found in parts.items()}
    _print(findings, as_json=arguments.json)
    return FAILED if any(one.level == Level.RISK for found in findings.values() for one in found) else 0


def _cluster(arguments: argparse.Namespace) -> Iterator[Finding]:
    is_named = arguments.bootstrap_server is not None
    arguments.bootstrap_server = arguments.bootstrap_server or DEFAULT_SERVER
    from levada.cli.doctor.cluster import check_cluster

    try:
        with admin_for(arguments) as admin:
            yield from check_cluster(admin, arguments.topic)
    except Refused:
        if is_named or arguments.topic:
            raise
        yield note("cluster", f"no broker answers at {DEFAULT_SERVER}", "name one with --bootstrap-server HOST:PORT")


def _client(path: str) -> Iterator[Finding]:
    """A file with keys of one kind only is that kind's; any other is looked at as both."""
    settings: Settings = read_properties(path, "--client-config")
    is_producers, is_consumers = bool(PRODUCERS_OWN & settings.keys()), bool(CONSUMERS_OWN & settings.keys())
    if is_producers or not is_consumers:
        yield from check_producer(f"{os.path.basename(path)} (producer)", settings)
    if is_consumers or not is_producers:
        yield from check_consumer(f"{os.path.basename(path)} (consumer)", settings)


def _print(findings: dict[str, list[Finding]], *, as_json: bool) -> None:
    if as_json:
        print_json({part: [asdict(finding) for finding in found] for part, found in findings.items()})
        return
    for part, found in findings.items():
        print(paint(part, "bold"))
        for finding in found:
            print(f"  {paint(f'{finding.level:4}', STYLES[finding.level])}  {finding.text()}")
        if not found:
            print(f"  {paint('ok  ', 'green')}  nothing is risky")
