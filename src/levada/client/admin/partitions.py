"""Partitions: their offsets, their old records, their leaders, and moves to other brokers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from levada.client.admin.ids import by_topic, values_by_topic
from levada.client.admin.kinds import ElectionType, IsolationLevel, OffsetSpec
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import LEADER_FAULTS, BrokerAnswer, Question, check, conclude, verdict
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from levada.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

HIGH_WATERMARK = -1
"""To `delete_records`: everything that is committed."""
CLIENT = -1
NO_EPOCH = -1

SINCE = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of ListOffsets that knows each."""
ISOLATION_SINCE = 2


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset that was asked for."""

    offset: int
    """-1 where there is no such record."""
    timestamp_ms: int
    """Of the record; -1 where the offset was not found through a record."""
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition on its way to other brokers."""

    replicas: tuple[int, ...]
    """The old and the new ones."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionsPart(AdminPart):
    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, ListedOffset]:
        """Offsets by their place, or of the first record that is not older than a time in milliseconds.

        >>> first = TopicPartition("orders", 0)
        >>> (await admin.list_offsets({first: OffsetSpec.LATEST}))[first].offset
        1207
        """
        deadline = self._requests.deadline(timeout_ms)
        by_version: dict[int, list[TopicPartition]] = {}
        for partition, spec in specs.items():
            if spec < 0:
                spec = OffsetSpec(spec)
            by_version.setdefault(SINCE.get(spec, 0) if isinstance(spec, OffsetSpec) else 0, []).append(partition)
        found: dict[TopicPartition, ListedOffset | KafkaError] = {}
        # What only newer brokers can find is asked for apart, so that it does not keep the others from an answer.
        for at_least, partitions in by_version.items():
            question = self._positions_question(specs, isolation_level, at_least)
            answers: dict[TopicPartition, ListedOffset | KafkaError] = await self._requests.settle(
                partitions, question, deadline
            )
            found.update(answers)
        return conclude({partition: found[partition] for partition in specs})

    def _positions_question(
        self, specs: Mapping[TopicPartition, OffsetSpec | int], isolation_level: IsolationLevel, at_least: int
    ) -> Question[TopicPartition, ListedOffset, ListOffsetsResponse]:
        def request(items: Sequence[TopicPartition], left_ms: int) -> ListOffsetsRequest:
            return ListOffsetsRequest(
                replica_id=CLIENT,
                isolation_level=isolation_level,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(partition_index=index, timestamp=specs[TopicPartition(topic, index)])
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(items).items()
                ],
                timeout_ms=left_ms,
            )

        needs_isolation = isolation_level == IsolationLevel.READ_COMMITTED
        return Question(
            what="to list offsets",
            route=self._routing.leaders(_itself),
            request=request,
            read=_read_offsets,
            passing=LEADER_FAULTS,
            at_least=max(at_least, ISOLATION_SINCE if needs_isolation else 0),
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> Outcomes[TopicPartition, int]:
        """Delete what lies before an offset of each partition; gives the new first offsets.

        >>> first = TopicPartition("payments", 0)
        >>> (await admin.delete_records({first: HIGH_WATERMARK}))[first]
        42
        """

        def request(items: Sequence[TopicPartition], left_ms: int) -> DeleteRecordsRequest:
            wanted = values_by_topic({item: before[item] for item in items})
            return DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=index, offset=offset)
                            for index, offset in offsets.items()
                        ],
                    )
                    for topic, offsets in wanted.items()
                ],
                timeout_ms=left_ms,
            )

        question: Question[TopicPartition, int, DeleteRecordsResponse] = Question(
            what="to delete records",
            route=self._routing.leaders(_itself),
            request=request,
            read=_read_deleted,
            passing=LEADER_FAULTS,
        )
        return await self._requests.each(before, question, self._requests.deadline(timeout_ms))

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Elect leaders for partitions, or for all that need it.

        A partition whose leader is the right one already fails with ELECTION_NOT_NEEDED; when all are meant it is left
        out instead.
        """
        wanted = None if partitions is None else list(partitions)
        if wanted == []:
            return Outcomes({})
        question: Question[str, dict[TopicPartition, KafkaError | None], ElectLeadersResponse] = Question(
            what="to elect leaders",
            route=self._routing.controller,
            request=lambda _, left_ms: ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=None
                if wanted is None
                else [TopicPartitions(topic=topic, partitions=ids) for topic, ids in by_topic(wanted).items()],
                timeout_ms=left_ms,
            ),
            read=_read_elected,
        )
        found = await self._requests.one(question, self._requests.deadline(timeout_ms))
        if wanted is None:
            not_needed = ErrorCode.ELECTION_NOT_NEEDED
            return Outcomes({key: one for key, one in found.items() if one is None or one.code != not_needed})
        silence = KafkaError("to elect leaders: the broker's answer leaves it out")
        return Outcomes({partition: found.get(partition, silence) for partition in wanted})

    async def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Begin to move partitions to other brokers; None calls a move off that is under way."""

        def request(items: Sequence[TopicPartition], left_ms: int) -> AlterPartitionReassignmentsRequest:
            wanted = values_by_topic({item: replicas[item] for item in items})
            return AlterPartitionReassignmentsRequest(
                timeout_ms=left_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[
                    ReassignableTopic(
                        name=topic,
                        partitions=[
                            ReassignablePartition(
                                partition_index=index, replicas=None if brokers is None else list(brokers)
                            )
                            for index, brokers in indexes.items()
                        ],
                    )
                    for topic, indexes in wanted.items()
                ],
            )

        question: Question[TopicPartition, None, AlterPartitionReassignmentsResponse] = Question(
            what="to reassign partitions", route=self._routing.controller, request=request, read=_read_reassigned
        )
        return await self._requests.each(replicas, question, self._requests.deadline(timeout_ms))

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that are under way, of these partitions or of all."""
        wanted = None if partitions is None else list(partitions)
        question: Question[str, dict[TopicPartition, PartitionReassignment], ListPartitionReassignmentsResponse] = (
            Question(
                what="to list reassignments",
                route=self._routing.controller,
                request=lambda _, left_ms: ListPartitionReassignmentsRequest(
                    timeout_ms=left_ms,
                    topics=None
                    if wanted is None
                    else [
                        ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
                        for topic, indexes in by_topic(wanted).items()
                    ],
                ),
                read=_read_reassignments,
            )
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))


