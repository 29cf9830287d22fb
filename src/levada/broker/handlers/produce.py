"""Produce v3-13. v7 zstd (KIP-110), v8 record errors (KIP-467), v9 flexible, v13 topic ids (KIP-516)."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from levada.broker.partition import Partition
from levada.broker.route import Request
from levada.broker.verification import (
    PRODUCE_ADDS_SINCE,
    Codes,
    Unverified,
    ask_coordinator,
    refusals_of,
    unverified_of,
)
from levada.model.errors import (
    ErrorCode,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    RecordsRefused,
    RefusedByCoordinator,
)
from levada.model.topics import INTERNAL_TOPICS
from levada.net.connection import CloseConnection
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from levada.storage.log import Log

API = ApiKey.PRODUCE
VERSIONS = stable_versions(API)
ADVERTISED_VERSIONS = range(VERSIONS.stop)
"""librdkafka takes a minimum above 0 for a broker that cannot compress (KAFKA-18659); 0-2 are refused all the same."""

NO_REPLY, LEADER, ALL = 0, 1, -1
NO_REFUSALS: Final[Codes] = MappingProxyType({})
BY_ID_SINCE = 13
LOG_WAS_ASKED = frozenset(
    (
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    )
)
"""Refusals that tell where the log begins, because they were made on its behalf."""


@dataclass(frozen=True, slots=True)
class Flush:
    """A log that must be on the device before its answer leaves."""

    log: Log
    answer: PartitionProduceResponse


def handle(message: ProduceRequest, request: Request) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if message.transactional_id is not None:
        return _handle_transactional(message, message.transactional_id, request)
    return _append_all(message, request)


def _handle_transactional(
    message: ProduceRequest, transactional_id: str, request: Request
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    broker = request.broker
    unverified = unverified_of(message, broker)
    if isinstance(unverified, ErrorCode):
        return _refuse_all(message, unverified)
    is_wanted = request.version >= PRODUCE_ADDS_SINCE or broker.config["transaction.partition.verification.enable"]
    if unverified is None or not is_wanted:
        return _append_all(message, request)
    try:
        future = ask_coordinator(unverified, transactional_id, request.version, broker)
        if future.done():
            return _append_all(message, request, refusals_of(future.result(), unverified, request.version))
    except KafkaError as error:
        return _append_all(message, request, refusals_of(error.code, unverified, request.version))
    for topic in message.topic_data:
        for data in topic.partition_data:
            # The frame is overwritten while the coordinator writes.
            data.records = None if data.records is None else bytes(data.records)
    return _append_when_verified(message, request, unverified, future)


async def _append_when_verified(
    message: ProduceRequest, request: Request, unverified: Unverified, future: "asyncio.Future[Any]"
) -> ProduceResponse | None:
    try:
        refusals = refusals_of(await future, unverified, request.version)
    except KafkaError as error:
        refusals = refusals_of(error.code, unverified, request.version)
    answer = _append_all(message, request, refusals)
    return await answer if isinstance(answer, Awaitable) else answer


def _append_all(
    message: ProduceRequest, request: Request, refusals: Codes = NO_REFUSALS
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    # With one replica, what the leader has appended every in-sync replica has: acks=all waits for nobody.
    due: list[Flush] = []
    acks = message.acks
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _append(message, topic, data, request, due, refusals) for data in _last_of_each(topic)
            ],
        )
        for topic in message.topic_data
    ]
    if due:
        return _answer_when_flushed(acks, topics, due, request)
    return _answer(acks, topics)


def _last_of_each(topic: TopicProduceData) -> Iterable[PartitionProduceData]:
    """A partition may be named once; of one that is named again, the last batch counts."""
    data = topic.partition_data
    return data if len(data) == 1 else {one.index: one for one in data}.values()


async def _answer_when_flushed(
    acks: int, topics: list[TopicProduceResponse], due: list[Flush], request: Request
) -> ProduceResponse | None:
    for one in due:
        try:
            await request.broker.flushing.flush(one.log)
        except KafkaError as error:
            _refuse(one.answer, error)
    return _answer(acks, topics)


def _answer(acks: int, topics: list[TopicProduceResponse]) -> ProduceResponse | None:
    if acks != NO_REPLY:
        return ProduceResponse(responses=topics)
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise CloseConnection(f"produce without acks failed: {partition.error_message}")
    return None


def _append(
    message: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    request: Request,
    due: list[Flush],
    refusals: Codes,
) -> PartitionProduceResponse:
    broker, acks = request.broker, message.acks
    partition = None
    try:
        partition = broker.partition(topic.name, topic.topic_id, data.index)
        if acks not in (NO_REPLY, LEADER, ALL):
            raise InvalidRequiredAcks(f"acks must be -1, 0 or 1, not {acks}")
        if data.records is None:
            raise InvalidRecord("a produce request without records")
        if partition.topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"Cannot append to internal topic {partition.topic}")
        refusal = refusals.get((partition.topic, data.index)) if refusals else None
        if refusal is not None:
            raise RefusedByCoordinator(refusal, _reason_of(refusal))
        if acks == ALL:
            partition.refuse_if_too_few_in_sync()
        now_ms = broker.clock.now_ms()
        appended = partition.append(
            data.records,
            allows_zstd=request.version >= 7,
            now_ms=now_ms,
            is_verified=message.transactional_id is not None,
        )
    except KafkaError as error:
        return refused(error, partition, topic, data, request)
    log = partition.log
    answer = PartitionProduceResponse(
        index=data.index, base_offset=appended.base_offset, log_start_offset=log.start_offset
    )
    if log.config.uses_log_append_time:
        answer.log_append_time_ms = now_ms
    if appended.is_flush_due:
        due.append(Flush(log, answer))
    counters = broker.metrics.topic(partition.topic)
    counters.total_produce_requests += 1
    if not appended.is_duplicate:
        counters.messages_in += appended.last_offset - appended.base_offset + 1
        counters.bytes_in += len(data.records)
    return answer


def _reason_of(refusal: ErrorCode) -> str:
    if refusal == ErrorCode.INVALID_TXN_STATE:
        return "Partition was not added to the transaction"
    return "the transaction's coordinator did not take the partition"


def _refuse_all(message: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )


def refused(
    error: KafkaError,
    partition: Partition | None,
    topic: TopicProduceData,
    data: PartitionProduceData,
    request: Request,
) -> PartitionProduceResponse:
    """What the client is told of records that were not appended."""
    answer = PartitionProduceResponse(index=data.index, base_offset=-1)
    _refuse(answer, error)
    was_asked = error.code in LOG_WAS_ASKED and not isinstance(error, RefusedByCoordinator)
    if partition is not None and (was_asked or isinstance(error, RecordsRefused)):
        answer.log_start_offset = partition.log.start_offset
    if error.code == ErrorCode.UNKNOWN_TOPIC_ID and request.version < BY_ID_SINCE:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    _count_refusal(topic, data, request, error)
    return answer


def _refuse(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = str(error)
    answer.base_offset = -1
    if isinstance(error, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in error.record_errors
        ]


def _count_refusal(topic: TopicProduceData, data: PartitionProduceData, request: Request, error: KafkaError) -> None:
    """Count for a topic that there is; a client can name any other."""
    broker = request.broker
    name = topic.name or broker.image.topic_names.get(topic.topic_id, "")
    if name not in broker.image.topics:
        return
    counters = broker.metrics.topic(name)
    counters.total_produce_requests += 1
    counters.failed_produce_requests += 1
    if error.code == ErrorCode.MESSAGE_TOO_LARGE:
        counters.bytes_rejected += len(data.records or b"")
    elif error.code == ErrorCode.CORRUPT_MESSAGE:
        counters.invalid_message_crc_records += 1
    elif error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        counters.invalid_offset_or_sequence_records += 1
    elif isinstance(error, RecordsRefused) and error.code == ErrorCode.INVALID_RECORD:
        counters.no_key_compacted_topic_records += len(error.record_errors)
