"""AlterReplicaLogDirs v1-2. v2 flexible; replicas move between directories (KIP-113)."""

import logging
from typing import Final

from levada.broker.broker import Broker
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    InvalidTopic,
    KafkaStorageError,
    LogDirNotFound,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from levada.storage.log_directory import MAX_NAME_BYTES, LogDirectory

API = ApiKey.ALTER_REPLICA_LOG_DIRS
VERSIONS = stable_versions(API)

logger = logging.getLogger(__name__)

UNIQUE: Final = "0" * 32


def handle(message: AlterReplicaLogDirsRequest, request: Request) -> AlterReplicaLogDirsResponse:
    wanted = {
        (topic.name, index): directory.path
        for directory in message.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    refusals: list[str] = []
    for (topic, index), path in wanted.items():
        code = _move(request.broker, topic, index, path, refusals)
        by_topic.setdefault(topic, []).append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    if refusals:
        # One line however many there are: a client could fill the log.
        logger.warning("cannot move replicas=%d, the first: %s", len(refusals), refusals[0])
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in by_topic.items()]
    )


def _move(broker: Broker, topic: str, index: int, path: str, refusals: list[str]) -> ErrorCode:
    try:
        _begin(broker, topic, index, _directory_at(broker, topic, index, path))
    except NotLeaderOrFollower:
        # The code that this API has always had for it.
        return ErrorCode.REPLICA_NOT_AVAILABLE
    except ApiError as error:
        refusals.append(f"log={topic}-{index} to directory={path} reason={str(error)!r}")
        return error.code
    return ErrorCode.NONE


def _directory_at(broker: Broker, topic: str, index: int, path: str) -> LogDirectory:
    if len(f"{topic}-{index}.{UNIQUE}-future") > MAX_NAME_BYTES:
        raise InvalidTopic("The topic name is too long.")
    directory = broker.logs.at(path)
    if directory is None:
        raise LogDirNotFound(f"Log dir {path} is not found in the config.")
    if directory.is_offline:
        raise KafkaStorageError(f"Log directory {path} is offline")
    return directory


def _begin(broker: Broker, topic: str, index: int, target: LogDirectory) -> None:
    try:
        partition = broker.replica(topic, index)
    except (NotLeaderOrFollower, UnknownTopicOrPartition):
        broker.replicas.prefer(topic, index, target)
        raise
    assert broker.moves is not None, "requests are served when the broker is up"
    if broker.logs.offline and (topic, index) not in target:
        # Else the copy could be made a second time while the first is out of sight.
        raise KafkaStorageError(f"Can't create log for {topic}-{index} because log directories are offline")
    try:
        broker.moves.want(partition, target)
    except OSError as error:
        raise KafkaStorageError(f"cannot begin to move {topic}-{index}: {error}") from error
