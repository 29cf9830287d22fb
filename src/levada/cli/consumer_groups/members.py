"""Who is in a group, and which partitions each member has and will have."""

from collections.abc import Iterable
from typing import Final

from levada.cli.consumer_groups.tables import MISSING, heading, line, text_of, widest
from levada.client.admin import GroupDescription, MemberDescription
from levada.client.types import TopicPartition

LEAST: Final = 15


def print_members(group: GroupDescription, *, verbose: bool) -> None:
    """A table, also where there are no members. Columns that no member has anything to say in are left out."""
    columns = _columns(group, verbose=verbose)
    widths = [width for _, width, _ in columns]
    print()
    print(heading([title for title, _, _ in columns], widths))
    for number in range(len(group.members)):
        print(line([cells[number] for _, _, cells in columns], widths))


Column = tuple[str, int, list[str]]


def _columns(group: GroupDescription, *, verbose: bool) -> list[Column]:
    members = group.members
    instances = [member.group_instance_id or "" for member in members]

    def column(title: str, least: int, cells: list[str]) -> Column:
        return title, widest(least, cells), cells

    columns = [
        column("GROUP", LEAST, [group.group_id for _ in members]),
        column("CONSUMER-ID", LEAST, [member.member_id for member in members]),
        *([column("GROUP-INSTANCE-ID", 17, instances)] if any(instances) else []),
        column("HOST", LEAST, [member.host for member in members]),
        column("CLIENT-ID", LEAST, [member.client_id for member in members]),
        column("#PARTITIONS", LEAST, [str(len(set(member.assignment))) for member in members]),
    ]
    return [*columns, *_verbose_columns(group)] if verbose else columns


def _verbose_columns(group: GroupDescription) -> list[Column]:
    members = group.members
    current = [assignment_text(member.assignment) for member in members]
    target = [assignment_text(member.target_assignment or ()) for member in members]
    upgraded = [member.speaks_consumer_protocol for member in members]
    columns = [
        ("CURRENT-EPOCH", LEAST, [text_of(member.member_epoch) for member in members]),
        ("CURRENT-ASSIGNMENT", widest(20, current), current),
        ("TARGET-EPOCH", LEAST, [text_of(group.target_assignment_epoch) for _ in members]),
        ("TARGET-ASSIGNMENT", widest(20, target), target),
    ]
    if True in upgraded and False in upgraded:
        columns.append(("UPGRADED", 0, [MISSING if one is None else str(one).lower() for one in upgraded]))
    return columns


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """
    >>> assignment_text([TopicPartition("orders", 1), TopicPartition("carts", 0), TopicPartition("orders", 0)])
    'carts:0;orders:0,1'
    """
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(set(partitions)):
        topics.setdefault(topic, []).append(number)
    texts = sorted(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())
    return ";".join(texts) or MISSING


def members_as_json(group: GroupDescription) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "members": [_as_json(group, member) for member in group.members],
    }


def _as_json(group: GroupDescription, member: MemberDescription) -> dict[str, object]:
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "current_epoch": member.member_epoch,
        "current_assignment": _partitions_as_json(member.assignment),
        "target_epoch": group.target_assignment_epoch,
        "target_assignment": None
        if member.target_assignment is None
        else _partitions_as_json(member.target_assignment),
        "upgraded": member.speaks_consumer_protocol,
        "subscribed_topics": list(member.subscribed_topics),
        "subscribed_regex": member.subscribed_regex or None,
    }


def _partitions_as_json(partitions: Iterable[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": number} for topic, number in sorted(set(partitions))]
