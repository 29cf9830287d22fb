"""AddPartitionsToTxn v0-5. v2 fenced producers learn it (KIP-588), v3 flexible, v4 by brokers, in bulk (KIP-890)."""

from collections.abc import Mapping, Sequence

from penstock.broker.route import Request
from penstock.model.errors import ErrorCode, KafkaError
from penstock.model.topics import INTERNAL_TOPICS
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.add_partitions_to_txn import (
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

BY_BROKERS_SINCE = 4

Codes = Mapping[tuple[str, int], ErrorCode]


async def handle(message: AddPartitionsToTxnRequest, request: Request) -> AddPartitionsToTxnResponse:
    if request.version >= BY_BROKERS_SINCE:
        results = [
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id, topic_results=_results(one.topics, await _add(one, request))
            )
            for one in message.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    wanted = AddPartitionsToTxnTransaction(
        transactional_id=message.v3_and_below_transactional_id,
        producer_id=message.v3_and_below_producer_id,
        producer_epoch=message.v3_and_below_producer_epoch,
        topics=message.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(wanted.topics, await _add(wanted, request))
    )


async def _add(wanted: AddPartitionsToTxnTransaction, request: Request) -> Codes:
    partitions = [(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    refusals = _refusals(partitions, request)
    if refusals:
        # All are added, or none: the others are not looked at.
        return {one: refusals.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions}
    return await _ask(wanted, partitions, request)


def _refusals(partitions: Sequence[tuple[str, int]], request: Request) -> Codes:
    topics = request.broker.image.topics
    # A broker may add the topic of offsets, for those who commit some; a client has AddOffsetsToTxn for that.
    forbidden = INTERNAL_TOPICS if request.version < BY_BROKERS_SINCE else frozenset()
    refusals = {}
    for name, index in partitions:
        if name in forbidden:
            refusals[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name not in topics or not 0 <= index < len(topics[name].partitions):
            refusals[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refusals


async def _ask(wanted: AddPartitionsToTxnTransaction, partitions: Sequence[tuple[str, int]], request: Request) -> Codes:
    producer = wanted.transactional_id, wanted.producer_id, wanted.producer_epoch
    try:
        if wanted.verify_only:
            codes: Codes = await request.broker.transactions.submit(
                wanted.transactional_id,
                lambda machine, token, _: machine.verify_partitions(token, *producer, partitions),
            )
            return codes
        code: ErrorCode = await request.broker.transactions.submit(
            wanted.transactional_id,
            lambda machine, token, now_ms: machine.add_partitions(
                token, *producer, partitions, request.version, now_ms
            ),
        )
    except KafkaError as error:
        code = error.code
    return dict.fromkeys(partitions, code)


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
