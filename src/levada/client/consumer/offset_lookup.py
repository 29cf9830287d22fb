"""Asks the leaders of partitions for offsets: by time, the first and the last (ListOffsets)."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from levada.client.cluster import NO_EPOCH, Cluster, Deadline
from levada.client.consumer.by_leader import by_leader
from levada.client.errors import KafkaError, error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST = -2
LATEST = -1
UNKNOWN_OFFSET = -1
CONSUMER = -1
"""Stands for the id of a replica in requests of clients."""


class FoundOffset(NamedTuple):
    offset: int
    """UNKNOWN_OFFSET when no record is as young as the time."""
    timestamp_ms: int
    leader_epoch: int


class Findings(NamedTuple):
    """What a round of questions brought."""

    found: dict[TopicPartition, FoundOffset]
    failures: dict[TopicPartition, KafkaError]


class OffsetLookup:
    def __init__(self, cluster: Cluster, isolation_level: int) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level

    async def all(self, wanted: Mapping[TopicPartition, int], deadline: Deadline) -> dict[TopicPartition, FoundOffset]:
        """The offsets for these times, or LATEST or EARLIEST; asked again until all are there."""
        for topic in dict.fromkeys(partition.topic for partition in wanted):
            await self._cluster.topic(topic, deadline)
        found: dict[TopicPartition, FoundOffset] = {}

        async def attempt() -> None:
            missing = {partition: time for partition, time in wanted.items() if partition not in found}
            findings = await self.once(missing)
            found.update(findings.found)
            for failure in findings.failures.values():
                raise failure

        what = "offsets were not found"
        await self._cluster.persist(attempt, deadline, what, setting="default.api.timeout.ms")
        return {partition: found[partition] for partition in wanted}

    async def once(self, wanted: Mapping[TopicPartition, int]) -> Findings:
        """Ask each leader once; a failure that passes has also asked for newer metadata."""
        findings = Findings({}, {})
        groups = by_leader(self._cluster, wanted, findings.failures)
        # A plain list of them in the order of the partitions, so that a simulation repeats itself.
        await asyncio.gather(
            *(self._ask(leader, {each: wanted[each] for each in group}, findings) for leader, group in groups.items())
        )
        if any(failure.retriable for failure in findings.failures.values()):
            self._cluster.refresh_soon()
        return findings

    async def _ask(self, leader: int, wanted: Mapping[TopicPartition, int], findings: Findings) -> None:
        view = self._cluster.view
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, time in wanted.items():
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
            epoch = view.topics[partition.topic].partitions[partition.partition].leader_epoch
            topic.partitions.append(
                ListOffsetsPartition(partition_index=partition.partition, current_leader_epoch=epoch, timestamp=time)
            )
        request = ListOffsetsRequest(
            replica_id=CONSUMER, isolation_level=self._isolation_level, topics=list(topics.values())
        )
        try:
            response: ListOffsetsResponse = await self._cluster.call(leader, request)
        except KafkaError as error:
            findings.failures.update(dict.fromkeys(wanted, error))
            return
        for topic_answer in response.topics:
            for answer in topic_answer.partitions:
                partition = TopicPartition(topic_answer.name, answer.partition_index)
                if answer.error_code == ErrorCode.NONE:
                    findings.found[partition] = FoundOffset(answer.offset, answer.timestamp, answer.leader_epoch)
                elif answer.error_code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                    # A log so old that it knows no times.
                    findings.found[partition] = FoundOffset(UNKNOWN_OFFSET, -1, NO_EPOCH)
                else:
                    findings.failures[partition] = error_for(answer.error_code, context=f"offsets of {partition}")
