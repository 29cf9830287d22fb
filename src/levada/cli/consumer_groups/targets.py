"""Where a reset takes a group: what the flags say about it, and the offsets that this comes to."""

import argparse
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from levada.cli.consumer_groups.failing import Failed, print_error
from levada.cli.consumer_groups.plan_file import Offsets, read_plan
from levada.cli.consumer_groups.positions import committed_offsets
from levada.cli.consumer_groups.scope import all_partitions
from levada.cli.consumer_groups.times import parse_datetime, parse_duration
from levada.cli.kit.refusals import Refused, warn
from levada.client.admin import OffsetSpec
from levada.client.blocking import Admin
from levada.client.errors import UnknownTopicOrPartition
from levada.client.types import TopicPartition

NOT_FOUND = -1


@dataclass(frozen=True, slots=True)
class Target:
    """One of these is set."""

    place: OffsetSpec | None = None
    timestamp_ms: int | None = None
    offset: int | None = None
    shift: int | None = None
    is_current: bool = False
    plan: Mapping[str, Offsets] | None = None


def read_target(arguments: argparse.Namespace) -> Target:
    """Refused where a time, a duration or a file cannot be read."""
    if arguments.to_earliest:
        return Target(place=OffsetSpec.EARLIEST)
    if arguments.to_latest:
        return Target(place=OffsetSpec.LATEST)
    if arguments.to_offset is not None:
        return Target(offset=arguments.to_offset)
    if arguments.shift_by is not None:
        return Target(shift=arguments.shift_by)
    if arguments.to_datetime is not None:
        return Target(timestamp_ms=parse_datetime(arguments.to_datetime))
    if arguments.by_duration is not None:
        return Target(timestamp_ms=time.time_ns() // 1_000_000 - parse_duration(arguments.by_duration))
    if arguments.from_file is not None:
        return Target(plan=read_plan(arguments.from_file, arguments.group))
    return Target(is_current=True)


class Finder:
    """Finds a target's offsets in the logs."""

    def __init__(self, admin: Admin, timeout_ms: int) -> None:
        self._admin = admin
        self._timeout_ms = timeout_ms

    def offsets(self, group_id: str, target: Target, partitions: list[TopicPartition]) -> Offsets:
        if target.place is not None:
            return self._listed(dict.fromkeys(partitions, target.place))
        if target.timestamp_ms is not None:
            return self._at(target.timestamp_ms, partitions)
        if target.offset is not None:
            return self._within_logs(dict.fromkeys(partitions, target.offset))
        if target.plan is not None:
            return self._planned(group_id, target.plan)
        committed = self.committed(group_id)
        if target.shift is not None:
            return self._within_logs({each: _shifted(each, committed, target.shift) for each in partitions})
        elsewhere = [partition for partition in partitions if partition not in committed]
        here = {partition: committed[partition] for partition in partitions if partition in committed}
        return here | self._listed(dict.fromkeys(elsewhere, OffsetSpec.LATEST))

    def committed(self, group_id: str) -> Offsets:
        """Where the group stands now."""
        found = committed_offsets(self._admin, [group_id], self._timeout_ms)[group_id]
        return {partition: position.offset for partition, position in found.items() if position is not None}

    def _listed(self, specs: Mapping[TopicPartition, OffsetSpec | int]) -> Offsets:
        found = self._admin.list_offsets(specs, timeout_ms=self._timeout_ms)
        return {partition: found[partition].offset for partition in found}

    def _at(self, timestamp_ms: int, partitions: list[TopicPartition]) -> Offsets:
        # Times below 0 have meanings of their own in the protocol, and no record is so old.
        found = self._listed(dict.fromkeys(partitions, max(timestamp_ms, 0)))
        missing = [partition for partition, offset in found.items() if offset == NOT_FOUND]
        for topic, number in missing:
            print(f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known offset.")
        return found | self._listed(dict.fromkeys(missing, OffsetSpec.LATEST))

    def _planned(self, group_id: str, plan: Mapping[str, Offsets]) -> Offsets:
        if group_id not in plan:
            print_error(f"No reset plan for group {group_id} found")
            return {}
        self.check_existence(plan[group_id])
        return self._within_logs(plan[group_id])

    def _within_logs(self, wanted: Offsets) -> Offsets:
        """As wanted, or the nearest offset there is."""
        first = self._listed(dict.fromkeys(wanted, OffsetSpec.EARLIEST))
        end = self._listed(dict.fromkeys(wanted, OffsetSpec.LATEST))
        offsets = {
            partition: min(max(offset, first[partition]), end[partition]) for partition, offset in wanted.items()
        }
        for partition, offset in wanted.items():
            if offset != offsets[partition]:
                which = "higher than latest" if offset > end[partition] else "lower than earliest"
                warn(
                    f"New offset ({offset}) is {which} offset for topic partition {partition}."
                    f" Value will be set to {offsets[partition]}"
                )
        return offsets

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of topics, which must be there."""
        described = self._admin.describe_topics(topics, timeout_ms=self._timeout_ms)
        return [partition for topic in described for partition in all_partitions(described[topic])]

    def check_existence(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises where a partition is not there, or has no leader."""
        wanted = list(partitions)
        described = self._admin.describe_topics({each.topic for each in wanted}, timeout_ms=self._timeout_ms)
        leaders = {
            TopicPartition(topic.name, partition.index): partition.leader
            for topic in described.done.values()
            for partition in topic.partitions
        }
        for error in described.errors.values():
            if not isinstance(error, UnknownTopicOrPartition):
                raise error
        missing = [str(partition) for partition in wanted if partition not in leaders]
        if missing:
            raise Failed(f'The partitions "{",".join(missing)}" do not exist')
        headless = [str(partition) for partition in wanted if leaders[partition] is None]
        if headless:
            raise Failed(f'The partitions "{",".join(headless)}" have no leader')


def _shifted(partition: TopicPartition, committed: Offsets, shift: int) -> int:
    if partition not in committed:
        raise Refused(f"cannot shift the offset of {partition}: the group has none there")
    return committed[partition] + shift
