"""AddPartitionsToTxn v0-5. v2 fenced producers learn it (KIP-588), v3 flexible, v4 by brokers, in bulk (KIP-890)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from levada.broker.coordinator_call import call_coordinator
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.topics import INTERNAL_TOPICS
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.add_partitions_to_txn import (
    BY_BROKERS_SINCE,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

API = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS = stable_versions(API)


Codes = Mapping[tuple[str, int], ErrorCode]


def handle(
    message: AddPartitionsToTxnRequest, request: Request
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if request.version >= BY_BROKERS_SINCE:
        return _add_each(message, request)
    wanted = AddPartitionsToTxnTransaction(
        transactional_id=message.v3_and_below_transactional_id,
        producer_id=message.v3_and_below_producer_id,
        producer_epoch=message.v3_and_below_producer_epoch,
        topics=message.v3_and_below_topics,
    )

    def answer(codes: Codes) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(wanted.topics, codes))

    codes = _add(wanted, request)
    return _answer_later(codes, answer) if isinstance(codes, Awaitable) else answer(codes)


async def _answer_later(
    codes: Awaitable[Codes], answer: Callable[[Codes], AddPartitionsToTxnResponse]
) -> AddPartitionsToTxnResponse:
    return answer(await codes)


async def _add_each(message: AddPartitionsToTxnRequest, request: Request) -> AddPartitionsToTxnResponse:
    results = []
    for one in message.transactions:
        codes = _add(one, request)
        topics = _results(one.topics, await codes if isinstance(codes, Awaitable) else codes)
        results.append(AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=topics))
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _add(wanted: AddPartitionsToTxnTransaction, request: Request) -> Codes | Awaitable[Codes]:
    partitions = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    refusals = _refusals(partitions, request)
    if refusals:
        # All are added, or none: the others are not looked at.
        return {one: refusals.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions}
    return _ask(wanted, partitions, request)


def _refusals(partitions: Sequence[tuple[str, int]], request: Request) -> Codes:
    topics = request.broker.image.topics
    # A broker may add the topic of offsets, for a producer that commits some; a client has AddOffsetsToTxn for that.
    forbidden = INTERNAL_TOPICS if request.version < BY_BROKERS_SINCE else frozenset()
    refusals = {}
    for name, index in partitions:
        if name in forbidden:
            refusals[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name not in topics or not 0 <= index < len(topics[name].partitions):
            refusals[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refusals


def _ask(
    wanted: AddPartitionsToTxnTransaction, partitions: Sequence[tuple[str, int]], request: Request
) -> Codes | Awaitable[Codes]:
    producer = wanted.transactional_id, wanted.producer_id, wanted.producer_epoch

    def same_for_all(code: ErrorCode) -> Codes:
        return dict.fromkeys(partitions, code)

    if wanted.verify_only:
        return call_coordinator(
            request.broker.transactions,
            wanted.transactional_id,
            lambda machine, token, _: machine.verify_partitions(token, *producer, partitions),
            _told,
            same_for_all,
        )
    return call_coordinator(
        request.broker.transactions,
        wanted.transactional_id,
        lambda machine, token, now_ms: machine.add_partitions(token, *producer, partitions, request.version, now_ms),
        same_for_all,
        same_for_all,
    )


def _told(codes: Codes) -> Codes:
    return codes


def _results(topics: Sequence[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
