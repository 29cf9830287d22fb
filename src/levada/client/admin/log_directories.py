"""Log directories: what lies in them, and moves of replicas between those of a broker."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from levada.client.admin.ids import by_topic
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import BROKER_FAULTS, BrokerAnswer, Question, check, verdict
from levada.client.errors import KafkaError, error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from levada.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

NOT_TOLD = -1


class Replica(NamedTuple):
    """A partition's copy on one broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    size_bytes: int
    offset_lag: int
    """How far it is behind: of a future replica behind the current one, else behind the high watermark."""
    is_future: bool
    """It is being copied here, to take the current one's place."""


@dataclass(frozen=True, slots=True)
class LogDirectory:
    path: str
    error: KafkaError | None
    """Why the directory is of no use at the moment."""
    replicas: Mapping[TopicPartition, ReplicaSize]
    total_bytes: int | None
    """Of the volume it is on; None where the broker does not tell."""
    usable_bytes: int | None
    is_cordoned: bool
    """No new replica is placed in it."""


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """Where a replica lies, and where it is moving to."""

    path: str | None
    """None where the broker has no such replica."""
    offset_lag: int | None
    future_path: str | None = None
    future_offset_lag: int | None = None


class LogDirectoriesPart(AdminPart):
    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> Outcomes[int, dict[str, LogDirectory]]:
        """The log directories of brokers, or of all brokers, by their paths; with all their replicas, or some.

        >>> directories = (await admin.describe_log_dirs([1]))[1]
        >>> replicas = [replica for one in directories.values() for replica in one.replicas.values()]
        >>> sum(replica.size_bytes for replica in replicas) > 10_000
        True
        """
        deadline = self._requests.deadline(timeout_ms)
        wanted = None if partitions is None else by_topic(partitions)
        question: Question[int, dict[str, LogDirectory], DescribeLogDirsResponse] = Question(
            what="to describe log directories",
            route=self._routing.brokers(lambda broker: broker),
            request=lambda _, __: _describe_request(wanted),
            read=lambda answer: {answer.items[0]: _read_directories(answer.response)},
            passing=BROKER_FAULTS,
        )
        ids = await self._requests.broker_ids(deadline) if brokers is None else list(brokers)
        return await self._requests.each(ids, question, deadline)

    async def describe_replica_log_dirs(
        self, replicas: Iterable[Replica], *, timeout_ms: float | None = None
    ) -> Outcomes[Replica, ReplicaPlace]:
        """In which directory each replica lies."""

        def request(items: Sequence[Replica], _: int) -> DescribeLogDirsRequest:
            return _describe_request(by_topic(TopicPartition(one.topic, one.partition) for one in items))

        question: Question[Replica, ReplicaPlace, DescribeLogDirsResponse] = Question(
            what="to find replicas",
            route=self._routing.brokers(lambda replica: replica.broker),
            request=request,
            read=_read_places,
            passing=BROKER_FAULTS,
        )
        return await self._requests.each(replicas, question, self._requests.deadline(timeout_ms))

    async def alter_replica_log_dirs(
        self, paths: Mapping[Replica, str], *, timeout_ms: float | None = None
    ) -> Outcomes[Replica, None]:
        """Begin to move replicas to another directory of their broker."""

        def request(items: Sequence[Replica], _: int) -> AlterReplicaLogDirsRequest:
            by_path: dict[str, list[TopicPartition]] = {}
            for replica in items:
                by_path.setdefault(paths[replica], []).append(TopicPartition(replica.topic, replica.partition))
            return AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                            for topic, indexes in by_topic(partitions).items()
                        ],
                    )
                    for path, partitions in by_path.items()
                ]
            )

        question: Question[Replica, None, AlterReplicaLogDirsResponse] = Question(
            what="to move replicas",
            route=self._routing.brokers(lambda replica: replica.broker),
            request=request,
            read=_read_moved,
            passing=BROKER_FAULTS,
        )
        return await self._requests.each(paths, question, self._requests.deadline(timeout_ms))


def _describe_request(topics: Mapping[str, list[int]] | None) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=None
        if topics is None
        else [DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    )


def _read_directories(response: DescribeLogDirsResponse) -> dict[str, LogDirectory]:
    check(response.error_code, context="to describe log directories")
    return {result.log_dir: _directory(result) for result in response.results}


def _directory(result: DescribeLogDirsResult) -> LogDirectory:
    is_well = result.error_code == ErrorCode.NONE
    return LogDirectory(
        path=result.log_dir,
        error=None if is_well else error_for(result.error_code, context=result.log_dir),
        replicas={
            TopicPartition(topic.name, one.partition_index): ReplicaSize(
                one.partition_size, one.offset_lag, one.is_future_key
            )
            for topic in result.topics
            for one in topic.partitions
        },
        total_bytes=None if result.total_bytes == NOT_TOLD else result.total_bytes,
        usable_bytes=None if result.usable_bytes == NOT_TOLD else result.usable_bytes,
        is_cordoned=result.is_cordoned,
    )


def _read_places(answer: BrokerAnswer[Replica, DescribeLogDirsResponse]) -> dict[Replica, ReplicaPlace | KafkaError]:
    found = dict.fromkeys(answer.items, ReplicaPlace(path=None, offset_lag=None))
    for directory in _read_directories(answer.response).values():
        for replica, place in found.items():
            size = directory.replicas.get(TopicPartition(replica.topic, replica.partition))
            if size is None:
                continue
            found[replica] = (
                ReplicaPlace(place.path, place.offset_lag, directory.path, size.offset_lag)
                if size.is_future
                else ReplicaPlace(directory.path, size.offset_lag, place.future_path, place.future_offset_lag)
            )
    return dict(found)


def _read_moved(answer: BrokerAnswer[Replica, AlterReplicaLogDirsResponse]) -> dict[Replica, KafkaError | None]:
    response = answer.response
    assert answer.broker is not None
    found: dict[Replica, KafkaError | None] = {}
    for topic in response.results:
        for one in topic.partitions:
            replica = Replica(topic.topic_name, one.partition_index, answer.broker)
            found[replica] = verdict(one.error_code, None, str(replica), None)
    return found
