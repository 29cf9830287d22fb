"""Where groups stand in their partitions: committed offsets, ends of logs, and the lag between them."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

from levada.cli.consumer_groups.failing import Failed
from levada.cli.consumer_groups.java_errors import is_known, spelled
from levada.cli.consumer_groups.tables import UNPADDED, heading, line, text_of, widest
from levada.cli.kit.terminal import paint
from levada.client.admin import GroupDescription, GroupOffsets, OffsetSpec
from levada.client.blocking import Admin
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition

TITLE: Final = (
    "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
    "CLIENT-ID",
)  # fmt: skip
ONLY_VERBOSE: Final = TITLE.index("LEADER-EPOCH")
LAG: Final = TITLE.index("LAG")
LEAST: Final = 15


@dataclass(frozen=True, slots=True)
class OffsetRow:
    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None

    def as_json(self) -> dict[str, object]:
        values = asdict(self)
        del values["group"]
        return values

    def cells(self) -> list[str]:
        return [
            text_of(value)
            for value in (
                self.group, self.topic, self.partition, self.leader_epoch, self.current_offset, self.log_end_offset,
                self.lag, self.consumer_id, self.host, self.client_id,
            )
        ]  # fmt: skip


def collect_offsets(admin: Admin, groups: list[GroupDescription], timeout_ms: int) -> dict[str, list[OffsetRow]]:
    """The partitions of each group: those of members first, with most partitions ahead, then those no member has."""
    committed = committed_offsets(admin, [group.group_id for group in groups], timeout_ms)
    concerned = {partition for offsets in committed.values() for partition in offsets}
    concerned.update(partition for group in groups for member in group.members for partition in member.assignment)
    ends = log_ends(admin, concerned, timeout_ms)
    return {group.group_id: list(_rows(group, committed[group.group_id], ends)) for group in groups}


def committed_offsets(admin: Admin, ids: Iterable[str], timeout_ms: int) -> dict[str, GroupOffsets]:
    found = admin.list_group_offsets(ids, timeout_ms=timeout_ms)
    try:
        return {group_id: found[group_id] for group_id in found}
    except KafkaError as error:
        if not is_known(error):
            raise
        raise Failed(f"java.util.concurrent.ExecutionException: {spelled(error)}") from error


def log_ends(admin: Admin, partitions: Iterable[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
    """Of those that have a leader: to ask for the others would take until the time is up."""
    wanted = set(partitions)
    topics = admin.describe_topics(sorted({partition.topic for partition in wanted}), timeout_ms=timeout_ms)
    led = {
        TopicPartition(topic.name, partition.index)
        for topic in topics.done.values()
        for partition in topic.partitions
        if partition.leader is not None
    }
    found = admin.list_offsets(dict.fromkeys(sorted(wanted & led), OffsetSpec.LATEST), timeout_ms=timeout_ms)
    return {partition: listed.offset for partition, listed in found.done.items()}


def _rows(group: GroupDescription, committed: GroupOffsets, ends: dict[TopicPartition, int]) -> Iterator[OffsetRow]:
    def row(partition: TopicPartition, *consumer: str | None) -> OffsetRow:
        position = committed.get(partition)
        offset = None if position is None else position.offset
        end = ends.get(partition)
        lag = None if offset is None or end is None else end - offset
        epoch = None if position is None else position.leader_epoch
        return OffsetRow(group.group_id, *partition, epoch, offset, end, lag, *consumer)

    assigned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda member: len(member.assignment), reverse=True):
        assigned.update(member.assignment)
        for partition in sorted(member.assignment):
            yield row(partition, member.member_id, member.host, member.client_id)
    for partition in sorted(committed.keys() - assigned):
        yield row(partition, None, None, None)


def print_offsets(rows: list[OffsetRow], *, verbose: bool) -> None:
    widths = [
        widest(LEAST, [rows[0].group]), widest(LEAST, (row.topic for row in rows)), 10, 15, 15, 15, 15,
        widest(LEAST, (text_of(row.consumer_id) for row in rows)), widest(LEAST, (text_of(row.host) for row in rows)),
        UNPADDED,
    ]  # fmt: skip
    shown = [column for column in range(len(TITLE)) if verbose or column != ONLY_VERBOSE]
    shown_widths = [widths[column] for column in shown]
    print()
    print(heading([TITLE[column] for column in shown], shown_widths))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row.cells(), widths, strict=True)]
        if row.lag:
            cells[LAG] = paint(cells[LAG], "yellow")
        print(line([cells[column] for column in shown], [UNPADDED] * len(shown)))
