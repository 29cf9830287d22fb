"""A broker with logs on a real disk and nothing around them, and a client that calls its fetch handler."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast

from levada.broker.broker import Broker
from levada.broker.delayed import DelayedOperations
from levada.broker.fetch_sessions import FetchSessions
from levada.broker.handlers import fetch
from levada.broker.metrics import BrokerMetrics
from levada.broker.partition import Partition
from levada.broker.replicas import HostedTopic
from levada.broker.route import Request
from levada.broker.settings import BrokerSettings
from levada.metadata.image import BrokerState, Image, PartitionState, TopicState
from levada.metadata.records import BrokerEndpoint
from levada.model.metrics import Registry
from levada.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from levada.records import build_batch
from levada.storage.log_config import LogConfig
from levada.world.disk import FileRange
from tests.logs import T0, opened

NODE, OTHER_NODE = 1, 2
LARGE = LogConfig(segment_bytes=1 << 20, index_interval_bytes=4_096, max_index_bytes=2_400)
NEWEST = 18
NAMES_ONLY = 12


class Clock:
    def __init__(self) -> None:
        self.milliseconds = 1_000_000

    def monotonic_ms(self) -> int:
        return self.milliseconds


class Hosted:
    """The replicas of this broker by topic."""

    def __init__(self) -> None:
        self.topics: dict[str, HostedTopic] = {}

    def by_name(self, name: str) -> HostedTopic | None:
        return self.topics.get(name)


class Server:
    """What the fetch handler sees of a broker."""

    def __init__(self, directory: Path, *, max_sessions: int = 1_000) -> None:
        self._directory = directory
        self._numbers = count(1)
        self.clock = Clock()
        self.settings = BrokerSettings()
        self.metrics = BrokerMetrics(Registry(), 0)
        self.delayed = DelayedOperations()
        self.fetch_sessions = FetchSessions(lambda bound: next(self._numbers) * 1_000_003 % bound, max_sessions)
        self.replicas = Hosted()
        self.image = Image(brokers={node: _broker_state(node) for node in (NODE, OTHER_NODE)})

    def add_topic(
        self, name: str, partitions: int = 1, *, topic_id: bytes = bytes(16), config: LogConfig = LARGE
    ) -> None:
        """A topic that is led from here in epoch 0."""
        if not any(topic_id):
            topic_id = next(self._numbers).to_bytes(16, "big")
        states = tuple(PartitionState(index, (NODE,), (NODE,), leader=NODE) for index in range(partitions))
        hosted = HostedTopic(name, topic_id, config)
        for state in states:
            log = opened(self._directory / f"{name}-{state.index}-{topic_id.hex()}", config)
            partition = hosted.partitions[state.index] = Partition(name, topic_id, state.index, log, lambda _: None)
            partition.follow(state, NODE)
        self.replicas.topics[name] = hosted
        self._know(TopicState(name, topic_id, states))

    def remove_topic(self, name: str) -> None:
        for partition in self.replicas.topics.pop(name).partitions.values():
            partition.remove()
        topics = {topic.name: topic for topic in self.image.topics.values() if topic.name != name}
        self._set_topics(topics)

    def lead_elsewhere(self, name: str, *, epoch: int) -> None:
        self._elect(name, OTHER_NODE, epoch)

    def lead_here(self, name: str, *, epoch: int) -> None:
        self._elect(name, NODE, epoch)

    def replica(self, name: str, index: int) -> Partition:
        return Broker.replica(cast(Broker, self), name, index)

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.replicas.topics[topic].partitions[index]

    def append(self, topic: str, index: int = 0, size: int = 100) -> int:
        """Append one record in a batch of its own; how many bytes that were."""
        one = build_batch([(T0, None, bytes(size), ())])
        self.partition(topic, index).append(one, allows_zstd=True, now_ms=T0)
        return len(one)

    def _elect(self, name: str, leader: int, epoch: int) -> None:
        topic = self.image.topics[name]
        replicas = (NODE, OTHER_NODE)
        states = tuple(
            PartitionState(index, replicas, (leader,), leader=leader, leader_epoch=epoch)
            for index in range(len(topic.partitions))
        )
        self._know(TopicState(name, topic.topic_id, states))
        for state in states:
            self.partition(name, state.index).follow(state, NODE)

    def _know(self, topic: TopicState) -> None:
        self._set_topics({**self.image.topics, topic.name: topic})

    def _set_topics(self, topics: Mapping[str, TopicState]) -> None:
        names = {topic.topic_id: topic.name for topic in topics.values()}
        self.image = Image(brokers=self.image.brokers, topics=topics, topic_names=names)


def _broker_state(node: int) -> BrokerState:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host=f"host-{node}", port=9_000 + node)
    return BrokerState(node, 0, bytes(16), endpoints=(endpoint,), is_fenced=False)


@dataclass(frozen=True)
class Seen:
    """One partition of an answer, in short."""

    topic: str
    index: int
    error: int
    high_watermark: int
    size: int


class Client:
    """Speaks one version of Fetch; topics go by the names or ids that version has."""

    def __init__(self, server: Server, version: int = NEWEST) -> None:
        self.server = server
        self.version = version
        self.session_id = 0
        self.session_epoch = 0

    def ask(self, *topics: FetchTopic, **settings: Any) -> "FetchResponse | asyncio.Future[FetchResponse]":
        """Send a request as it is."""
        fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1} | settings
        message = FetchRequest(topics=list(topics), **fields)
        request = Request(self.version, "client", "peer", cast(Broker, self.server), {})
        return fetch.handle(message, request)

    def fetch(self, *topics: FetchTopic, **settings: Any) -> FetchResponse:
        """Send a request that has its answer at once."""
        response = self.ask(*topics, **settings)
        assert isinstance(response, FetchResponse)
        return response

    def open(self, *topics: FetchTopic, **settings: Any) -> FetchResponse:
        """Begin a session."""
        response = self.fetch(*topics, session_id=self.session_id, session_epoch=0, **settings)
        self.session_id, self.session_epoch = response.session_id, 1
        return response

    def go_on(self, *topics: FetchTopic, **settings: Any) -> FetchResponse:
        """Send the next request of the session."""
        response = self.fetch(*topics, session_id=self.session_id, session_epoch=self.session_epoch, **settings)
        self.session_epoch += 1
        return response

    def wait(self, *topics: FetchTopic, **settings: Any) -> "asyncio.Future[FetchResponse]":
        """Send the next request of the session, one that finds too little."""
        fields = {"session_id": self.session_id, "session_epoch": self.session_epoch, "max_wait_ms": 500} | settings
        parked = self.ask(*topics, **fields)
        assert isinstance(parked, asyncio.Future)
        self.session_epoch += 1
        return parked

    def topic(self, name: str, offsets: Mapping[int, int] | None = None, **settings: Any) -> FetchTopic:
        """A topic to read, with the offset of each partition."""
        partitions = [
            FetchPartition(**({"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20} | settings))
            for index, offset in (offsets or {0: 0}).items()
        ]
        return FetchTopic(topic=name, topic_id=self._id_of(name), partitions=partitions)

    def forgotten(self, name: str, indexes: Iterable[int]) -> ForgottenTopic:
        return ForgottenTopic(topic=name, topic_id=self._id_of(name), partitions=list(indexes))

    def _id_of(self, name: str) -> bytes:
        known = self.server.image.topics.get(name)
        return bytes(16) if known is None else known.topic_id


def partitions_of(response: FetchResponse) -> list[PartitionData]:
    return [data for topic in response.responses for data in topic.partitions]


def seen(response: FetchResponse) -> list[Seen]:
    """An answer in short."""
    assert response.error_code == 0
    return [
        Seen(topic.topic, data.partition_index, data.error_code, data.high_watermark, size_of(data))
        for topic in response.responses
        for data in topic.partitions
    ]


def indexes(response: FetchResponse) -> list[int]:
    assert response.error_code == 0
    return [data.partition_index for data in partitions_of(response)]


def size_of(data: PartitionData) -> int:
    if isinstance(data.records, FileRange):
        return data.records.size
    assert data.records == b""
    return 0
