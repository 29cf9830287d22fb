"""Whose settings are meant: `--entity-type` with `--entity-name`, or a flag for each type."""

import argparse
import socket
from dataclasses import dataclass
from typing import Final

from levada.cli.kit.refusals import WrongUsage

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
BROKER_LOGGERS: Final = "broker-loggers"
IPS: Final = "ips"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"

BY_FLAG: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker_logger": BROKER_LOGGERS,
    "ip": IPS,
    "client_metrics": CLIENT_METRICS,
    "group": GROUPS,
}
"""The type that each short flag stands for; they come in this order, whatever theirs on the line is."""

DEFAULTS_BY_FLAG: Final = {
    "client_defaults": CLIENTS,
    "user_defaults": USERS,
    "broker_defaults": BROKERS,
    "ip_defaults": IPS,
}

TYPES: Final = tuple(BY_FLAG.values())
WITH_DEFAULTS: Final = frozenset(DEFAULTS_BY_FLAG.values())
DEFAULT: Final = ""
"""The name of what holds for all that have nothing of their own."""


@dataclass(frozen=True, slots=True)
class Entities:
    """Types and names as they were given; only users and clients come together."""

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def type(self) -> str:
        return self.types[0]

    @property
    def name(self) -> str | None:
        return self.names[0] if self.names else None


def add_entities(parser: argparse.ArgumentParser) -> None:
    whose = parser.add_argument_group("whose settings")
    whose.add_argument("--entity-type", metavar="TYPE", action="append", default=[], help=", ".join(TYPES))
    # Names and defaults share a list: each is for the type that was given in the same place.
    whose.add_argument("--entity-name", metavar="NAME", action="append", dest="entity_names", default=[], help="whose")
    whose.add_argument(
        "--entity-default", action="append_const", const=DEFAULT, dest="entity_names",
        help="of all clients, users, brokers or ips that have nothing of their own",
    )  # fmt: skip
    whose.add_argument("--topic", metavar="NAME", help="a topic")
    whose.add_argument("--broker", metavar="ID", help="a broker")
    whose.add_argument("--broker-logger", metavar="ID", help="the loggers of a broker")
    whose.add_argument("--group", metavar="ID", help="a group")
    whose.add_argument("--client", metavar="ID", help="a client's quotas")
    whose.add_argument("--user", metavar="NAME", help="a user's quotas and passwords")
    whose.add_argument("--ip", metavar="ADDRESS", help="an address's quotas")
    whose.add_argument("--client-metrics", metavar="NAME", help="which metrics clients send")
    for name, type_ in DEFAULTS_BY_FLAG.items():
        whose.add_argument(
            f"--{name.replace('_', '-')}", action="store_true", help=f"of all {type_} that have nothing of their own"
        )


def entities_of(arguments: argparse.Namespace) -> Entities:
    """WrongUsage where the flags name no entity, or too many."""
    named = {flag: type_ for flag, type_ in BY_FLAG.items() if getattr(arguments, flag) is not None}
    defaults = {flag: type_ for flag, type_ in DEFAULTS_BY_FLAG.items() if getattr(arguments, flag)}
    if (arguments.entity_type or arguments.entity_names) and (named or defaults):
        raise WrongUsage("give either --entity-type and --entity-name or a flag such as --topic, not both")
    entities = Entities(
        types=(*arguments.entity_type, *named.values(), *defaults.values()),
        names=(*arguments.entity_names, *(getattr(arguments, flag) for flag in named), *(DEFAULT for _ in defaults)),
    )
    _check_types(entities.types)
    _check_names(entities)
    return entities


def _check_types(types: tuple[str, ...]) -> None:
    if not types:
        raise WrongUsage("whose settings? Give --topic, --broker, --group, ... or --entity-type")
    for type_ in types:
        if type_ not in TYPES:
            raise WrongUsage(f"there is no entity type {type_!r}; there are {', '.join(TYPES)}")
        if types.count(type_) > 1:
            raise WrongUsage(f"the entity type {type_} is given twice")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise WrongUsage(f"only users and clients can be given together, not {' and '.join(types)}")


def _check_names(entities: Entities) -> None:
    if len(entities.names) > len(entities.types):
        raise WrongUsage("there are more names than entity types")
    for name in filter(None, entities.names):
        if entities.type in (BROKERS, BROKER_LOGGERS) and not _is_whole(name):
            raise WrongUsage(f"a broker's name is its id, a whole number, not {name!r}")
        if entities.type == IPS and not _is_host(name):
            raise WrongUsage(f"{name!r} is neither an address nor a host that can be found")


def check_for_describe(entities: Entities) -> None:
    if DEFAULT in entities.names and not WITH_DEFAULTS.issuperset(entities.types):
        raise WrongUsage(f"{entities.type} have no defaults to describe")
    if entities.type == BROKER_LOGGERS and not entities.name:
        raise WrongUsage("which broker's loggers? Give --broker-logger ID")


def check_for_alter(entities: Entities) -> None:
    if not WITH_DEFAULTS.issuperset(entities.types) and not any(entities.names):
        raise WrongUsage(f"which of the {entities.type} shall be altered? Give its name")
    if len(entities.names) < len(entities.types):
        raise WrongUsage(f"{' and '.join(entities.types)} need a name each, or their defaults")


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").removeprefix("+").isdecimal()


def _is_host(text: str) -> bool:
    try:
        socket.getaddrinfo(text, None)
    except (OSError, UnicodeError):
        return False
    return True
