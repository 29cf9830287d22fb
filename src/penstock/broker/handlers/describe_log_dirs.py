"""DescribeLogDirs v1-5. v2 flexible, v4 sizes of the disk (KIP-827), v5 cordoned directories (KIP-1066)."""

from penstock.broker.partition import Partition
from penstock.broker.route import Request
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

API = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS = stable_versions(API)


def handle(message: DescribeLogDirsRequest, request: Request) -> DescribeLogDirsResponse:
    broker = request.broker
    wanted = None
    if message.topics is not None:
        wanted = {(topic.topic, index) for topic in message.topics for index in topic.partitions}
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in broker.replicas.all():
        if wanted is None or (partition.topic, partition.index) in wanted:
            by_topic.setdefault(partition.topic, []).append(_describe(partition))
    result = DescribeLogDirsResult(
        log_dir=broker.logs.absolute_directory,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in by_topic.items()],
    )
    try:
        result.total_bytes, result.usable_bytes = broker.logs.space()
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return DescribeLogDirsResponse(results=[result])


def _describe(partition: Partition) -> DescribeLogDirsPartition:
    log = partition.log
    return DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=log.size,
        offset_lag=max(log.high_watermark - log.end_offset, 0),
        is_future_key=False,
    )
