"""ListOffsets v1-11. v2 isolation level, v4 leader epochs (KIP-320), v7 the newest record (KIP-734), v8 local start."""

from levada.broker.partition import Partition
from levada.broker.route import Request
from levada.model.errors import ErrorCode, KafkaError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from levada.storage.outcomes import FoundRecord

API = ApiKey.LIST_OFFSETS
VERSIONS = stable_versions(API)

LATEST = -1
EARLIEST = -2
NEWEST_RECORD = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE = {LATEST: 1, EARLIEST: 1, NEWEST_RECORD: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version in which each stands for something else than a time."""
READ_COMMITTED = 1

UNKNOWN = -1
NEVER = 1 << 15


def handle(message: ListOffsetsRequest, request: Request) -> ListOffsetsResponse:
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {topic.name: {} for topic in message.topics}
    for topic in message.topics:
        partitions = answers[topic.name]
        for wanted in topic.partitions:
            is_again = wanted.partition_index in partitions
            partitions[wanted.partition_index] = (
                _refusal(wanted, ErrorCode.INVALID_REQUEST)
                if is_again
                else _answer(topic.name, wanted, message, request)
            )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(partitions.values()))
            for name, partitions in answers.items()
        ]
    )


def _answer(
    topic: str, wanted: ListOffsetsPartition, message: ListOffsetsRequest, request: Request
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < 0 and request.version < SINCE.get(wanted.timestamp, NEVER):
        return _refusal(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = request.broker.partition(topic, bytes(16), wanted.partition_index)
        partition.check_epoch(wanted.current_leader_epoch)
        found = _find(partition, wanted.timestamp, message.isolation_level)
    except KafkaError as error:
        return _refusal(wanted, error.code)
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if request.version >= 4 else UNKNOWN,
    )


def _refusal(wanted: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


def _find(partition: Partition, timestamp: int, isolation_level: int) -> FoundRecord | None:
    log = partition.log
    end = log.last_stable_offset if isolation_level == READ_COMMITTED else log.high_watermark
    if timestamp == LATEST:
        return FoundRecord(end, UNKNOWN, log.epochs.latest)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundRecord(log.start_offset, UNKNOWN, log.epochs.epoch_at(log.start_offset))
    if timestamp == NEWEST_RECORD:
        found = log.newest_record()
    elif timestamp >= 0:
        found = log.first_record_since(timestamp)
    else:
        # The others ask about tiers that this log does not have: there is nothing to find.
        return None
    return found if found is not None and found.offset < end else None
