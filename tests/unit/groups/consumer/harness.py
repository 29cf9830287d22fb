"""A coordinator of consumer groups with a clock of its own, whose records are applied at once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from levada.coordination.decision import Record
from levada.coordination.timers import Timers
from levada.groups.consumer import Client, ConsumerGroup, ConsumerGroups, ConsumerGroupSettings
from levada.groups.consumer.group import Tally
from levada.groups.group import Group
from levada.groups.group_records import group_from
from levada.groups.records import GroupMetadataKey, GroupMetadataValue, decode, encode
from levada.metadata.image import BrokerState, Image, PartitionState, TopicState
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)

GROUP = "g"
REBALANCE_MS = 60_000
START_MS = 1_000_000

Owned = Mapping[str, list[int]]


class Coordinator:
    def __init__(self, settings: ConsumerGroupSettings | None = None) -> None:
        self.settings = settings or ConsumerGroupSettings()
        self.configs: dict[str, dict[str, str]] = {}
        self.classic: dict[str, Group] = {}
        self.image = Image(offset=0)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.written: list[Record] = []
        """By the last operation."""
        self.downgrades: list[Group] = []
        """By the last operation."""
        self._ids = 0
        self._topics = 0
        self._start()

    @property
    def group(self) -> ConsumerGroup:
        return self.groups.groups[GROUP]

    def topic_id(self, name: str) -> bytes:
        return self.image.topics[name].topic_id

    def topic(self, name: str, partitions: int, *, rack: str | None = None) -> None:
        """Make a topic, or change one; all its partitions are on one broker."""
        old = self.image.topics.get(name)
        self._topics += old is None
        topic_id = old.topic_id if old else self._topics.to_bytes(16, "big")
        states = tuple(PartitionState(index, (1,), (1,), leader=1) for index in range(partitions))
        topics = {**self.image.topics, name: TopicState(name, topic_id, states)}
        broker = BrokerState(1, 1, bytes(16), rack=rack)
        self._change(name, topics=topics, brokers={1: broker})

    def drop(self, name: str) -> None:
        topics = {one: state for one, state in self.image.topics.items() if one != name}
        self._change(name, topics=topics)

    def beat(
        self,
        member_id: str,
        epoch: int,
        *topics: str,
        owned: Owned | None = None,
        group_id: str = GROUP,
        version: int = 1,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat; one that joins says all there is to say."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, **fields}
            fields.setdefault("subscribed_topic_names", list(topics))
            owned = {} if owned is None else owned
        elif topics:
            fields["subscribed_topic_names"] = list(topics)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None if owned is None else self.partitions(owned),
            **fields,
        )
        return self.send(request, version)

    def send(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        client = Client("client", "/127.0.0.1", version)
        decision = self.groups.heartbeat(request, client, self.now_ms)
        self.write(decision.records)
        self.expire()
        return decision.reply

    def partitions(self, owned: Owned) -> list[RequestTopicPartitions]:
        return [
            RequestTopicPartitions(topic_id=self.topic_id(name), partitions=indexes) for name, indexes in owned.items()
        ]

    def assigned(self, reply: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
        """By topic name; None if the reply does not speak of it."""
        assert reply.error_code == ErrorCode.NONE, reply
        if reply.assignment is None:
            return None
        names = self.image.topic_names
        return {names[one.topic_id]: sorted(one.partitions) for one in reply.assignment.topic_partitions}

    def advance(self, ms: int) -> None:
        """Let time pass, and do what comes due on the way."""
        end_ms = self.now_ms + ms
        while (deadline_ms := self.timers.deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.expire()
        self.now_ms = end_ms

    def expire(self) -> None:
        while (timer := self.timers.pop_due(self.now_ms)) is not None:
            self.write(self.groups.expire(timer, self.now_ms))

    def write(self, records: Any) -> None:
        """What is written is what is read: records go through their bytes."""
        self.written = list(records)
        for record in records:
            key, value = encode(record)
            self.log.append((key, value))
            self.apply(key, value)
        self.downgrades = self.groups.take_downgrades()
        for downgrade in self.downgrades:
            self.classic[downgrade.group_id] = downgrade

    def apply(self, key: bytes, value: bytes | None) -> None:
        record = decode(key, value)
        assert record is not None
        if not isinstance(record.key, GroupMetadataKey):
            self.groups.apply(record)
        elif record.value is None:
            self.classic.pop(record.key.group, None)
        else:
            assert isinstance(record.value, GroupMetadataValue)
            self.classic[record.key.group] = group_from(record.key.group, record.value)

    def restart(self) -> None:
        """Another coordinator takes over: it has the records and nothing else."""
        self._start()
        for key, value in self.log:
            self.apply(key, value)
        self.groups.on_loaded(self.now_ms)

    def _start(self) -> None:
        self.timers: Timers[Any] = Timers()
        self.groups = ConsumerGroups(
            self.settings,
            self.timers,
            self._random_bytes,
            lambda: self.image,
            lambda group_id: self.configs.get(group_id, {}),
            self.classic.get,
        )

    def _random_bytes(self, count: int) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(count, "big")

    def _change(self, name: str, **fields: Any) -> None:
        topics = fields["topics"]
        names = {state.topic_id: one for one, state in topics.items()}
        self.image = replace(self.image, offset=self.image.offset + 1, topic_names=names, **fields)
        self.groups.on_image([name], self.now_ms)


def state_of(groups: ConsumerGroups) -> dict[str, dict[str, Any]]:
    """All that groups keep, to be compared; what is volatile is left out."""
    states = {}
    for group_id, group in groups.groups.items():
        state = {name: value for name, value in vars(group).items() if name != "checked"}
        states[group_id] = {
            name: {one: value[one] for one in value} if isinstance(value, Tally) else value
            for name, value in state.items()
        }
    return states
