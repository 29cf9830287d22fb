"""What a group has to know of its topics: their ids, and a number that changes with anything an assignment rests on."""

from collections.abc import Iterable
from hashlib import blake2b

from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.member import ConsumerGroupMember
from levada.metadata.image import Image, TopicState

NO_TOPICS = 0
"""The hash of a group none of whose topics exists."""

HASH_SIZE = 8


class TopicHashes:
    """The hash of each topic that a group has asked for, as long as the topic does not change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicState, bytes]] = {}

    def of_group(self, names: Iterable[str], image: Image) -> int:
        """One number for all topics that exist (KIP-1101); only this coordinator reads it."""
        topics = [image.topics[name] for name in sorted(names) if name in image.topics]
        if not topics:
            return NO_TOPICS
        digest = blake2b(digest_size=HASH_SIZE)
        for topic in topics:
            digest.update(self._of_topic(topic, image))
        return int.from_bytes(digest.digest(), "big", signed=True)

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._known.pop(name, None)

    def _of_topic(self, topic: TopicState, image: Image) -> bytes:
        known = self._known.get(topic.name)
        # Images share what did not change, so another object is another state of the topic.
        if known is not None and known[0] is topic:
            return known[1]
        digest = blake2b(topic.topic_id, digest_size=HASH_SIZE)
        digest.update(len(topic.partitions).to_bytes(4, "big"))
        for partition in topic.partitions:
            brokers = (image.brokers.get(replica) for replica in partition.replicas)
            racks = sorted({broker.rack for broker in brokers if broker is not None and broker.rack is not None})
            digest.update(repr((partition.index, racks)).encode())
        hashed = digest.digest()
        self._known[topic.name] = topic, hashed
        return hashed


def subscribed_ids(group: ConsumerGroup, member: ConsumerGroupMember, image: Image) -> dict[bytes, None]:
    """Ids of the topics that a member has subscribed to, by name or by what its regular expression has matched."""
    names: Iterable[str] = member.topic_names
    resolved = group.resolved.get(member.topic_regex) if member.topic_regex else None
    if resolved is not None:
        names = (*names, *resolved.topics)
    return {image.topics[name].topic_id: None for name in names if name in image.topics}
