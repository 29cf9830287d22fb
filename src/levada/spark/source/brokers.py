"""What the driver asks brokers: which partitions there are, where they begin and end, and to keep a group's offsets."""

import time
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from levada import Admin
from levada.client.admin import IsolationLevel
from levada.client.options.admin_keys import ADMIN_KEYS
from levada.client.types import TopicPartition
from levada.spark.options import OptionError
from levada.spark.source.bounds import LATEST, Bound, check_covers, questions
from levada.spark.source.committing import NOT_THERE, OffsetCommitter
from levada.spark.source.loss import DOUBT_SECONDS, Layout
from levada.spark.source.offsets import Offsets
from levada.spark.source.settings import Names, Partitions, Pattern, ReadSettings, Selection

DOUBT_PAUSE_SECONDS = 0.2


class Brokers:
    """A client of the driver's; made when it is needed, closed with `close` or at the end of its `with` block."""

    def __init__(self, settings: ReadSettings) -> None:
        known = {key.name for key in ADMIN_KEYS}
        self._admin = Admin(None, **{name: value for name, value in settings.client.items() if name in known})
        self._isolation = (
            IsolationLevel.READ_COMMITTED if settings.is_committed_only else IsolationLevel.READ_UNCOMMITTED
        )
        self._committer = OffsetCommitter(self._admin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._committer.close()
        self._admin.close()

    def layout(self, selection: Selection, *, known: Collection[TopicPartition] = ()) -> Layout:
        """The partitions that are there of those that are to be read.

        Those that are `known` are asked for again for a while before they count as gone.
        """
        deadline = time.monotonic() + DOUBT_SECONDS
        while True:
            found = self._layout(selection)
            if found.partitions.issuperset(known) or time.monotonic() > deadline:
                return found
            time.sleep(DOUBT_PAUSE_SECONDS)

    def layout_at_start(self, selection: Selection) -> Layout:
        """The same when a read begins: topics and partitions that are named must be there."""
        layout = self.layout(selection)
        if missing := _missing(selection, layout):
            # Just made, perhaps, and not known everywhere.
            time.sleep(DOUBT_PAUSE_SECONDS)
            layout = self.layout(selection)
            missing = _missing(selection, layout)
        if missing:
            raise OptionError(missing)
        return layout

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The offset at each place or time; without the partitions that are gone, -1 where no record is so young."""
        if not wanted:
            return {}
        outcomes = self._admin.list_offsets(wanted, isolation_level=self._isolation)
        for error in outcomes.errors.values():
            if error.code not in NOT_THERE:
                raise error
        return {partition: listed.offset for partition, listed in outcomes.done.items()}

    def resolve(self, bound: Bound, partitions: Collection[TopicPartition], *, late_is_end: bool) -> Offsets:
        """The offsets that a bound stands for now."""
        check_covers(bound, partitions)
        offsets, wanted = questions(bound, partitions)
        found = self.offsets(wanted)
        late = [partition for partition, offset in found.items() if offset < 0]
        if late and not late_is_end:
            raise OptionError(
                f"no record of {late[0]} is as young as the starting time {wanted[late[0]]}: "
                "set option startingOffsetsByTimestampStrategy to latest to begin at the end there"
            )
        return offsets | found | self.offsets(dict.fromkeys(late, LATEST))

    def commit(self, group_id: str, offsets: Offsets, *, waits: bool) -> None:
        """Tell Kafka's tools how far the query is."""
        if waits:
            self._committer.commit_now(group_id, offsets)
        else:
            self._committer.commit(group_id, offsets)

    def _layout(self, selection: Selection) -> Layout:
        match selection:
            case Names(names):
                topics = names
            case Pattern(pattern):
                topics = frozenset(name for name in self._admin.list_topics() if pattern.fullmatch(name))
            case Partitions(partitions):
                topics = frozenset(partition.topic for partition in partitions)
        if not topics:
            return Layout(frozenset())
        outcomes = self._admin.describe_topics(sorted(topics))
        for error in outcomes.errors.values():
            if error.code not in NOT_THERE:
                raise error
        there = outcomes.done.values()
        found = frozenset(TopicPartition(topic.name, each.index) for topic in there for each in topic.partitions)
        if isinstance(selection, Partitions):
            found &= selection.partitions
        return Layout(found, {topic.name: str(topic.topic_id) for topic in there if topic.topic_id is not None})


def _missing(selection: Selection, layout: Layout) -> str | None:
    there = {partition.topic for partition in layout.partitions}
    match selection:
        case Names(names) if absent := sorted(names - there):
            return f"topic {absent[0]!r} is not there: create it, or use option 'subscribePattern' to wait for it"
        case Partitions(partitions) if gone := sorted(partitions - layout.partitions):
            return f"partition {gone[0]} is not there: option 'assign' must name partitions that exist"
        case _:
            return None
