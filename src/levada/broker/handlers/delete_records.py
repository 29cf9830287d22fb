"""DeleteRecords v0-2. What lies before an offset is gone for readers (KIP-107); v2 flexible."""

from collections.abc import Iterable

from levada.broker.route import Request
from levada.model.errors import ApiError, InvalidTopic, PolicyViolation
from levada.model.topics import INTERNAL_TOPICS
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

API = ApiKey.DELETE_RECORDS
VERSIONS = stable_versions(API)

UNKNOWN = -1


def handle(message: DeleteRecordsRequest, request: Request) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(topic.name, wanted, request) for wanted in _last_of_each(topic)]
            )
            for topic in message.topics
            if topic.partitions
        ]
    )


def _last_of_each(topic: DeleteRecordsTopic) -> Iterable[DeleteRecordsPartition]:
    """Of a partition that is named twice, the last offset counts."""
    return {wanted.partition_index: wanted for wanted in topic.partitions}.values()


def _delete(topic: str, wanted: DeleteRecordsPartition, request: Request) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=UNKNOWN)
    try:
        partition = request.broker.partition(topic, NO_UUID, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"Cannot delete records of internal topic {topic}")
        if not partition.log.config.deletes_old_segments:
            raise PolicyViolation(
                f"Records of partition {topic}-{wanted.partition_index} can not be deleted due to the configured policy"
            )
        result.low_watermark = partition.delete_records(wanted.offset)
        request.broker.replicas.is_checkpoint_due = True
    except ApiError as error:
        result.error_code = error.code
    return result
