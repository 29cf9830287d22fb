"""The logs as they are, read without the clients that are under test."""

from dataclasses import dataclass

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from levada.records import BatchView, iter_batches
from levada.records.builder import ControlType
from levada.sim.checkers.check_failed import CheckFailed
from levada.sim.requests.connections import Connector
from levada.sim.requests.topics import records_of

Partition = tuple[str, int]
"""A topic's name and an index."""

MAX_BYTES = 100_000


@dataclass(slots=True, eq=False)
class LogEntry:
    """One record of a user's; whether a reader of what is committed sees it follows from the markers."""

    offset: int
    value: bytes
    is_visible: bool


class PartitionLog:
    """All that is in a partition, visible or not; read further with each call."""

    def __init__(self, partition: Partition) -> None:
        self.entries: list[LogEntry] = []
        self._partition = partition
        self._position = 0
        self._open: dict[int, list[LogEntry]] = {}

    @property
    def is_settled(self) -> bool:
        """No transaction is open."""
        return not self._open

    @property
    def visible_end(self) -> int:
        return next((entry.offset + 1 for entry in reversed(self.entries) if entry.is_visible), 0)

    async def read(self, connector: Connector) -> None:
        """To the end."""
        name, index = self._partition
        while True:
            before = self._position
            wanted = FetchPartition(partition=index, fetch_offset=before, partition_max_bytes=MAX_BYTES)
            topics = [FetchTopic(topic=name, partitions=[wanted])]
            reply = await connector.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
            found = reply.responses[0].partitions[0]
            if found.error_code:
                raise CheckFailed(f"{self._partition} cannot be read: {ErrorCode(found.error_code).name}")
            for batch in iter_batches(records_of(found)):
                batch.validate()
                self._take(batch)
            if self._position >= found.high_watermark:
                return
            if self._position == before:
                raise CheckFailed(f"a fetch at {before} brings nothing though the log ends at {found.high_watermark}")

    def _take(self, batch: BatchView) -> None:
        if batch.next_offset <= self._position:
            return
        if batch.is_control:
            [marker] = batch.records()
            is_commit = int.from_bytes(bytes(marker.key or b"")[2:4], "big") == ControlType.COMMIT
            for entry in self._open.pop(batch.producer_id, ()):
                entry.is_visible = is_commit
        else:
            new = [
                LogEntry(one.offset, bytes(one.value or b""), not batch.is_transactional)
                for one in batch.records()
                if one.offset >= self._position
            ]
            self.entries += new
            if batch.is_transactional:
                self._open.setdefault(batch.producer_id, []).extend(new)
        self._position = batch.next_offset


async def read_committed_offsets(
    connector: Connector, group_id: str, partitions: list[Partition]
) -> dict[Partition, int] | None:
    """Where a group is, by partition; None while that cannot be said."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in by_topic.items()]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    reply = await connector.call(OffsetFetchRequest(groups=[group], require_stable=True), 8)
    [answer] = reply.groups
    found = {(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions}
    if answer.error_code or any(one.error_code for one in found.values()):
        return None
    return {partition: one.committed_offset for partition, one in found.items()}


async def read_log(connector: Connector, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Every record of a partition, in order."""
    log: list[tuple[int, bytes]] = []
    next_offset = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=next_offset, partition_max_bytes=4_096)
        topics = [FetchTopic(topic=topic, partitions=[wanted])]
        response = await connector.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
        found = response.responses[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
        before = next_offset
        for batch in iter_batches(records_of(found)):
            batch.validate()
            new = [record for record in batch.records() if record.offset >= next_offset]
            log += [(record.offset, record.value or b"") for record in new]
            next_offset = max(next_offset, batch.next_offset)
        if next_offset >= found.high_watermark:
            return log
        if next_offset == before:
            raise CheckFailed(f"a fetch at {before} brings nothing though the log ends at {found.high_watermark}")
