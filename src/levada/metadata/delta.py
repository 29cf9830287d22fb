"""What a batch of records changes in an image."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from levada.metadata.image import TOPIC, BrokerState, Image, PartitionState, Resource, TopicState
from levada.metadata.records import (
    FENCED,
    NO_CHANGE,
    UNFENCED,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)


class InvalidRecordOrder(Exception):
    """A record that does not fit the image it is applied to: the log is not what its writer thought."""


class Delta:
    """Applies records one after the other, and says which things they touched."""

    def __init__(self, image: Image) -> None:
        self.before = image
        self.touched_topics: dict[bytes, None] = {}
        """Ids of topics that were created or changed, and are still there."""
        self.removed_topics: dict[bytes, TopicState] = {}
        self.touched_configs: dict[Resource, None] = {}
        self.touched_brokers: dict[int, None] = {}
        self._brokers = dict(image.brokers)
        self._topics = dict(image.topics)
        self._names = dict(image.topic_names)
        self._partitions: dict[bytes, list[PartitionState]] = {}
        self._configs: dict[Resource, dict[str, str]] = {}
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id

    @classmethod
    def between(cls, before: Image, after: Image) -> "Delta":
        """What is another in an image that did not come of single records: a reader has fallen behind the log."""
        delta = cls(before)
        for topic in after.topics.values():
            if before.topic_by_id(topic.topic_id) != topic:
                delta.touched_topics[topic.topic_id] = None
        for topic in before.topics.values():
            if after.topic_by_id(topic.topic_id) is None:
                delta.removed_topics[topic.topic_id] = topic
        for resource in {**before.configs, **after.configs}:
            if before.configs.get(resource) != after.configs.get(resource):
                delta.touched_configs[resource] = None
        for broker_id in {**before.brokers, **after.brokers}:
            if before.brokers.get(broker_id) != after.brokers.get(broker_id):
                delta.touched_brokers[broker_id] = None
        return delta

    def replay(self, records: Iterable[MetadataRecord]) -> "Delta":
        for record in records:
            _REPLAY[type(record)](self, record)
        return self

    def image(self, offset: int) -> Image:
        """The image after these records, the last of which has this offset."""
        for topic_id, partitions in self._partitions.items():
            name = self._names[topic_id]
            self._topics[name] = replace(self._topics[name], partitions=tuple(partitions))
        configs = {**self.before.configs, **self._configs}
        return Image(
            offset=offset,
            brokers=self._brokers,
            topics=self._topics,
            topic_names=self._names,
            configs={resource: values for resource, values in configs.items() if values},
            features=self._features,
            next_producer_id=self._next_producer_id,
        )

    def _topic(self, record: TopicRecord) -> None:
        if record.name in self._topics:
            raise InvalidRecordOrder(f"topic {record.name} is there already")
        if record.topic_id in self._names:
            raise InvalidRecordOrder(f"topic id {record.topic_id.hex()} is taken")
        self._topics[record.name] = TopicState(record.name, record.topic_id)
        self._names[record.topic_id] = record.name
        self.touched_topics[record.topic_id] = None

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._name_of(record.topic_id)
        topic = self._topics.pop(name)
        del self._names[record.topic_id]
        self._partitions.pop(record.topic_id, None)
        self.touched_topics.pop(record.topic_id, None)
        if record.topic_id in self.before.topic_names:
            self.removed_topics[record.topic_id] = self.before.topics[topic.name]
        resource = Resource(TOPIC, name)
        if resource in self.before.configs or resource in self._configs:
            self._configs[resource] = {}
            self.touched_configs[resource] = None

    def _partition(self, record: PartitionRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        state = PartitionState(
            index=record.partition_id,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing=tuple(record.removing_replicas),
            adding=tuple(record.adding_replicas),
            directories=tuple(record.directories),
            eligible=tuple(record.eligible_leader_replicas or ()),
            last_known_eligible=tuple(record.last_known_elr or ()),
            is_recovering=record.leader_recovery_state == 1,
        )
        if 0 <= record.partition_id < len(partitions):
            partitions[record.partition_id] = state
        elif record.partition_id == len(partitions):
            partitions.append(state)
        else:
            raise InvalidRecordOrder(f"partition {record.partition_id} comes after {len(partitions)} others")

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        if not 0 <= record.partition_id < len(partitions):
            raise InvalidRecordOrder(f"a change of partition {record.partition_id}, which is not there")
        before = partitions[record.partition_id]
        changes: dict[str, Any] = {
            name: tuple(value)
            for name, value in (
                ("isr", record.isr),
                ("replicas", record.replicas),
                ("removing", record.removing_replicas),
                ("adding", record.adding_replicas),
                ("directories", record.directories),
                ("eligible", record.eligible_leader_replicas),
                ("last_known_eligible", record.last_known_elr),
            )
            if value is not None
        }
        if record.leader != NO_CHANGE:
            # A leader is always elected into a new epoch, also when it is the same one.
            changes |= {"leader": record.leader, "leader_epoch": before.leader_epoch + 1}
        if record.leader_recovery_state >= 0:
            changes["is_recovering"] = record.leader_recovery_state == 1
        partitions[record.partition_id] = replace(before, partition_epoch=before.partition_epoch + 1, **changes)

    def _config(self, record: ConfigRecord) -> None:
        resource = Resource(record.resource_type, record.resource_name)
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self.before.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        self.touched_configs[resource] = None

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = BrokerState(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=tuple(record.end_points),
            features=tuple(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            is_shutting_down=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
        )
        self.touched_brokers[record.broker_id] = None

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._brokers.get(record.broker_id)
        if broker is None or broker.epoch != record.broker_epoch:
            raise InvalidRecordOrder(f"a change of broker {record.broker_id} epoch {record.broker_epoch}")
        changes: dict[str, Any] = {}
        if record.fenced in (FENCED, UNFENCED):
            changes["is_fenced"] = record.fenced == FENCED
        if record.in_controlled_shutdown == 1:
            changes["is_shutting_down"] = True
        if record.log_dirs:
            changes["log_dirs"] = tuple(record.log_dirs)
        self._brokers[record.broker_id] = replace(broker, **changes)
        self.touched_brokers[record.broker_id] = None

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._brokers.pop(record.broker_id, None)
        self.touched_brokers[record.broker_id] = None

    def _feature(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self._features[record.name] = record.feature_level
        else:
            self._features.pop(record.name, None)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    def _partitions_of(self, topic_id: bytes) -> list[PartitionState]:
        if topic_id not in self._partitions:
            self._partitions[topic_id] = list(self._topics[self._name_of(topic_id)].partitions)
            self.touched_topics[topic_id] = None
        return self._partitions[topic_id]

    def _name_of(self, topic_id: bytes) -> str:
        name = self._names.get(topic_id)
        if name is None:
            raise InvalidRecordOrder(f"a record of topic {topic_id.hex()}, which is not there")
        return name


_REPLAY: dict[type[MetadataRecord], Callable[[Delta, Any], None]] = {
    TopicRecord: Delta._topic,
    RemoveTopicRecord: Delta._remove_topic,
    PartitionRecord: Delta._partition,
    PartitionChangeRecord: Delta._partition_change,
    ConfigRecord: Delta._config,
    RegisterBrokerRecord: Delta._register_broker,
    BrokerRegistrationChangeRecord: Delta._change_broker,
    UnregisterBrokerRecord: Delta._unregister_broker,
    FeatureLevelRecord: Delta._feature,
    ProducerIdsRecord: Delta._producer_ids,
}


def apply(image: Image, records: Iterable[MetadataRecord], offset: int) -> Image:
    """The image after these records."""
    return Delta(image).replay(records).image(offset)
