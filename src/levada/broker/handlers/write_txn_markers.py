"""WriteTxnMarkers v1-2. v1 flexible, v2 the transaction's version (KIP-1228)."""

import asyncio
from collections.abc import Iterator
from typing import TypeAlias

from levada.broker.markers import write_markers
from levada.broker.route import Request
from levada.broker.turns import AT_ONCE
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from levada.storage.producers import TransactionEnd

API = ApiKey.WRITE_TXN_MARKERS
VERSIONS = stable_versions(API)


Results: TypeAlias = dict[tuple[str, int], list[tuple[TransactionEnd, WritableTxnMarkerPartitionResult]]]
"""For each partition the ends of transactions that are to be written there, and where their codes belong."""


async def handle(message: WriteTxnMarkersRequest, request: Request) -> WriteTxnMarkersResponse:
    """Markers of several producers for one partition are written together; one that is refused keeps no other back."""
    results: Results = {}
    response = WriteTxnMarkersResponse(markers=[])
    for number, _ in enumerate(_prepare(message, response, results), 1):
        if not number % AT_ONCE:
            await asyncio.sleep(0)
    written = 0
    for partition, of_partition in results.items():
        for start in range(0, len(of_partition), AT_ONCE):
            some = of_partition[start : start + AT_ONCE]
            if written + len(some) > AT_ONCE:
                written = 0
                await asyncio.sleep(0)
            written += len(some)
            for (_, result), code in zip(some, await _write(*partition, [end for end, _ in some], request)):
                result.error_code = code
    return response


def _prepare(message: WriteTxnMarkersRequest, response: WriteTxnMarkersResponse, results: Results) -> Iterator[None]:
    for marker in message.markers:
        answer = WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[])
        response.markers.append(answer)
        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        for topic in marker.topics:
            of_topic = WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
            answer.topics.append(of_topic)
            yield
            for index in topic.partition_indexes:
                of_partition = results.setdefault((topic.name, index), [])
                if not of_partition or of_partition[-1][0] is not end:
                    # A marker that names a partition twice ends the transaction there once.
                    result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=ErrorCode.NONE)
                    of_partition.append((end, result))
                of_topic.partitions.append(of_partition[-1][1])
                yield


async def _write(topic: str, index: int, ends: list[TransactionEnd], request: Request) -> list[ErrorCode]:
    try:
        refused = await write_markers(request.broker, topic, index, ends)
    except ApiError as error:
        return [error.code] * len(ends)
    return [ErrorCode.NONE if refusal is None else refusal.code for refusal in refused]
