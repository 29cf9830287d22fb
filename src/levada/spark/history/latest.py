"""How far each key of a stream of changes is, kept in Spark's state by groups of keys; runs in Spark's workers."""

import pickle
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

BUCKET = "_bucket"
FIRST_HASH, SECOND_HASH = "_first_hash", "_second_hash"
"""Two hashes of 64 bits stand for a key: among a billion keys two look alike once in 10^20 times."""
KEY_TEXT = "_key_text"
PLACE = "_place"
"""The partition that all changes of a key must share; null where it does not matter."""
IS_REJECTED = "_is_rejected"
IS_DELETED = "_is_deleted"
TIME = "_time"
"""Microseconds, of the row's own time; there only where keys are forgotten."""
NO_TIME = -(2**63)
ORDER = "_order_"
"""And a number: the values that order changes, the most significant first."""
STATE = "applied binary"


Applied = tuple[tuple[Any, ...], str | None, bool, int | None]
"""The last change of a key: its order, its place, whether it deleted, and the group's clock then, in microseconds.

The clock is None where nothing was to be forgotten yet. Plain tuples, as a class takes ten times as long to read back.
"""


@dataclass(slots=True)
class KeyGroup:
    """What is remembered of a group of keys."""

    keys: dict[tuple[int, int], Applied] = field(default_factory=dict)
    clock_us: int | None = None
    """The latest time of a row so far, but never ahead of the batch that brought it."""

    def dumps(self) -> bytes:
        return pickle.dumps((self.clock_us, self.keys), protocol=5)

    @classmethod
    def loads(cls, data: bytes) -> "KeyGroup":
        found = pickle.loads(data)
        if isinstance(found, dict):
            # Checkpoints from before keys could be forgotten have the keys alone, without what became of them.
            return cls({key: (order, place, False, None) for key, (order, place) in found.items()})
        clock_us, keys = found
        return cls(keys, clock_us)


class ScatteredKey(ValueError):
    """Changes of one key are in several partitions, where offsets do not order them."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """How long keys are remembered after their last change, by the clock of their group; None is for ever."""

    deleted_after_us: int | None = None
    after_us: int | None = None

    @property
    def is_on(self) -> bool:
        return self.deleted_after_us is not None or self.after_us is not None

    def forget(self, group: KeyGroup, rows: pd.DataFrame, batch_us: int) -> None:
        """Set the group's clock on by the rows of a batch that was applied, and leave out what is too old by it.

        The time of the rows is the clock, so that a query that stood still forgets nothing before it has read what came
        meanwhile; and no row is ahead of its batch, so that one wrong date in the future does not make it forget all.
        Spark notes the time of a batch before it runs it: one that is run again comes to the same.
        """
        good = rows[TIME][~rows[IS_REJECTED].astype(bool)]
        if good.empty:
            return
        # A row without a time is as old as its batch.
        newest_us = batch_us if (good == NO_TIME).any() else min(int(good.max()), batch_us)
        clock_us = newest_us if group.clock_us is None else max(group.clock_us, newest_us)
        group.clock_us = clock_us
        kept: dict[tuple[int, int], Applied] = {}
        for key, (order, place, is_deleted, at_us) in group.keys.items():
            # A key that is new, or from before anything was to be forgotten, is remembered from here on.
            since_us = clock_us if at_us is None else at_us
            if not self._is_over(clock_us - since_us, is_deleted):
                kept[key] = (order, place, is_deleted, since_us)
        group.keys = kept

    def _is_over(self, age_us: int, is_deleted: bool) -> bool:
        if is_deleted and self.deleted_after_us is not None and age_us > self.deleted_after_us:
            return True
        return self.after_us is not None and age_us > self.after_us


@dataclass(frozen=True, slots=True)
class LatestChange:
    """The function of a group of keys that Spark calls with the rows of a micro-batch and with its state."""

    order_count: int
    columns: tuple[str, ...]
    """Those that go on."""
    forgetting: Forgetting = Forgetting()

    # Spark asks a function for these.
    __name__ = "latest_change"

    def __call__(self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        # Spark joins what we yield with an empty frame, for which pandas warns on every call.
        warnings.filterwarnings("ignore", category=FutureWarning, message=".*concatenation with empty.*")
        group = KeyGroup.loads(state.get[0]) if state.exists else KeyGroup()
        rows = pd.concat(list(frames), ignore_index=True)
        passed = self.advance(group, rows)
        if self.forgetting.is_on:
            self.forgetting.forget(group, rows, state.getCurrentProcessingTimeMs() * 1_000)
        state.update((group.dumps(),))
        yield rows.iloc[passed][list(self.columns)]

    def advance(self, group: KeyGroup, rows: pd.DataFrame) -> list[int]:
        """Which rows pass: rejected ones, and for each key that moves forward its latest change."""
        passed: list[int] = []
        newest: dict[tuple[int, int], int] = {}
        orders = zip(*(rows[f"{ORDER}{number}"].tolist() for number in range(self.order_count)))
        marks = (rows[name].tolist() for name in (FIRST_HASH, SECOND_HASH, PLACE, IS_REJECTED, IS_DELETED))
        for index, (order, first, second, place, is_rejected, is_deleted) in enumerate(zip(orders, *marks)):
            if is_rejected:
                passed.append(index)
                continue
            before = group.keys.get((first, second))
            if before is not None and before[1] != place:
                raise ScatteredKey(
                    f"offsets do not order the changes of {rows[KEY_TEXT][index]}: they are in {before[1]} and "
                    f"{place}; name a column with order='version'"
                )
            if before is None or order > before[0]:
                group.keys[first, second] = (order, place, is_deleted, None)
                newest[first, second] = index
        return sorted([*passed, *newest.values()])
