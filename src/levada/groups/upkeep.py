"""What is looked at and written bit by bit: offsets that are kept no longer, and groups that have none left.

A group may have a hundred thousand offsets, and a coordinator as many groups; requests must not wait for all of them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from levada.coordination.decision import Record
from levada.groups.offsets import NEVER, CommittedOffset, Offsets, Topics

CHORE_SIZE = 500
"""Ends of offsets in a batch: few enough to fit one, and not to keep others waiting."""
PORTION_SIZE = CHORE_SIZE // 2
"""Places that one chore looks at before what it found is written."""
LOOKS_AT_ONCE = 2_500
"""Places in a turn, also where nothing is found: some milliseconds."""


class Portion(NamedTuple):
    records: list[Record]
    looks: int
    is_last: bool


class Chore(Protocol):
    def next_portion(self) -> Portion:
        """What is to be written next; what it gave before is applied by now."""
        ...


class Chores:
    """Takes a portion of one chore after the other, for one batch at a time."""

    def __init__(self) -> None:
        self._begun: deque[Chore] = deque()
        self._coming: deque[Iterator[Chore]] = deque()

    def __bool__(self) -> bool:
        return bool(self._begun or self._coming)

    def add(self, chores: Iterable[Chore]) -> None:
        self._coming.append(iter(chores))

    def next_records(self) -> list[Record]:
        """What is to be written in this turn; nothing may have been found so far."""
        records: list[Record] = []
        going_on: list[Chore] = []
        looks = 0
        while looks < LOOKS_AT_ONCE and len(records) + PORTION_SIZE <= CHORE_SIZE:
            chore = self._next()
            if chore is None:
                break
            portion = chore.next_portion()
            records += portion.records
            looks += 1 + portion.looks
            if not portion.is_last:
                going_on.append(chore)
        self._begun.extendleft(reversed(going_on))
        return records

    def _next(self) -> Chore | None:
        if self._begun:
            return self._begun.popleft()
        while self._coming:
            chore = next(self._coming[0], None)
            if chore is not None:
                return chore
            self._coming.popleft()
        return None


class TopicDeletion:
    """Ends what was committed for a topic before it was deleted, by all groups."""

    def __init__(self, offsets: Offsets, name: str, topics: Callable[[], Topics], deleted_ms: int) -> None:
        self._offsets = offsets
        self._name = name
        self._topics = topics
        self._deleted_ms = deleted_ms
        self._places = self._all_places()

    def next_portion(self) -> Portion:
        places = list(islice(self._places, PORTION_SIZE))
        now_named = self._topics().get(self._name)
        ends = [self._offsets.end_if_deleted(*place, now_named, self._deleted_ms) for place in places]
        return Portion([one for one in ends if one is not None], len(places), len(places) < PORTION_SIZE)

    def _all_places(self) -> Iterator[tuple[str, str, int]]:
        for group_id in self._offsets.groups_with(self._name):
            for partition in self._offsets.partitions_of(group_id, self._name):
                yield group_id, self._name, partition


class GroupRules(NamedTuple):
    """How the offsets of a group age, as the group is now."""

    since_ms: Callable[[str, CommittedOffset], int | None]
    """From when on an offset is kept for the retention time; None for one in use."""
    end: list[Record]
    """Of the group itself, if it goes with its last offset."""
    topics: Topics | None = None
    """All there are; None while they are not known, and no offset is taken for one of a deleted topic."""


class GroupCleanup:
    """Ends the offsets of a group that were kept for long enough, and with its last one a group that is not in use.

    It ends those of deleted topics as well: when a topic was deleted, their ends may not have been written.
    """

    def __init__(
        self, offsets: Offsets, group_id: str, rules: Callable[[str], GroupRules | None], retention_ms: int, now_ms: int
    ) -> None:
        self._offsets = offsets
        self._group_id = group_id
        self._rules = rules
        self._retention_ms = retention_ms
        self._now_ms = now_ms
        self._places: Iterator[tuple[str, int]] | None = None

    def next_portion(self) -> Portion:
        rules = self._rules(self._group_id)
        if rules is None:
            return Portion([], 0, is_last=True)
        if self._places is None:
            self._places = self._offsets.places_of(self._group_id)
        places = list(islice(self._places, PORTION_SIZE))
        records = self._offsets.ends_of(self._group_id, places, partial(self._is_over, rules))
        is_last = len(places) < PORTION_SIZE
        if is_last and len(records) == self._offsets.count_of(self._group_id):
            records += rules.end
        return Portion(records, len(places), is_last)

    def _is_over(self, rules: GroupRules, topic: str, committed: CommittedOffset) -> bool:
        if rules.topics is not None and not committed.belongs_to(rules.topics.get(topic)):
            return True
        since_ms = rules.since_ms(topic, committed)
        if since_ms is None:
            return False
        if committed.expires_ms != NEVER:
            return self._now_ms >= committed.expires_ms
        return self._now_ms - since_ms >= self._retention_ms
