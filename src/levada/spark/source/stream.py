"""The streaming reader: what each micro-batch reads, and the query as a consumer group."""

import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from levada.client.types import TopicPartition
from levada.spark.source.admission import is_too_little, limited
from levada.spark.source.bounds import EARLIEST, LATEST
from levada.spark.source.loss import DOUBT_SECONDS, Layout, begin, is_remade, report, resume
from levada.spark.source.offsets import NOT_STARTED, BatchProgress, Offsets, by_topic, parse_progress
from levada.spark.source.ranges import OffsetRange, SmallRanges, ranges_between, split, together
from levada.spark.source.settings import stream_settings
from levada.spark.worker_memory import keep_loaded

if TYPE_CHECKING:
    import pyarrow as pa

    from levada.spark.source.brokers import Brokers

IDLE_PAUSES_SECONDS = (0.01, 0.02, 0.04, 0.06, 0.07)
"""Spark asks an idle query's source for news every 10 ms; so its answer that there are none takes its time."""
LAYOUT_SECONDS = 1.0
"""So often new partitions and topics are looked for."""
DOUBT_PAUSE_SECONDS = 0.05


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes one in the driver's process and calls it there; others, made to be sent to tasks, only read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = stream_settings(options)
        self._brokers_if_used: Brokers | None = None
        self._layout: Layout | None = None
        self._layout_until = 0.0
        self._target: Offsets | None = None
        """Where a query that takes only what is there now will end."""
        self._latest: Offsets = {}
        self._last_batch_at = -float("inf")

    # Offsets

    def initialOffset(self) -> dict[str, Any]:
        return NOT_STARTED

    def getDefaultReadLimit(self) -> ReadLimit:
        settings = self._settings
        if settings.max_offsets is not None:
            return ReadMaxRows(settings.max_offsets)
        if settings.min_offsets is not None:
            return ReadMinRows(settings.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        layout = self._fresh_layout(())
        self._target = self._brokers.offsets(dict.fromkeys(layout.partitions, LATEST))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = parse_progress(start)
        if before is None:
            return self._first(limit).to_json()
        # Spark asks for the next batch when the one before is done.
        self._commit(before)
        following = self._following(before, limit)
        for pause in () if self._target is not None else IDLE_PAUSES_SECONDS:
            if following is not None:
                break
            time.sleep(pause)
            following = self._following(before, limit)
        return start if following is None else following.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return by_topic(self._latest) or None

    def commit(self, end: dict[str, Any]) -> None:
        done = parse_progress(end)
        if done is not None:
            self._commit(done)

    def stop(self) -> None:
        if self._brokers_if_used is not None:
            self._brokers_if_used.close()
            self._brokers_if_used = None

    # Reading

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """From what is in the checkpoint alone, so that a batch that is repeated has the same records or none."""
        until = parse_progress(end)
        if until is None or start == end:
            return []
        read = self._settings.read
        ranges = ranges_between(until.begin(parse_progress(start)), until.ends)
        parts = split(self._of_same_topics(ranges, until), read.min_partitions, read.max_records_per_partition)
        return parts if read.divides else together(parts)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        assert isinstance(partition, OffsetRange | SmallRanges)
        from levada.spark.source.reading import read_ranges

        keep_loaded()
        ranges = partition.ranges if isinstance(partition, SmallRanges) else (partition,)
        return read_ranges(ranges, self._settings.read)

    # Inside

    @property
    def _brokers(self) -> "Brokers":
        if self._brokers_if_used is None:
            from levada.spark.source.brokers import Brokers

            self._brokers_if_used = Brokers(self._settings.read)
        return self._brokers_if_used

    def _first(self, limit: ReadLimit) -> BatchProgress:
        """The end of the first batch, and with it where the query begins: Spark keeps both before it reads anything."""
        settings = self._settings
        layout = self._brokers.layout_at_start(settings.read.selection)
        wanted = self._brokers.resolve(
            settings.read.start, layout.partitions, late_is_end=settings.read.starts_late_at_end
        )
        # Asked for after the start, so that it is not before it.
        latest = self._ends(layout.partitions)
        starts, losses = begin(wanted, self._earliest(layout.partitions), self._latest)
        if self._brokers.layout(settings.read.selection).topic_ids != layout.topic_ids:
            # Made again meanwhile: whose offsets these are is not known.
            return self._first(limit)
        report(losses, fails=settings.read.fails_on_data_loss)
        ends = {each: max(latest.get(each, start), start) for each, start in starts.items()}
        admitted = self._admitted(starts, ends, limit)
        assert admitted is not None, "nothing waits before the first batch"
        group_id = settings.group_id or f"{settings.group_id_prefix}-{uuid.uuid4()}"
        return self._batch(BatchProgress(group_id, admitted, starts, layout.topic_ids))

    def _following(self, before: BatchProgress, limit: ReadLimit) -> BatchProgress | None:
        """The end of the next batch; None if there is none yet."""
        known = self._known_layout(before)
        latest = self._ends(known.partitions)
        if latest == before.ends and known.only(latest.keys()).topic_ids == before.topic_ids:
            return None
        layout, earliest, latest = self._settled(before)
        going_on = resume(before, layout, earliest, latest)
        latest = {each: latest[each] for each in going_on.starts}
        admitted = self._admitted(going_on.starts, latest, limit)
        if admitted is None:
            return None
        report(going_on.losses, fails=self._settings.read.fails_on_data_loss)
        return self._batch(BatchProgress(self._group_of(before), admitted, going_on.moved, layout.topic_ids))

    def _of_same_topics(self, ranges: list[OffsetRange], until: BatchProgress) -> list[OffsetRange]:
        """Without those of a topic that was made again since: its records are gone, and the new one's come later."""
        now = self._known_layout(until)
        remade = {each.topic for each in ranges if is_remade(each.topic, until, now)}
        losses = [f"{topic} was deleted and made again: its records of this batch are gone" for topic in sorted(remade)]
        report(losses, fails=self._settings.read.fails_on_data_loss)
        return [each for each in ranges if each.topic not in remade]

    def _settled(self, before: BatchProgress) -> tuple[Layout, Offsets, Offsets]:
        """The partitions with their first and last offsets, all of the topics whose ids stand in the layout.

        Offsets are asked for by name: those of a topic that was made again would go under the old one's id, and its
        records be read once more when the new id shows.
        """
        deadline = time.monotonic() + DOUBT_SECONDS
        layout = self._fresh_layout(before.ends.keys())
        while True:
            earliest, latest = self._earliest(layout.partitions), self._ends(layout.partitions)
            later = self._fresh_layout(layout.partitions)
            is_whole = layout.partitions <= earliest.keys() & self._latest.keys()
            if later.topic_ids == layout.topic_ids and (is_whole or time.monotonic() > deadline):
                return layout.only(latest.keys()), earliest, latest
            time.sleep(DOUBT_PAUSE_SECONDS)
            layout = later

    def _group_of(self, progress: BatchProgress) -> str:
        return self._settings.group_id or progress.group_id

    def _batch(self, progress: BatchProgress) -> BatchProgress:
        self._last_batch_at = time.monotonic()
        return progress

    def _earliest(self, partitions: frozenset[TopicPartition]) -> Offsets:
        return self._brokers.offsets(dict.fromkeys(partitions, EARLIEST))

    def _admitted(self, starts: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets | None:
        settings = self._settings
        if isinstance(limit, ReadAllAvailable):
            return latest
        waited_ms = (time.monotonic() - self._last_batch_at) * 1_000
        if self._target is None and is_too_little(
            settings.min_offsets, starts, latest, waited_ms=waited_ms, max_wait_ms=settings.max_trigger_delay_ms
        ):
            return None
        return limited(limit.max_rows, starts, latest) if isinstance(limit, ReadMaxRows) else latest

    def _ends(self, partitions: frozenset[TopicPartition]) -> Offsets:
        self._latest = self._brokers.offsets(dict.fromkeys(partitions, LATEST))
        if self._target is None:
            return self._latest
        return {each: min(end, self._target[each]) for each, end in self._latest.items() if each in self._target}

    def _known_layout(self, before: BatchProgress) -> Layout:
        if self._layout is None or time.monotonic() >= self._layout_until:
            return self._fresh_layout(before.ends.keys())
        return self._layout

    def _fresh_layout(self, known: Collection[TopicPartition]) -> Layout:
        self._layout = self._brokers.layout(self._settings.read.selection, known=known)
        self._layout_until = time.monotonic() + LAYOUT_SECONDS
        return self._layout

    def _commit(self, done: BatchProgress) -> None:
        if self._settings.commits_offsets:
            # The last batch of what is there now may be over, and this process with it, before a thread gets to it.
            self._brokers.commit(self._group_of(done), done.ends, waits=self._target is not None)
