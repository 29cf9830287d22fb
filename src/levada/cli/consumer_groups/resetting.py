"""`--reset-offsets`: groups go on from elsewhere; without --execute it is only shown."""

import argparse
from collections.abc import Iterator
from typing import Final

from levada.cli.consumer_groups.describing import check_kind
from levada.cli.consumer_groups.failing import print_error
from levada.cli.consumer_groups.listing import group_ids
from levada.cli.consumer_groups.plan_file import Offsets, export_lines
from levada.cli.consumer_groups.scope import parse_scope
from levada.cli.consumer_groups.tables import UNPADDED, heading, line, widest
from levada.cli.consumer_groups.targets import Finder, Target
from levada.cli.kit.refusals import warn
from levada.client.admin import GroupState
from levada.client.blocking import Admin
from levada.client.errors import GroupNotFound
from levada.client.types import TopicPartition

WITHOUT_MEMBERS: Final = (GroupState.EMPTY, GroupState.DEAD)

TITLE: Final = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")


def reset_offsets(admin: Admin, arguments: argparse.Namespace, target: Target) -> None:
    """All groups' new offsets are found before the first one is changed: a fault in one leaves all as they were."""
    if not arguments.execute and not arguments.dry_run:
        warn("nothing is changed without --execute; with --dry-run it is only shown, and without this line")
    plans = _plans(admin, arguments, target)
    widths = [widest(15, plans), widest(15, (one.topic for offsets in plans.values() for one in offsets)), 10, UNPADDED]
    if plans and not arguments.export:
        print()
        print(heading(TITLE, widths))
    done, group_id = 0, ""
    try:
        for group_id, offsets in plans.items():
            lines = (
                export_lines(group_id, offsets, with_group=len(arguments.group) != 1)
                if arguments.export
                else _lines(group_id, offsets, widths)
            )
            if arguments.execute:
                admin.alter_group_offsets(group_id, offsets, timeout_ms=arguments.timeout).raise_any()
            for one in lines:
                print(one, flush=arguments.execute)
            done += 1
    except KeyboardInterrupt:
        # A group is on stdout once it is done; around the whole loop, so that no moment between two is left out.
        if not arguments.execute:
            raise
        what = f"resetting the offsets of group '{group_id}', after {done} of {len(plans)} groups"
        raise KeyboardInterrupt(f"interrupted while {what}: it may or may not have been done") from None
    if arguments.export or not plans:
        print()


def _plans(admin: Admin, arguments: argparse.Namespace, target: Target) -> dict[str, Offsets]:
    """The new offsets of each group; none of one that has members, which is told."""
    ids = group_ids(admin, arguments)
    described = admin.describe_consumer_groups(ids, timeout_ms=arguments.timeout)
    finder = Finder(admin, arguments.timeout)
    plans: dict[str, Offsets] = {}
    for group_id in ids:
        try:
            group = described[group_id]
        except GroupNotFound:
            # Its first offsets will make it.
            state = GroupState.DEAD
        else:
            check_kind(group)
            state = group.state
        if state in WITHOUT_MEMBERS:
            plans[group_id] = finder.offsets(group_id, target, _partitions(finder, group_id, arguments))
        else:
            plans[group_id] = {}
            print_error(
                f"Assignments can only be reset if the group '{group_id}' is inactive,"
                f" but the current state is {state}."
            )
    return plans


def _partitions(finder: Finder, group_id: str, arguments: argparse.Namespace) -> list[TopicPartition]:
    """What the flags name; all of it is there, or this raises."""
    if arguments.all_topics:
        partitions = list(finder.committed(group_id))
    else:
        partitions, topics = parse_scope(arguments.topic)
        partitions += finder.partitions_of(topics)
    finder.check_existence(partitions)
    return sorted(set(partitions))


def _lines(group_id: str, offsets: Offsets, widths: list[int]) -> Iterator[str]:
    for (topic, number), offset in sorted(offsets.items()):
        yield line([group_id, topic, str(number), str(offset)], widths)
