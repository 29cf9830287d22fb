"""How far each key of a stream of changes is, kept in Spark's state by groups of keys; runs in Spark's workers."""

import pickle
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

BUCKET = "_bucket"
FIRST_HASH, SECOND_HASH = "_first_hash", "_second_hash"
"""Two hashes of 64 bits stand for a key: among a billion keys two look alike once in 10^20 times."""
KEY_TEXT = "_key_text"
PLACE = "_place"
"""The partition that all changes of a key must share; null where it does not matter."""
IS_REJECTED = "_is_rejected"
ORDER = "_order_"
"""And a number: the values that order changes, the most significant first."""
STATE = "applied binary"

Applied = dict[tuple[int, int], tuple[tuple[Any, ...], str | None]]
"""For each key the order of the last change that was applied, and where it was."""


class ScatteredKey(ValueError):
    """Changes of one key are in several partitions, where offsets do not order them."""


@dataclass(frozen=True, slots=True)
class LatestChange:
    """The function of a group of keys that Spark calls with the rows of a micro-batch and with its state."""

    order_count: int
    columns: tuple[str, ...]
    """Those that go on."""

    # Spark asks a function for these.
    __name__ = "latest_change"

    def __call__(self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        # Spark joins what we yield with an empty frame, for which pandas warns on every call.
        warnings.filterwarnings("ignore", category=FutureWarning, message=".*concatenation with empty.*")
        applied: Applied = pickle.loads(state.get[0]) if state.exists else {}
        rows = pd.concat(list(frames), ignore_index=True)
        passed = self.advance(applied, rows)
        state.update((pickle.dumps(applied, protocol=5),))
        yield rows.iloc[passed][list(self.columns)]

    def advance(self, applied: Applied, rows: pd.DataFrame) -> list[int]:
        """Which rows pass: rejected ones, and for each key that moves forward its latest change."""
        passed: list[int] = []
        newest: dict[tuple[int, int], int] = {}
        orders = zip(*(rows[f"{ORDER}{number}"].tolist() for number in range(self.order_count)))
        marks = (rows[name].tolist() for name in (FIRST_HASH, SECOND_HASH, PLACE, IS_REJECTED))
        for index, (order, first, second, place, is_rejected) in enumerate(zip(orders, *marks)):
            if is_rejected:
                passed.append(index)
                continue
            before = applied.get((first, second))
            if before is not None and before[1] != place:
                raise ScatteredKey(
                    f"offsets do not order the changes of {rows[KEY_TEXT][index]}: they are in {before[1]} and "
                    f"{place}; name a column with order='version'"
                )
            if before is None or order > before[0]:
                applied[first, second] = (order, place)
                newest[first, second] = index
        return sorted([*passed, *newest.values()])
