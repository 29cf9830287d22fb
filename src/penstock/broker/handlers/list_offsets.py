"""ListOffsets v1-11. v2 isolation level, v4 leader epochs (KIP-320), v7 the newest record (KIP-734), v8 local start."""

from penstock.broker.partition import Partition
from penstock.broker.route import Request
from penstock.model.errors import KafkaError
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.storage.log import FoundRecord

API = ApiKey.LIST_OFFSETS
VERSIONS = stable_versions(API)

LATEST = -1
EARLIEST = -2
NEWEST_RECORD = -3
EARLIEST_LOCAL = -4

UNKNOWN = -1


def handle(message: ListOffsetsRequest, request: Request) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_answer(topic.name, wanted, request) for wanted in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _answer(topic: str, wanted: ListOffsetsPartition, request: Request) -> ListOffsetsPartitionResponse:
    try:
        partition = request.broker.partition(topic, bytes(16), wanted.partition_index)
        partition.check_epoch(wanted.current_leader_epoch)
        found = _find(partition, wanted.timestamp)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if request.version >= 4 else UNKNOWN,
    )


def _find(partition: Partition, timestamp: int) -> FoundRecord | None:
    if timestamp == LATEST:
        return FoundRecord(partition.high_watermark, UNKNOWN, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundRecord(partition.log.start_offset, UNKNOWN, partition.leader_epoch)
    if timestamp == NEWEST_RECORD:
        return partition.log.newest_record()
    # Other negative numbers ask about tiers that this log does not have: there is nothing to find.
    return partition.log.first_record_since(timestamp) if timestamp >= 0 else None
