"""The flags of `levada consumer-groups`, and which of them make sense together."""

import argparse
from typing import Final

from levada.cli.kit.connecting import add_connection
from levada.cli.kit.parser import natural, number
from levada.cli.kit.refusals import WrongUsage

ACTIONS: Final = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")

TARGETS: Final = (
    "to_earliest", "to_latest", "to_current", "to_offset", "to_datetime", "by_duration", "shift_by", "from_file",
)  # fmt: skip
"""Where a reset can go to."""

ONLY_WITH: Final = {
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "json": ("describe", "list"),
    "group": ("describe", "delete", "reset_offsets", "delete_offsets"),
    "all_groups": ("describe", "delete", "reset_offsets"),
    "topic": ("reset_offsets", "delete_offsets"),
    "all_topics": ("reset_offsets",),
    "dry_run": ("reset_offsets",),
    "execute": ("reset_offsets",),
    "export": ("reset_offsets",),
    **dict.fromkeys(TARGETS, ("reset_offsets",)),
}
"""Flags, and the actions that take them."""

ANY: Final = ""
"""The value of --state and --type where they are given without one."""

DEFAULT_TIMEOUT_MS: Final = 30_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A reset wants a scope (--topic, --all-topics or --from-file) and a target (--to-..., --by-duration, --shift-by"
        " or --from-file). The group must have no members."
    )
    add_connection(parser)
    parser.add_argument("--timeout", metavar="MS", type=natural, default=DEFAULT_TIMEOUT_MS, help="default 30000")
    parser.add_argument("--json", action="store_true", help="with --list and --describe: print JSON")
    _add_actions(parser.add_argument_group("what to do"))
    _add_scope(parser.add_argument_group("with which groups and partitions"))
    _add_views(parser.add_argument_group("with --describe and --list"))
    _add_targets(parser.add_argument_group("with --reset-offsets"))


def _add_actions(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--list", action="store_true", help="print the names of all groups")
    group.add_argument("--describe", action="store_true", help="print a group's offsets, members or state")
    group.add_argument("--delete", action="store_true", help="delete groups that have no members")
    group.add_argument("--reset-offsets", action="store_true", help="let groups go on from elsewhere")
    group.add_argument("--delete-offsets", action="store_true", help="forget a group's offsets of topics")
    group.add_argument("--validate-regex", metavar="REGEX", help="say whether brokers take this expression (RE2)")


def _add_scope(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--group", metavar="GROUP", action="append", default=[], help="may be given several times")
    group.add_argument("--all-groups", action="store_true", help="every group of consumers")
    group.add_argument(
        "--topic", metavar="TOPIC[:0,1,...]", action="append", default=[],
        help="a topic, or some partitions of it; may be given several times",
    )  # fmt: skip
    group.add_argument("--all-topics", action="store_true", help="every partition that the group has an offset of")


def _add_views(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--offsets", action="store_true", help="committed offsets and lag (the default)")
    group.add_argument("--members", action="store_true", help="who is in the group")
    group.add_argument(
        "--state", metavar="STATE,...", nargs="?", const=ANY,
        help="the group's state; with --list also: only groups in these states",
    )  # fmt: skip
    group.add_argument(
        "--type", metavar="TYPE,...", nargs="?", const=ANY,
        help="with --list: the type; or only groups of these types (classic, consumer)",
    )  # fmt: skip
    group.add_argument("--verbose", action="store_true", help="more columns")


def _add_targets(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--dry-run", action="store_true", help="only show what would be done (the default)")
    group.add_argument("--execute", action="store_true", help="do it")
    group.add_argument("--export", action="store_true", help="print CSV, as --from-file reads it")
    group.add_argument("--to-earliest", action="store_true", help="to the first record")
    group.add_argument("--to-latest", action="store_true", help="to the end")
    group.add_argument("--to-current", action="store_true", help="to where the group is; to the end if it is nowhere")
    group.add_argument("--to-offset", metavar="N", type=number, help="to this offset, or the nearest there is")
    group.add_argument(
        "--to-datetime", metavar="TIME", help="to a time: YYYY-MM-DDThh:mm:ss.sss, in UTC unless it ends in ±hh:mm"
    )
    group.add_argument("--by-duration", metavar="PnDTnHnMnS", help="to a time so long ago")
    group.add_argument("--shift-by", metavar="N", type=number, help="so many records on, or back if below 0")
    group.add_argument("--from-file", metavar="FILE", help="to what a CSV file says: [group,]topic,partition,offset")


def check(arguments: argparse.Namespace) -> None:
    """WrongUsage where flags contradict each other, or one is missing."""
    actions = [name for name in ACTIONS if _is_given(arguments, name)]
    if len(actions) != 1:
        raise WrongUsage(f"say exactly one of {_flags(ACTIONS)}")
    (action,) = actions
    for name, takers in ONLY_WITH.items():
        if _is_given(arguments, name) and action not in takers:
            raise WrongUsage(f"{_flag(name)} goes with {_flags(takers, ' or ')}, not with {_flag(action)}")
    if action in ONLY_WITH["group"]:
        _check_groups(arguments, action)
    if action == "describe":
        views = [name for name in ("members", "offsets", "state") if _is_given(arguments, name)]
        if len(views) > 1:
            raise WrongUsage(f"--describe shows one thing at a time: say one of {_flags(views)}")
        if arguments.state:
            raise WrongUsage("--state takes no value with --describe")
    if action == "delete_offsets" and not arguments.topic:
        raise WrongUsage("--delete-offsets wants --topic")
    if action == "reset_offsets":
        _check_reset(arguments)


def _check_groups(arguments: argparse.Namespace, action: str) -> None:
    if arguments.group and arguments.all_groups:
        raise WrongUsage("say --group or --all-groups, not both")
    if not arguments.group and not arguments.all_groups:
        choice = "--group" if action == "delete_offsets" else "--group or --all-groups"
        raise WrongUsage(f"{_flag(action)} wants {choice}")
    if action == "delete_offsets" and len(arguments.group) > 1:
        raise WrongUsage("--delete-offsets takes one --group")


def _check_reset(arguments: argparse.Namespace) -> None:
    if arguments.dry_run and arguments.execute:
        raise WrongUsage("say --dry-run or --execute, not both")
    targets = [name for name in TARGETS if _is_given(arguments, name)]
    if len(targets) > 1:
        raise WrongUsage(f"a reset has one target: say one of {_flags(targets)}")
    if not targets:
        raise WrongUsage(f"--reset-offsets wants one of {_flags(TARGETS)}")
    if not arguments.topic and not arguments.all_topics and arguments.from_file is None:
        raise WrongUsage("--reset-offsets wants --topic or --all-topics")


def _is_given(arguments: argparse.Namespace, name: str) -> bool:
    """Also where the value is 0, or --state has none."""
    value = getattr(arguments, name)
    return value is not None and value is not False and value != []


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _flags(names: "tuple[str, ...] | list[str]", between: str = ", ") -> str:
    return between.join(map(_flag, names))
