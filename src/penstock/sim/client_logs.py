"""The logs as they are, read without the clients that are under test."""

from dataclasses import dataclass
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.records import iter_batches
from penstock.records.builder import ControlType
from penstock.sim.checkers import CheckFailed
from penstock.sim.clients import Connector
from penstock.sim.group_checkers import Partition

MAX_BYTES = 100_000


@dataclass(slots=True, eq=False)
class LogEntry:
    """One record of a user's; whether a reader of what is committed sees it follows from the markers."""

    offset: int
    value: bytes
    is_visible: bool


@dataclass(frozen=True, slots=True)
class PartitionLog:
    entries: list[LogEntry]
    end: int
    is_settled: bool
    """No transaction is open."""


async def read_partition(connector: Connector, topic: str, partition: int) -> PartitionLog:
    """All that is in a partition, visible or not."""
    entries: list[LogEntry] = []
    open_entries: dict[int, list[LogEntry]] = {}
    position = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=MAX_BYTES)
        topics = [FetchTopic(topic=topic, partitions=[wanted])]
        reply: Any = await connector.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
        found = reply.responses[0].partitions[0]
        if found.error_code:
            raise CheckFailed(f"{topic}-{partition} cannot be read: {ErrorCode(found.error_code).name}")
        before = position
        for batch in iter_batches(found.records or b""):
            batch.validate()
            records = list(batch.records())
            if batch.is_control:
                is_commit = int.from_bytes(bytes(records[0].key or b"")[2:4], "big") == ControlType.COMMIT
                for entry in open_entries.pop(batch.producer_id, ()):
                    entry.is_visible = is_commit
            else:
                new = [
                    LogEntry(one.offset, bytes(one.value or b""), not batch.is_transactional)
                    for one in records
                    if one.offset >= position
                ]
                entries += new
                if batch.is_transactional:
                    open_entries.setdefault(batch.producer_id, []).extend(new)
            position = max(position, batch.next_offset)
        if position >= found.high_watermark:
            return PartitionLog(entries, position, not open_entries)
        if position == before:
            raise CheckFailed(f"a fetch at {before} brings nothing though the log ends at {found.high_watermark}")


async def read_committed_offsets(
    connector: Connector, group_id: str, partitions: list[Partition]
) -> dict[Partition, int] | None:
    """Where a group is, by partition; None while that cannot be said."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in by_topic.items()]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    reply: Any = await connector.call(OffsetFetchRequest(groups=[group], require_stable=True), 8)
    [answer] = reply.groups
    found = {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
    if answer.error_code or any(one.error_code for one in found.values()):
        return None
    return {partition: one.committed_offset for partition, one in found.items()}
