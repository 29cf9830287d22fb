"""DescribeProducers v0."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.model.topics import check_topic_name
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

API = ApiKey.DESCRIBE_PRODUCERS
VERSIONS = stable_versions(API)


def handle(message: DescribeProducersRequest, request: Request) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(topic.name, index, request) for index in topic.partition_indexes],
            )
            for topic in message.topics
        ]
    )


def _describe(topic: str, index: int, request: Request) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = request.broker.partition(topic, NO_UUID, index)
    except ApiError as error:
        # As Apache has it: of a topic that is there, a partition that is not is told by the code alone.
        message = None if topic in request.broker.image.topics else str(error)
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=message, active_producers=[]
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_transaction_first_offset,
            )
            for entry in partition.log.producers.entries()
        ],
    )
