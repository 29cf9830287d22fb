"""WriteTxnMarkers v1-2. v1 flexible, v2 the transaction's version (KIP-1228)."""

from levada.broker.markers import write_markers
from levada.broker.route import Request
from levada.model.errors import ErrorCode, KafkaError
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


async def handle(message: WriteTxnMarkersRequest, request: Request) -> WriteTxnMarkersResponse:
    """Markers of several producers for one partition are written together."""
    ends: dict[tuple[str, int], list[TransactionEnd]] = {}
    for marker in message.markers:
        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        for topic in marker.topics:
            for index in topic.partition_indexes:
                ends.setdefault((topic.name, index), []).append(end)
    codes = {partition: await _write(*partition, of_partition, request) for partition, of_partition in ends.items()}
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=codes[topic.name, index])
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in message.markers
        ]
    )


async def _write(topic: str, index: int, ends: list[TransactionEnd], request: Request) -> ErrorCode:
    try:
        await write_markers(request.broker, topic, index, ends)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
