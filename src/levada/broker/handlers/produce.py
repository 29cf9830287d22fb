"""Produce v3-13. v7 zstd (KIP-110), v8 record errors (KIP-467), v9 flexible, v13 topic ids (KIP-516)."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from levada.broker.partition import Partition
from levada.broker.route import Request
from levada.broker.verification import (
    Codes,
    Guards,
    Unverified,
    ask_coordinator,
    check_guard,
    guards_of,
    refusals_of,
    unverified_of,
)
from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    RecordsRefused,
    RefusedByCoordinator,
)
from levada.model.topics import INTERNAL_TOPICS
from levada.net.reply import CloseConnection
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.produce import (
    IMPLICIT_ADD_SINCE,
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from levada.records import BatchView
from levada.storage.validation import MAX_OPENED_AT_ONCE, TakesLong, validate

API = ApiKey.PRODUCE
VERSIONS = stable_versions(API)
ADVERTISED_VERSIONS = range(VERSIONS.stop)
"""librdkafka takes a minimum above 0 for a broker that cannot compress (KAFKA-18659); 0-2 are refused all the same."""

NO_REPLY, LEADER, ALL = 0, 1, -1
NO_REFUSALS: Final[Codes] = MappingProxyType({})
NO_GUARDS: Final[Guards] = MappingProxyType({})
ZSTD_SINCE = 7
"""KIP-110."""
BY_ID_SINCE = 13
LONGEST_TURN_NS = 5_000_000
"""Batches of a request that must be opened later than this are opened elsewhere."""
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
    """What must have a good end before an answer leaves."""

    outcome: "asyncio.Future[None]"
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
    is_wanted = request.version >= IMPLICIT_ADD_SINCE or broker.config["transaction.partition.verification.enable"]
    if unverified is None or not is_wanted:
        return _append_all(message, request)
    try:
        future = ask_coordinator(unverified, transactional_id, request.version, broker)
        if future.done():
            return _append_all(message, request, refusals_of(future.result(), unverified, request.version))
    except ApiError as error:
        return _append_all(message, request, refusals_of(error.code, unverified, request.version))
    for topic in message.topic_data:
        for data in topic.partition_data:
            # The frame is overwritten while the coordinator writes.
            data.records = None if data.records is None else bytes(data.records)
    # Of what comes next some may be verified by then, and must not overtake this.
    request.is_held = True
    return _append_when_verified(message, request, unverified, future, guards_of(message, broker))


async def _append_when_verified(
    message: ProduceRequest,
    request: Request,
    unverified: Unverified,
    future: "asyncio.Future[ErrorCode | Codes]",
    guards: Guards,
) -> ProduceResponse | None:
    try:
        refusals = refusals_of(await future, unverified, request.version)
    except ApiError as error:
        refusals = refusals_of(error.code, unverified, request.version)
    answer = _append_all(message, request, refusals, guards)
    return await answer if isinstance(answer, Awaitable) else answer


def _append_all(
    message: ProduceRequest, request: Request, refusals: Codes = NO_REFUSALS, guards: Guards = NO_GUARDS
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    # With one replica, what the leader has appended every in-sync replica has: acks=all waits for no follower.
    due: list[Flush] = []
    unopened: list[Unopened] = []
    ends_ns = request.broker.clock.perf_ns() + LONGEST_TURN_NS
    topics = []
    for topic in message.topic_data:
        answers: list[PartitionProduceResponse] = []
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        for data in _last_of_each(topic):
            try:
                answers.append(_append(message, topic, data, request, due, refusals, guards, ends_ns))
            except TakesLong:
                unopened.append(Unopened(topic, data, answers, len(answers)))
                answers.append(PartitionProduceResponse(index=data.index, base_offset=-1))
    if unopened:
        for one in unopened:
            # The frame is overwritten meanwhile.
            one.data.records = bytes(one.data.records or b"")
        request.is_held = True
        return _open_first(unopened, message, topics, due, request, refusals, guards_of(message, request.broker))
    if due:
        return _answer_when_flushed(message.acks, topics, due)
    return _answer(message.acks, topics)


class Unopened(NamedTuple):
    """A batch that holds too much to be opened at once, and where its answer belongs."""

    topic: TopicProduceData
    data: PartitionProduceData
    answers: list[PartitionProduceResponse]
    place: int


async def _open_first(
    unopened: list[Unopened],
    message: ProduceRequest,
    topics: list[TopicProduceResponse],
    due: list[Flush],
    request: Request,
    refusals: Codes,
    guards: Guards,
) -> ProduceResponse | None:
    """Check these batches where that holds nothing else up, and append them one after the other."""
    broker = request.broker
    for topic, data, answers, place in unopened:
        assert data.records is not None, "only what has records can take long"
        partition = None
        try:
            partition = broker.partition(topic.name, topic.topic_id, data.index)
            check = partial(
                validate,
                data.records,
                partition.log.config,
                allows_zstd=request.version >= ZSTD_SINCE,
                now_ms=broker.clock.now_ms(),
                topic_partition=partition.name,
            )
            batch = await broker.workers.compute(check)
        except ApiError as error:
            answers[place] = refused(error, partition, topic, data, request)
        else:
            answers[place] = _append(message, topic, data, request, due, refusals, guards, 0, batch)
    if due:
        return await _answer_when_flushed(message.acks, topics, due)
    return _answer(message.acks, topics)


def _last_of_each(topic: TopicProduceData) -> Iterable[PartitionProduceData]:
    """A partition may be named once; of one that is named again, the last batch counts."""
    data = topic.partition_data
    return data if len(data) == 1 else {one.index: one for one in data}.values()


async def _answer_when_flushed(
    acks: int, topics: list[TopicProduceResponse], due: list[Flush]
) -> ProduceResponse | None:
    for one in due:
        try:
            await asyncio.shield(one.outcome)
        except ApiError as error:
            _refuse(one.answer, error)
    return _answer(acks, topics)


def _answer(acks: int, topics: list[TopicProduceResponse]) -> ProduceResponse | None:
    if acks != NO_REPLY:
        return ProduceResponse(responses=topics)
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.error_code:
                reason = partition.error_message or ErrorCode(partition.error_code).name
                raise CloseConnection(f"produce without acks failed: {reason}")
    return None


def _append(
    message: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    request: Request,
    due: list[Flush],
    refusals: Codes,
    guards: Guards,
    ends_ns: int,
    checked: BatchView | None = None,
) -> PartitionProduceResponse:
    """TakesLong where a batch must be opened that holds much, or the time is up until which any is opened at once."""
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
        if guards:
            check_guard(guards, partition)
        if acks == ALL:
            partition.refuse_if_too_few_in_sync()
        now_ms = broker.clock.now_ms()
        is_verified = message.transactional_id is not None
        if checked is not None:
            appended = partition.append_checked(checked, now_ms=now_ms, is_verified=is_verified)
        else:
            appended = partition.append(
                data.records,
                allows_zstd=request.version >= ZSTD_SINCE,
                now_ms=now_ms,
                is_verified=is_verified,
                max_opened=MAX_OPENED_AT_ONCE if broker.clock.perf_ns() < ends_ns else 0,
            )
    except ApiError as error:
        return refused(error, partition, topic, data, request)
    log = partition.log
    answer = PartitionProduceResponse(
        index=data.index, base_offset=appended.base_offset, log_start_offset=log.start_offset
    )
    if log.config.uses_log_append_time:
        answer.log_append_time_ms = now_ms if checked is None else checked.max_timestamp
    if appended.is_flush_due:
        due.append(Flush(broker.flushing.begin(log), answer))
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


def _refuse_all(message: ProduceRequest, code: ErrorCode) -> ProduceResponse | None:
    topics = [
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
    return _answer(message.acks, topics)


def refused(
    error: ApiError,
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


def _refuse(answer: PartitionProduceResponse, error: ApiError) -> None:
    answer.error_code = error.code
    answer.error_message = str(error)
    answer.base_offset = -1
    if isinstance(error, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
            for index, text in error.record_errors
        ]


def _count_refusal(topic: TopicProduceData, data: PartitionProduceData, request: Request, error: ApiError) -> None:
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
