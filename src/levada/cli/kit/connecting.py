"""The flags that say which cluster a tool talks to, and the clients made from them."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.files import read_properties
from levada.cli.kit.parser import key_value
from levada.cli.kit.refusals import Refused, warn

if TYPE_CHECKING:
    from levada.client.blocking import Admin

DEFAULT_SERVER: Final = "localhost:9092"


def add_connection(parser: argparse.ArgumentParser, *, older_config_flag: str | None = None) -> None:
    """`--bootstrap-server`, `--command-config` (also by its older name, if it has one) and `--command-property`."""
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT,...", default=DEFAULT_SERVER,
        help=f"brokers to ask first (default {DEFAULT_SERVER})",
    )  # fmt: skip
    # As Kafka's tools had it until 3.0; it wins, for scripts that give it know no other.
    parser.add_argument("--zookeeper", metavar="HOST:PORT/PATH", dest="zookeeper_address", help=argparse.SUPPRESS)
    config_flags = ["--command-config"] if older_config_flag is None else ["--command-config", older_config_flag]
    parser.add_argument(*config_flags, metavar="FILE", dest="command_config", help="a client's properties file")
    parser.add_argument(
        "--command-property", metavar="KEY=VALUE", action="append", default=[], type=key_value,
        help="a client's setting; wins over the file",
    )  # fmt: skip


def given_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """What file and flags say, by Kafka's names, without the servers."""
    settings: dict[str, str] = {}
    if arguments.command_config is not None:
        settings.update(read_properties(arguments.command_config, "--command-config"))
    settings.update(arguments.command_property)
    for servers in ("bootstrap.servers", "metadata.broker.list"):
        settings.pop(servers, None)
    return settings


def settings_for(kind: str, given: Mapping[str, str]) -> dict[str, str]:
    """Those settings that a client of this kind ("admin", "producer", "consumer") knows.

    Files are shared between clients, so what only another kind knows is passed over, and what no kind knows is too,
    with a line about it: Java's clients do the same.
    """
    from levada.client.options.admin_keys import ADMIN_KEYS
    from levada.client.options.consumer_keys import CONSUMER_KEYS
    from levada.client.options.older_keys import OLD_CONSUMER_KEYS, OLD_PRODUCER_KEYS
    from levada.client.options.producer_keys import PRODUCER_KEYS

    keys = {"admin": ADMIN_KEYS, "producer": PRODUCER_KEYS, "consumer": CONSUMER_KEYS}
    known = {name: {key.name for key in table} for name, table in keys.items()}
    known["producer"] |= OLD_PRODUCER_KEYS
    known["consumer"] |= OLD_CONSUMER_KEYS
    for name in given:
        if not any(name in names for names in known.values()):
            warn(f"warning: no client has a setting {name!r}, so it does nothing")
    return {name: value for name, value in given.items() if name in known[kind]}


@contextmanager
def admin_for(arguments: argparse.Namespace) -> "Iterator[Admin]":
    """An admin client of the cluster that the flags name; Refused when no broker answers there."""
    from levada.client.blocking import Admin

    settings: dict[str, Any] = dict(settings_for("admin", given_settings(arguments)))
    settings.setdefault("client.id", "levada-tool")
    check_reachable(arguments.bootstrap_server)
    with Admin(arguments.bootstrap_server, **settings) as admin:
        yield admin


def check_reachable(servers: str) -> None:
    """Refused when no Kafka broker answers at any of them: a client would go on trying for some seconds."""
    from levada.client.probing import faults_of

    if faults := faults_of(servers):
        raise Refused(
            f"no Kafka broker answers: {'; '.join(faults)}. Start one with `levada serve`, or give its address with"
            " --bootstrap-server"
        )
