"""How far a query is in its topics, and the JSON in which Spark keeps that in the checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from levada.client.types import TopicPartition

GROUP = "~group"
STARTS = "~starts"
TOPIC_IDS = "~ids"
"""No topic's name can have a `~`, so these names cannot be those of topics."""

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Where a micro-batch ends.

    Spark writes it to the checkpoint before the batch runs and hands it over again when the batch is repeated. So all
    that a batch depends on and that could come out differently the next time is in it.
    """

    group_id: str
    ends: Offsets
    """The next record to read of each partition."""
    starts: Offsets = field(default_factory=dict)
    """Where this batch begins in partitions that it does not simply read on: all in the first, new ones later."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """A topic that was deleted and made again has another one."""

    def to_json(self) -> dict[str, Any]:
        """Spark compares offsets as text, so equal ones must have their keys in the same order."""
        found: dict[str, Any] = {GROUP: self.group_id}
        if self.topic_ids:
            found[TOPIC_IDS] = {name: self.topic_ids[name] for name in sorted(self.topic_ids)}
        if self.starts:
            found[STARTS] = by_topic(self.starts)
        return found | by_topic(self.ends)

    def begin(self, before: "BatchProgress | None") -> Offsets:
        """Where the batch that ends here begins in each of its partitions, after the batch before it."""
        read = before.ends if before is not None else {}
        return {partition: self.starts.get(partition, read.get(partition, end)) for partition, end in self.ends.items()}


NOT_STARTED: dict[str, Any] = {}
"""What `initialOffset` says: it is called more than once, and again for a repeated batch, so it decides nothing."""


def parse_progress(found: Mapping[str, Any]) -> BatchProgress | None:
    """What Spark hands over: a batch's end, or None for the sentinel of a query that has not begun."""
    if not found:
        return None
    return BatchProgress(
        group_id=found[GROUP],
        ends=_flat({name: each for name, each in found.items() if not name.startswith("~")}),
        starts=_flat(found.get(STARTS, {})),
        topic_ids=found.get(TOPIC_IDS, {}),
    )


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        nested.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, offsets in nested.items()
        for partition, offset in offsets.items()
    }
