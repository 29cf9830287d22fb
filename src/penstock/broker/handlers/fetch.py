"""Fetch v4-18. v7 sessions (KIP-227, none are kept so far), v12 flexible, v13 topic ids (KIP-516)."""

from collections.abc import Awaitable
from dataclasses import dataclass

from penstock.broker.partition import Partition
from penstock.broker.route import Request
from penstock.broker.waiting_fetch import wait_for_bytes
from penstock.model.errors import ErrorCode, KafkaError
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from penstock.world.disk import FileRange

API = ApiKey.FETCH
VERSIONS = stable_versions(API)

NO_SESSION = 0
FULL_FETCH_EPOCHS = (-1, 0)
UNKNOWN = -1


@dataclass(slots=True)
class Found:
    """What one pass over the wanted partitions gave."""

    responses: list[FetchableTopicResponse]
    partitions: list[Partition]
    size: int
    has_errors: bool


def handle(message: FetchRequest, request: Request) -> FetchResponse | Awaitable[FetchResponse]:
    if message.session_id != NO_SESSION or message.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    found = _read_all(message, request)
    if found.size >= message.min_bytes or message.max_wait_ms <= 0 or found.has_errors or not found.partitions:
        return FetchResponse(responses=found.responses)
    return _wait(message, request, found)


async def _wait(message: FetchRequest, request: Request, found: Found) -> FetchResponse:
    await wait_for_bytes(found.partitions, message.min_bytes - found.size, message.max_wait_ms)
    return FetchResponse(responses=_read_all(message, request).responses)


def _read_all(message: FetchRequest, request: Request) -> Found:
    found = Found([], [], 0, has_errors=False)
    max_bytes = min(message.max_bytes, request.broker.settings.max_fetch_bytes)
    for topic in message.topics:
        partitions = [_read(topic, wanted, request, max_bytes, found) for wanted in topic.partitions]
        found.responses.append(
            FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)
        )
    return found


def _read(topic: FetchTopic, wanted: FetchPartition, request: Request, max_bytes: int, found: Found) -> PartitionData:
    try:
        partition = request.broker.partition(topic.topic, topic.topic_id, wanted.partition)
        partition.check_epoch(wanted.current_leader_epoch)
        # The first batch comes whole however large it is, or a consumer could never get past it.
        records = partition.read(
            wanted.fetch_offset,
            min(wanted.partition_max_bytes, max_bytes - found.size),
            at_least_one_batch=found.size == 0,
        )
    except KafkaError as error:
        found.has_errors = True
        return PartitionData(
            partition_index=wanted.partition,
            error_code=error.code,
            high_watermark=UNKNOWN,
            aborted_transactions=[],
            records=b"",
        )
    found.partitions.append(partition)
    found.size += len(records) if records is not None else 0
    return _answer(partition, records)


def _answer(partition: Partition, records: FileRange | None) -> PartitionData:
    return PartitionData(
        partition_index=partition.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.high_watermark,
        log_start_offset=partition.log.start_offset,
        aborted_transactions=None,
        records=b"" if records is None else records,
    )
