"""`levada groups`: lists groups of every kind, as Apache Kafka's kafka-groups.sh does."""

import argparse
from typing import TYPE_CHECKING, Final

from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.refusals import WrongUsage
from levada.cli.kit.terminal import paint, print_json

if TYPE_CHECKING:
    from levada.client.admin import GroupListing

TYPES: Final = ("classic", "consumer", "share", "streams")
KINDS: Final = ("consumer", "share", "streams")

TITLE: Final = ("GROUP", "TYPE", "PROTOCOL")
LEAST_WIDTH: Final = 20
"""Of every column."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.add_argument("--list", action="store_true", help="print all groups, or those that the flags below describe")
    parser.add_argument("--group-type", metavar="TYPE", type=_type, help=f"groups of this type: {', '.join(TYPES)}")
    parser.add_argument("--protocol", metavar="PROTOCOL", help="groups of this protocol, such as consumer or connect")
    parser.add_argument(
        "--consumer", action="store_true", help="groups of consumers: of either type, or with nothing but offsets"
    )
    parser.add_argument("--share", action="store_true", help="share groups")
    parser.add_argument("--streams", action="store_true", help="streams groups")
    parser.add_argument("--json", action="store_true", help="print a JSON document")


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    with admin_for(arguments) as admin:
        groups = [group for group in admin.list_groups() if _is_wanted(group, arguments)]
    groups.sort(key=lambda group: group.group_id)
    if arguments.json:
        print_json([_as_json(group) for group in groups])
    else:
        _print_table([[group.group_id, _type_name(group), group.protocol_type] for group in groups])
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if not arguments.list:
        raise WrongUsage("say --list: there is nothing else to do with groups here")
    kinds = [f"--{kind}" for kind in KINDS if getattr(arguments, kind)]
    others = [flag for flag, value in (("--group-type", arguments.group_type), ("--protocol", arguments.protocol))
              if value is not None]  # fmt: skip
    if kinds and len(kinds + others) > 1:
        raise WrongUsage(f"{kinds[0]} does not go with {', '.join([*kinds[1:], *others])}")


def _is_wanted(group: "GroupListing", arguments: argparse.Namespace) -> bool:
    group_type, protocol = group.type.lower(), group.protocol_type
    if arguments.group_type is not None or arguments.protocol is not None:
        return arguments.group_type in (None, group_type) and arguments.protocol in (None, protocol)
    if arguments.consumer:
        return protocol in ("", "consumer") or group_type == "consumer"
    return not any(getattr(arguments, kind) for kind in KINDS) or bool(getattr(arguments, group_type, False))


def _type_name(group: "GroupListing") -> str:
    """Empty where the broker is too old to tell."""
    return "" if group.type.name == "UNKNOWN" else str(group.type)


def _as_json(group: "GroupListing") -> dict[str, str]:
    return {"group": group.group_id, "type": _type_name(group), "protocol": group.protocol_type}


def _print_table(rows: list[list[str]]) -> None:
    width = max([LEAST_WIDTH, *(len(cell) for row in rows for cell in row)])
    print(paint(" ".join(title.ljust(width) for title in TITLE), "bold"))
    for row in rows:
        print("".join(f"{cell:{width}} " for cell in row))


def _type(text: str) -> str:
    if text.lower() not in TYPES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(TYPES)}")
    return text.lower()
