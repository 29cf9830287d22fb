"""What every handler can reach: the node's settings, its topics, and those who wait."""

from dataclasses import dataclass

from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.partition import Partition
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.settings import BrokerSettings
from penstock.broker.topics import Topic, Topics
from penstock.model.errors import UnknownTopicId, UnknownTopicOrPartition
from penstock.protocol.declare import NO_UUID
from penstock.world.clock import Clock, Entropy
from penstock.world.disk import AsyncDisk


@dataclass(slots=True)
class Broker:
    settings: BrokerSettings
    topics: Topics
    producer_ids: ProducerIds
    groups: GroupCoordinator
    clock: Clock
    entropy: Entropy
    async_disk: AsyncDisk

    def topic(self, name: str, topic_id: bytes) -> Topic:
        """By id where the request has one, else by name."""
        if topic_id != NO_UUID or not name:
            topic = self.topics.by_id(topic_id)
            if topic is None:
                raise UnknownTopicId("this server does not host this topic ID")
            return topic
        topic = self.topics.by_name(name)
        if topic is None:
            raise UnknownTopicOrPartition("this server does not host this topic-partition")
        return topic

    def partition(self, name: str, topic_id: bytes, index: int) -> Partition:
        partitions = self.topic(name, topic_id).partitions
        if not 0 <= index < len(partitions):
            raise UnknownTopicOrPartition("this server does not host this topic-partition")
        return partitions[index]
