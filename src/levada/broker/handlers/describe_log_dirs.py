"""DescribeLogDirs v1-5. v2 flexible, v4 sizes of the disk (KIP-827), v5 cordoned directories (KIP-1066)."""

from levada.broker.broker import MovingReplica
from levada.broker.partition import Partition
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from levada.storage.log_directory import LogDirectory

API = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS = stable_versions(API)


def handle(message: DescribeLogDirsRequest, request: Request) -> DescribeLogDirsResponse:
    broker = request.broker
    wanted = None
    if message.topics is not None:
        wanted = {(topic.topic, index) for topic in message.topics for index in topic.partitions}
    partitions = [one for one in broker.replicas.all() if wanted is None or (one.topic, one.index) in wanted]
    moving = [] if broker.moves is None else broker.moves.under_way()
    moving = [one for one in moving if wanted is None or (one.partition.topic, one.partition.index) in wanted]
    return DescribeLogDirsResponse(results=[_directory(directory, partitions, moving) for directory in broker.logs])


def _directory(
    directory: LogDirectory, partitions: list[Partition], moving: list[MovingReplica]
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.absolute_directory, topics=[])
    if directory.is_offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        if (partition.topic, partition.index) in directory:
            by_topic.setdefault(partition.topic, []).append(_describe(partition))
    for one in moving:
        if one.target is directory:
            by_topic.setdefault(one.partition.topic, []).append(_describe_moving(one))
    result.topics = [DescribeLogDirsTopic(name=name, partitions=found) for name, found in by_topic.items()]
    try:
        result.total_bytes, result.usable_bytes = directory.space()
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


def _describe_moving(one: MovingReplica) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=one.partition.index,
        partition_size=one.size,
        offset_lag=max(one.partition.log.end_offset - one.end_offset, 0),
        is_future_key=True,
    )


def _describe(partition: Partition) -> DescribeLogDirsPartition:
    log = partition.log
    return DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=log.size,
        offset_lag=max(log.high_watermark - log.end_offset, 0),
        is_future_key=False,
    )