def _itself(partition: TopicPartition) -> TopicPartition:
    return partition


def _read_offsets(
    answer: BrokerAnswer[TopicPartition, ListOffsetsResponse],
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    response = answer.response
    found: dict[TopicPartition, ListedOffset | KafkaError] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            epoch = None if one.leader_epoch == NO_EPOCH else one.leader_epoch
            listed = ListedOffset(one.offset, one.timestamp, epoch)
            found[partition] = verdict(one.error_code, None, str(partition), listed)
    return found


def _read_deleted(
    answer: BrokerAnswer[TopicPartition, DeleteRecordsResponse],
) -> dict[TopicPartition, int | KafkaError]:
    response = answer.response
    found: dict[TopicPartition, int | KafkaError] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            found[partition] = verdict(one.error_code, None, str(partition), one.low_watermark)
    return found


def _read_elected(
    answer: BrokerAnswer[str, ElectLeadersResponse],
) -> dict[str, dict[TopicPartition, KafkaError | None]]:
    response = answer.response
    check(response.error_code, context=answer.items[0])
    found: dict[TopicPartition, KafkaError | None] = {}
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            partition = TopicPartition(topic.topic, one.partition_id)
            found[partition] = verdict(one.error_code, one.error_message, str(partition), None)
    return {answer.items[0]: found}


def _read_reassigned(
    answer: BrokerAnswer[TopicPartition, AlterPartitionReassignmentsResponse],
) -> dict[TopicPartition, KafkaError | None]:
    response = answer.response
    check(response.error_code, response.error_message, context="to reassign partitions")
    found: dict[TopicPartition, KafkaError | None] = {}
    for topic in response.responses:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            found[partition] = verdict(one.error_code, one.error_message, str(partition), None)
    return found


def _read_reassignments(
    answer: BrokerAnswer[str, ListPartitionReassignmentsResponse],
) -> dict[str, dict[TopicPartition, PartitionReassignment]]:
    response = answer.response
    check(response.error_code, response.error_message, context=answer.items[0])
    found = {
        TopicPartition(topic.name, one.partition_index): PartitionReassignment(
            tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
        )
        for topic in response.topics
        for one in topic.partitions
    }
    return {answer.items[0]: found}
