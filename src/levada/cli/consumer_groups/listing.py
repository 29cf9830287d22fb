"""`--list`: the groups of consumers, with their types and states if one likes."""

import argparse
from typing import Final

from levada.cli.consumer_groups.flags import ANY
from levada.cli.consumer_groups.tables import heading, line, widest
from levada.cli.kit.refusals import WrongUsage
from levada.cli.kit.terminal import print_json
from levada.client.admin import GroupListing, GroupState, GroupType
from levada.client.blocking import Admin

OF_CONSUMERS: Final = ("", "consumer")
"""The protocol types of groups that hold offsets of consumers; the first one's have no members."""

TYPES: Final = (GroupType.CLASSIC, GroupType.CONSUMER)

STATES: Final = tuple(state for state in GroupState if state not in (GroupState.UNKNOWN, GroupState.NOT_READY))

NAME_WIDTH: Final = 15
NAME_GAP: Final = 10
COLUMN_WIDTH: Final = 20


def list_groups(admin: Admin, arguments: argparse.Namespace) -> None:
    states, types = parse_states(arguments.state), parse_types(arguments.type)
    found = admin.list_groups(
        states=states, types=types, protocol_types=OF_CONSUMERS, timeout_ms=arguments.timeout
    )  # fmt: skip
    groups = sorted((group for group in found if _is_of_consumers(group)), key=lambda group: group.group_id)
    if arguments.json:
        print_json([_as_json(group) for group in groups])
    elif arguments.state is None and arguments.type is None:
        for group in groups:
            print(group.group_id)
    else:
        _print_table(groups, with_type=arguments.type is not None, with_state=arguments.state is not None)


def group_ids(admin: Admin, arguments: argparse.Namespace) -> list[str]:
    """The groups that --group and --all-groups name, each once."""
    if not arguments.all_groups:
        return list(dict.fromkeys(arguments.group))
    found = admin.list_groups(protocol_types=OF_CONSUMERS, timeout_ms=arguments.timeout)
    return sorted(group.group_id for group in found if _is_of_consumers(group))


def parse_states(text: str | None) -> list[GroupState]:
    """
    >>> parse_states("stable, EMPTY")
    [<GroupState.STABLE: 'Stable'>, <GroupState.EMPTY: 'Empty'>]
    """
    states = [GroupState(name.strip()) for name in text.split(",")] if text not in (None, ANY) else []
    if not set(states) <= set(STATES):
        raise WrongUsage(f"--state {text}: the states are {', '.join(STATES)}")
    return states


def parse_types(text: str | None) -> list[GroupType]:
    types = [GroupType(name.strip()) for name in text.split(",")] if text not in (None, ANY) else []
    if not set(types) <= set(TYPES):
        raise WrongUsage(f"--type {text}: the types are {', '.join(TYPES)}")
    return types


def _is_of_consumers(group: GroupListing) -> bool:
    # Brokers that are too old to tell the type have only groups of the classic one.
    return group.type in (*TYPES, GroupType.UNKNOWN)


def _as_json(group: GroupListing) -> dict[str, str]:
    return {"group": group.group_id, "type": group.type, "state": group.state, "protocol_type": group.protocol_type}


def _print_table(groups: list[GroupListing], *, with_type: bool, with_state: bool) -> None:
    rows = [
        [group.group_id, *([str(group.type)] if with_type else []), *([str(group.state)] if with_state else [])]
        for group in groups
    ]
    title = ["GROUP", *(["TYPE"] if with_type else []), *(["STATE"] if with_state else [])]
    width = widest(NAME_WIDTH, (group.group_id for group in groups)) + NAME_GAP
    widths = [width, *[COLUMN_WIDTH] * (len(title) - 1)]
    print(heading(title, widths))
    for row in rows:
        print(line(row, widths))
