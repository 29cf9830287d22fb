"""What a member of a new-protocol group tells its coordinator: all of it at first, later what has changed (KIP-848)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from levada.client.consumer.subscription import Mode, Subscriptions
from levada.client.options import Options
from levada.client.types import TopicPartition
from levada.protocol.messages.consumer_group_heartbeat import (
    PATTERNS_SINCE,
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)

JOINING, LEAVING, LEAVING_FOR_NOW = 0, -1, -2

NO_PATTERN = ""


@dataclass(frozen=True, slots=True)
class SentFields:
    """The parts that a coordinator remembers."""

    names: Sequence[str]
    pattern: str | None
    owned: Sequence[tuple[bytes, Sequence[int]]]


@dataclass(slots=True)
class Kip848Report:
    """Builds heartbeats; whatever was not answered is sent again, with everything else."""

    options: Options
    subscriptions: Subscriptions
    ids: dict[TopicPartition, bytes] = field(default_factory=dict)
    """The topic ids of the partitions that are owned."""
    _known: SentFields | None = None
    """What the coordinator has answered to."""

    def forget(self) -> None:
        self._known = None

    def now(self) -> SentFields:
        """What there is to say."""
        subscriptions = self.subscriptions
        names = [] if subscriptions.mode is Mode.SERVER_PATTERN else sorted(subscriptions.topics)
        owned: dict[bytes, list[int]] = {}
        for partition, topic_id in sorted(self.ids.items()):
            owned.setdefault(topic_id, []).append(partition.partition)
        return SentFields(names, subscriptions.server_pattern, list(owned.items()))

    def is_behind(self) -> bool:
        """Whether there is more to say than the coordinator has heard."""
        return self._known is not None and self.now() != self._known

    def answered(self, sent: SentFields) -> None:
        self._known = sent

    def heartbeat(
        self, sent: SentFields, group_id: str, member_id: str, epoch: int, version: int
    ) -> ConsumerGroupHeartbeatRequest:
        known = self._known if epoch != JOINING else None
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=self.options["group.instance.id"],
        )
        if known is None:
            request.rack_id = self.options["client.rack"] or None
            request.rebalance_timeout_ms = self.options["max.poll.interval.ms"]
            request.server_assignor = self.options["group.remote.assignor"]
        if known is None or known.names != sent.names:
            request.subscribed_topic_names = list(sent.names)
        if version >= PATTERNS_SINCE and sent.pattern != (None if known is None else known.pattern):
            # Only an empty one takes the pattern back that was sent before.
            request.subscribed_topic_regex = sent.pattern or NO_PATTERN
        if known is None or known.owned != sent.owned:
            request.topic_partitions = [
                RequestTopicPartitions(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in sent.owned
            ]
        return request
