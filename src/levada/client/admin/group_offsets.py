"""The offsets that groups have committed: listed, changed, deleted."""

from collections.abc import Iterable, Mapping, Sequence

from levada.client.admin.ids import by_topic, values_by_topic
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import COORDINATOR_FAULTS, BrokerAnswer, Question, check, verdict
from levada.client.cluster import CoordinatorKind
from levada.client.errors import KafkaError, error_for
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages import offset_commit, offset_fetch
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from levada.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from levada.protocol.messages.offset_fetch import (
    MANY_GROUPS_SINCE,
    STABLE_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GroupOffsets = dict[TopicPartition, OffsetAndMetadata | None]

ALL_TOPICS_SINCE = 2
NOT_COMMITTED = -1
NO_EPOCH = -1
NO_MEMBER = ""


class GroupOffsetsPart(AdminPart):
    async def list_group_offsets(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None] | Iterable[str],
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, GroupOffsets]:
        """What each group has committed, for some partitions or all; None where it has committed nothing.

        With `require_stable` offsets that a transaction is about to change are waited for.

        >>> offsets = await admin.list_group_offsets(["billing"])
        >>> offsets["billing"][TopicPartition("orders", 0)].offset
        1207
        """
        wanted: dict[str, list[TopicPartition] | None] = (
            {group: None if some is None else list(some) for group, some in groups.items()}
            if isinstance(groups, Mapping)
            else dict.fromkeys(groups)
        )
        question = self._committed_question(wanted, require_stable)
        return await self._requests.each(wanted, question, self._requests.deadline(timeout_ms))

    def _committed_question(
        self, wanted: Mapping[str, list[TopicPartition] | None], require_stable: bool
    ) -> Question[str, GroupOffsets, OffsetFetchResponse]:
        passing = COORDINATOR_FAULTS | {ErrorCode.UNSTABLE_OFFSET_COMMIT}
        older: Question[str, GroupOffsets, OffsetFetchResponse] = Question(
            what="to list offsets of groups",
            route=self._routing.coordinators(CoordinatorKind.GROUP),
            request=lambda ids, _: _old_fetch(ids[0], wanted[ids[0]], require_stable),
            read=_read_old,
            passing=passing,
            is_single=True,
            at_least=STABLE_SINCE if require_stable else ALL_TOPICS_SINCE,
            at_most=MANY_GROUPS_SINCE - 1,
        )
        return Question(
            what=older.what,
            route=older.route,
            request=lambda ids, _: OffsetFetchRequest(
                groups=[_fetch_group(group, wanted[group]) for group in ids], require_stable=require_stable
            ),
            read=_read_many,
            passing=passing,
            at_least=MANY_GROUPS_SINCE,
            at_most=offset_fetch.TOPIC_IDS_SINCE - 1,
            older=older,
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group that has no members at the moment.

        >>> (await admin.alter_group_offsets("billing", {TopicPartition("orders", 1): 1_000})).raise_any()
        """
        wanted = {
            partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }

        def request(items: Sequence[TopicPartition], _: int) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=group_id,
                member_id=NO_MEMBER,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic, partitions=[_commit_partition(index, offset) for index, offset in committed.items()]
                    )
                    for topic, committed in values_by_topic({item: wanted[item] for item in items}).items()
                ],
            )

        question: Question[TopicPartition, None, OffsetCommitResponse] = Question(
            what="to alter offsets of a group",
            route=self._routing.coordinator(CoordinatorKind.GROUP, group_id),
            request=request,
            read=lambda answer: _read_committed(answer, group_id),
            # A rebalance of the last member's leaving passes as well.
            passing=COORDINATOR_FAULTS | {ErrorCode.REBALANCE_IN_PROGRESS},
            at_most=offset_commit.TOPIC_IDS_SINCE - 1,
        )
        return await self._requests.each(wanted, question, self._requests.deadline(timeout_ms))

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> Outcomes[TopicPartition, None]:
        """Forget offsets of a group, of topics that none of its members reads."""

        def request(items: Sequence[TopicPartition], _: int) -> OffsetDeleteRequest:
            return OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic,
                        partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
                    )
                    for topic, indexes in by_topic(items).items()
                ],
            )

        def read(answer: BrokerAnswer[TopicPartition, OffsetDeleteResponse]) -> dict[TopicPartition, KafkaError | None]:
            response = answer.response
            check(response.error_code, context=f"group {group_id!r}")
            found: dict[TopicPartition, KafkaError | None] = {}
            for topic in response.topics:
                for one in topic.partitions:
                    partition = TopicPartition(topic.name, one.partition_index)
                    found[partition] = verdict(one.error_code, None, f"{partition} of group {group_id!r}", None)
            return found

        question: Question[TopicPartition, None, OffsetDeleteResponse] = Question(
            what="to delete offsets of a group",
            route=self._routing.coordinator(CoordinatorKind.GROUP, group_id),
            request=request,
            read=read,
            passing=COORDINATOR_FAULTS,
        )
        return await self._requests.each(partitions, question, self._requests.deadline(timeout_ms))


def _fetch_group(group_id: str, partitions: list[TopicPartition] | None) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group_id=group_id,
        topics=None
        if partitions is None
        else [
            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
    )


def _old_fetch(group_id: str, partitions: list[TopicPartition] | None, require_stable: bool) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if partitions is None
        else [
            OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
        require_stable=require_stable,
    )


def _read_many(answer: BrokerAnswer[str, OffsetFetchResponse]) -> dict[str, GroupOffsets | KafkaError]:
    response = answer.response
    return {group.group_id: _offsets(group.group_id, group.error_code, group.topics) for group in response.groups}


def _read_old(answer: BrokerAnswer[str, OffsetFetchResponse]) -> dict[str, GroupOffsets | KafkaError]:
    response = answer.response
    (group_id,) = answer.items
    return {group_id: _offsets(group_id, response.error_code, response.topics)}


def _offsets(
    group_id: str, code: int, topics: Sequence[OffsetFetchResponseTopics] | Sequence[OffsetFetchResponseTopic]
) -> GroupOffsets | KafkaError:
    """The first error counts for the whole group: what is missing must not be taken for what was not committed."""
    if code != ErrorCode.NONE:
        return error_for(code, context=f"group {group_id!r}")
    offsets: GroupOffsets = {}
    for topic in topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            if one.error_code != ErrorCode.NONE:
                return error_for(one.error_code, context=f"{partition} of group {group_id!r}")
            offsets[partition] = _offset(one)
    return offsets


def _offset(one: OffsetFetchResponsePartitions | OffsetFetchResponsePartition) -> OffsetAndMetadata | None:
    if one.committed_offset == NOT_COMMITTED:
        return None
    epoch = None if one.committed_leader_epoch == NO_EPOCH else one.committed_leader_epoch
    return OffsetAndMetadata(one.committed_offset, one.metadata or "", epoch)


def _commit_partition(index: int, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=NO_EPOCH if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _read_committed(
    answer: BrokerAnswer[TopicPartition, OffsetCommitResponse], group_id: str
) -> dict[TopicPartition, KafkaError | None]:
    response = answer.response
    found: dict[TopicPartition, KafkaError | None] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            found[partition] = verdict(one.error_code, None, f"{partition} of group {group_id!r}", None)
    return found
