"""`--describe`: what groups have read, who is in them, and how they are."""

import argparse
from typing import Final

from levada.cli.consumer_groups.failing import Failed, print_error
from levada.cli.consumer_groups.listing import OF_CONSUMERS, group_ids
from levada.cli.consumer_groups.members import members_as_json, print_members
from levada.cli.consumer_groups.positions import OffsetRow, collect_offsets, print_offsets
from levada.cli.consumer_groups.tables import UNPADDED, heading, line, text_of, widest
from levada.cli.kit.refusals import warn
from levada.cli.kit.terminal import print_json
from levada.client.admin import BrokerDescription, GroupDescription, GroupState
from levada.client.blocking import Admin

REBALANCING: Final = (
    GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.ASSIGNING, GroupState.RECONCILING,
)  # fmt: skip

STATE_TITLE: Final = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
VERBOSE_STATE_TITLE: Final = (*STATE_TITLE[:-1], "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS")


def describe_groups(admin: Admin, arguments: argparse.Namespace) -> None:
    groups = described(admin, group_ids(admin, arguments), arguments.timeout)
    if arguments.members:
        _show_members(groups, arguments)
    elif arguments.state is not None:
        _show_states(admin, groups, arguments)
    else:
        _show_offsets(collect_offsets(admin, groups, arguments.timeout), groups, arguments)


def described(admin: Admin, ids: list[str], timeout_ms: int) -> list[GroupDescription]:
    """In the order of their names; raises where one is not there, or is no group of consumers."""
    found = admin.describe_consumer_groups(sorted(ids), timeout_ms=timeout_ms)
    found.raise_any()
    for group in found.values():
        check_kind(group)
    return list(found.values())


def check_kind(group: GroupDescription) -> None:
    if group.protocol_type not in OF_CONSUMERS:
        raise Failed(
            f"java.lang.IllegalArgumentException: GroupId {group.group_id} is not a consumer group"
            f" ({group.protocol_type})."
        )


def _show_offsets(
    rows: dict[str, list[OffsetRow]], groups: list[GroupDescription], arguments: argparse.Namespace
) -> None:
    if arguments.json:
        print_json(
            [
                {
                    "group": group.group_id,
                    "state": group.state,
                    "offsets": [row.as_json() for row in rows[group.group_id]],
                }
                for group in groups
            ]
        )
        return
    for group in groups:
        if tell_state(group) and rows[group.group_id]:
            print_offsets(rows[group.group_id], verbose=arguments.verbose)


def _show_members(groups: list[GroupDescription], arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json([members_as_json(group) for group in groups])
        return
    for group in groups:
        tell_state(group)
        print_members(group, verbose=arguments.verbose)


def _show_states(admin: Admin, groups: list[GroupDescription], arguments: argparse.Namespace) -> None:
    brokers = {broker.broker_id: broker for broker in admin.describe_cluster(timeout_ms=arguments.timeout).brokers}
    if arguments.json:
        print_json([_state_as_json(group, brokers.get(group.coordinator)) for group in groups])
        return
    for group in groups:
        if tell_state(group):
            _print_state(group, brokers.get(group.coordinator), verbose=arguments.verbose)


def tell_state(group: GroupDescription) -> bool:
    """Say what is unusual about the group; whether there is more to tell of it."""
    if group.state == GroupState.DEAD:
        print_error(f"Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state == GroupState.EMPTY:
        warn(f"Consumer group '{group.group_id}' has no active members.")
    elif group.state in REBALANCING:
        warn(f"Warning: Consumer group '{group.group_id}' is rebalancing.")
    return True


def _print_state(group: GroupDescription, broker: BrokerDescription | None, *, verbose: bool) -> None:
    address = "?" if broker is None else f"{broker.host}:{broker.port}"
    coordinator = f"{address}  ({group.coordinator})"
    epochs = [text_of(group.group_epoch), text_of(group.target_assignment_epoch)]
    cells = [
        group.group_id, coordinator, text_of(group.assignor), str(group.state),
        *(epochs if verbose else []), str(len(group.members)),
    ]  # fmt: skip
    widths = [
        widest(15, [group.group_id]), widest(25, [coordinator]), 20, 20, *([15, 25] if verbose else []), UNPADDED,
    ]  # fmt: skip
    print()
    print(heading(VERBOSE_STATE_TITLE if verbose else STATE_TITLE, widths))
    print(line(cells, widths))


def _state_as_json(group: GroupDescription, broker: BrokerDescription | None) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "coordinator": {
            "id": group.coordinator,
            "host": None if broker is None else broker.host,
            "port": None if broker is None else broker.port,
        },
        "assignment_strategy": group.assignor or None,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.target_assignment_epoch,
        "members": len(group.members),
    }
