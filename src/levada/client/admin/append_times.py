"""Append times: what the brokers' own clocks say of when records came, whatever timestamps their producers gave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levada.client.admin.ids import by_topic
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import LEADER_FAULTS, BrokerAnswer, Question, verdict
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.protocol.messages.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from levada.records import BatchView, extents

FETCH_BYTES = 1 << 20
MAX_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class AppendTime:
    """The first batch from an offset on that a broker has stamped with the time of its append.

    Those are the batches of topics with `message.timestamp.type=LogAppendTime`, and markers that end transactions. As
    logs are in the order of their appends, what is before it came no later, and what is behind it no sooner.
    """

    offset: int | None
    """Its first offset; None where there is none in this part of the log."""
    next_offset: int
    """Behind the batch, or where to look on."""
    timestamp_ms: int
    """-1 where there is none."""


class AppendTimesPart(AdminPart):
    async def next_append_times(
        self, since: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> Outcomes[TopicPartition, AppendTime]:
        """For each partition the next append time from an offset on, in what one fetch gives of it.

        Here producers gave the times, and without transactions:

        >>> first = TopicPartition("orders", 0)
        >>> (await admin.next_append_times({first: 1_200}))[first]
        AppendTime(offset=None, next_offset=1207, timestamp_ms=-1)
        """

        def request(items: Sequence[TopicPartition], left_ms: int) -> FetchRequest:
            return FetchRequest(
                max_wait_ms=min(MAX_WAIT_MS, left_ms),
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic=topic,
                        partitions=[
                            FetchPartition(
                                partition=index,
                                fetch_offset=since[TopicPartition(topic, index)],
                                partition_max_bytes=FETCH_BYTES,
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(items).items()
                ],
            )

        def read(answer: BrokerAnswer[TopicPartition, FetchResponse]) -> dict[TopicPartition, AppendTime | KafkaError]:
            response = answer.response
            found: dict[TopicPartition, AppendTime | KafkaError] = {}
            for topic in response.responses:
                for each in topic.partitions:
                    place = TopicPartition(topic.topic, each.partition_index)
                    found[place] = verdict(each.error_code, None, str(place), _first_stamped(each, since[place]))
            return found

        question: Question[TopicPartition, AppendTime, FetchResponse] = Question(
            what="to fetch batches",
            route=self._routing.leaders(lambda partition: partition),
            request=request,
            read=read,
            passing=LEADER_FAULTS,
            at_most=TOPIC_IDS_SINCE - 1,
        )
        return await self._requests.each(since, question, self._requests.deadline(timeout_ms))


def _first_stamped(fetched: PartitionData, since: int) -> AppendTime:
    data = fetched.records
    if data is None:
        return AppendTime(None, since, -1)
    assert isinstance(data, bytes | bytearray | memoryview), "clients get bytes, and ranges of files are for brokers"
    _, starts, last_offsets = extents(data)
    for start, last_offset in zip(starts, last_offsets):
        batch = BatchView(data, start)
        # The first may begin before the offset that was asked for, but what ends before it was not asked for.
        if last_offset >= since and (batch.is_control or batch.is_log_append_time):
            return AppendTime(batch.base_offset, batch.next_offset, batch.max_timestamp)
    return AppendTime(None, max([since, *(offset + 1 for offset in last_offsets[-1:])]), -1)
