"""What a query cannot read any more: said in one line, and either an error or a warning."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from levada.client.types import TopicPartition
from levada.spark.source.offsets import BatchProgress, Offsets
from levada.spark.source.ranges import OffsetRange

logger = logging.getLogger("levada.spark")

DOUBT_SECONDS = 2.0
"""So long a topic or a partition's offsets may be missing before they count as gone: a broker that just came up may not
know them yet, or they are on their way in or out."""
ADVICE = "set option failOnDataLoss to false to go on with what is there"


class DataLoss(ValueError):
    """Records that were to be read are gone; the text is one line that says which."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The partitions that are to be read, as they are now."""

    partitions: frozenset[TopicPartition]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def only(self, partitions: Collection[TopicPartition]) -> "Layout":
        """Without the others, and without the topics that have none of these."""
        topics = {partition.topic for partition in partitions}
        ids = {topic: its_id for topic, its_id in self.topic_ids.items() if topic in topics}
        return Layout(self.partitions.intersection(partitions), ids)


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a query goes on after a batch."""

    starts: Offsets
    """Where it goes on in all partitions that are there."""
    moved: Offsets
    """Those among them where it does not simply read on."""
    losses: list[str]


def resume(before: BatchProgress, now: Layout, earliest: Mapping[TopicPartition, int], latest: Offsets) -> Resumption:
    """Compare where a query is with what there is; what is new or was made anew is read from its beginning."""
    losses = [
        f"{gone}, read up to offset {before.ends[gone]}, is gone, or not among what is read any more"
        for gone in sorted(before.ends)
        if gone not in now.partitions
    ]
    moved: Offsets = {}
    there = sorted(now.partitions & earliest.keys() & latest.keys())
    for partition in there:
        first, end = earliest[partition], latest[partition]
        read = before.ends.get(partition)
        loss = _loss(partition, read, first, end, is_remade=is_remade(partition.topic, before, now))
        if loss is not None:
            losses.append(loss)
        if loss is not None or read is None:
            # What is left of a log that is known to be the same one has been read.
            is_cut_off = read is not None and end < read and _is_same(partition.topic, before, now)
            moved[partition] = end if is_cut_off else first
    starts = {each: moved[each] if each in moved else before.ends[each] for each in there}
    return Resumption(starts, moved, losses)


def begin(starts: Offsets, earliest: Offsets, latest: Offsets) -> tuple[Offsets, list[str]]:
    """Where a new query begins, and what of its beginning is not there."""
    # A partition that went away just now is missing in one of them; the next batch will tell.
    known = sorted(starts.keys() & earliest.keys() & latest.keys())
    losses = [
        f"{each} has no offset {starts[each]} to begin at; it has offsets {earliest[each]} to {latest[each]}"
        for each in known
        if not earliest[each] <= starts[each] <= latest[each]
    ]
    there = {each: min(max(starts[each], earliest[each]), latest[each]) for each in known}
    return there, losses


def within_log(
    starts: Offsets, ends: Offsets, earliest: Offsets, latest: Offsets
) -> tuple[list[OffsetRange], list[str]]:
    """What there is of the ranges that are wanted, and what is not there."""
    losses: list[str] = []
    found: list[OffsetRange] = []
    for partition in sorted(starts.keys() & ends.keys() & earliest.keys() & latest.keys()):
        start, end = starts[partition], ends[partition]
        first, last = earliest[partition], latest[partition]
        if start < first:
            losses.append(f"offsets {start} to {first - 1} of {partition} are deleted; it begins at offset {first}")
        if max(start, end) > last:
            losses.append(f"{partition} has no offset {max(start, end) - 1}; it ends at offset {last}")
        there = OffsetRange(*partition, max(start, first), min(end, last))
        if there.size > 0:
            found.append(there)
    return found, losses


def report(losses: list[str], *, fails: bool) -> None:
    """Raise the first; or warn of all of them."""
    if losses and fails:
        more = f" (and {len(losses) - 1} more)" if len(losses) > 1 else ""
        raise DataLoss(f"data loss: {losses[0]}{more}; {ADVICE}")
    for loss in losses:
        logger.warning("data loss: %s; going on with what is there", loss)


def _loss(partition: TopicPartition, read: int | None, first: int, end: int, *, is_remade: bool) -> str | None:
    if read is None:
        return (
            f"{partition} is new and begins at offset {first}, not 0: records before it are deleted" if first else None
        )
    if is_remade:
        return f"{partition}, read up to offset {read}, was deleted and made again; it has offsets {first} to {end}"
    if end < read:
        return f"{partition} was read up to offset {read} and ends at offset {end}: it was cut off or made again"
    if read < first:
        return f"offsets {read} to {first - 1} of {partition} are deleted; it begins at offset {first}"
    return None


def is_remade(topic: str, before: BatchProgress, now: Layout) -> bool:
    """Whether the topic of that name is another one now."""
    old, new = before.topic_ids.get(topic), now.topic_ids.get(topic)
    return old is not None and new is not None and old != new


def _is_same(topic: str, before: BatchProgress, now: Layout) -> bool:
    """Brokers without topic ids leave that open."""
    return before.topic_ids.get(topic) is not None and before.topic_ids.get(topic) == now.topic_ids.get(topic)
