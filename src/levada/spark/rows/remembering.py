"""Which keys a stream has seen, kept in Spark's state by groups of keys; runs in Spark's workers."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

BUCKET = "_bucket"
FIRST_HASH = "_first_hash"
SECOND_HASH = "_second_hash"
"""Two hashes of 64 bits stand for a key: among a billion keys two look alike once in 10^20 times."""
TIME = "_time"
"""Microseconds; EXEMPT for a row that repeats nothing and is not remembered."""
EXEMPT = -(2**63)
REPEATED = "_repeated"
STATE = "seen binary"

SEEN = np.dtype([("first", "<i8"), ("second", "<i8"), ("time", "<i8")])
"""A key and when it was seen last."""


@dataclass(frozen=True, slots=True)
class Remembering:
    """The function of a group of keys that Spark calls with the rows of a micro-batch and with its state."""

    within_us: int

    # Spark asks a function for these.
    __name__ = "remembering"

    def __call__(self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        # Spark joins what we yield with an empty frame, for which pandas warns on every call.
        warnings.filterwarnings("ignore", category=FutureWarning, message=".*concatenation with empty.*")
        seen = np.frombuffer(state.get[0], SEEN) if state.exists else np.empty(0, SEEN)
        for frame in frames:
            repeated, seen = repeats(seen, _arriving(frame), self.within_us)
            yield frame.assign(**{REPEATED: repeated})
        now_us = state.getCurrentProcessingTimeMs() * 1_000
        state.update((forget(seen, self.within_us, now_us).tobytes(),))


def repeats(seen: np.ndarray, arriving: np.ndarray, within_us: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the arriving repeat one before, by time, and what is seen after them.

    A key's last time is kept, so that rows that are out of order repeat it from either side.
    """
    exempt = arriving["time"] == EXEMPT
    order = np.lexsort((arriving["time"], arriving["second"], arriving["first"]))
    sorted_rows = arriving[order]
    time = sorted_rows["time"]
    same_as_before = np.zeros(len(order), bool)
    same_as_before[1:] = _same_key(sorted_rows[1:], sorted_rows[:-1])
    near_before = np.zeros(len(order), bool)
    # The difference to EXEMPT is more than a number holds, and would come out as negative.
    near_before[1:] = (time[:-1] != EXEMPT) & (time[1:] - time[:-1] <= within_us)
    last = _last_seen(seen, sorted_rows)
    near_last = (last != EXEMPT) & (np.abs(time - np.where(last == EXEMPT, 0, last)) <= within_us)
    marked = np.empty(len(order), bool)
    marked[order] = (same_as_before & near_before) | near_last
    marked &= ~exempt
    return marked, _latest(np.concatenate([seen, arriving[~exempt]]))


def forget(seen: np.ndarray, within_us: int, now_us: int) -> np.ndarray:
    """Without the keys that are too old to be repeated by a row that is up to `within_us` late.

    The newest row is the clock, unless it is ahead of ours: one wrong date in the future must not make us forget all.
    """
    if not len(seen):
        return seen
    clock_us = min(int(seen["time"].max()), now_us)
    return seen[seen["time"] >= clock_us - 2 * within_us]


def _arriving(frame: pd.DataFrame) -> np.ndarray:
    rows = np.empty(len(frame), SEEN)
    rows["first"] = frame[FIRST_HASH].to_numpy()
    rows["second"] = frame[SECOND_HASH].to_numpy()
    rows["time"] = frame[TIME].to_numpy()
    return rows


def _same_key(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    same: np.ndarray = (some["first"] == others["first"]) & (some["second"] == others["second"])
    return same


def _latest(seen: np.ndarray) -> np.ndarray:
    """One for each key, sorted by key."""
    ordered = seen[np.lexsort((seen["time"], seen["second"], seen["first"]))]
    is_last = np.ones(len(ordered), bool)
    is_last[:-1] = ~_same_key(ordered[:-1], ordered[1:])
    return ordered[is_last]


def _last_seen(seen: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """When each row's key was seen last, EXEMPT if never; `seen` is sorted by key."""
    found = np.full(len(rows), EXEMPT, np.int64)
    if not len(seen):
        return found
    at = np.searchsorted(seen["first"], rows["first"])
    # Keys with equal first hashes stand side by side; more than one is next to impossible, and still right.
    while True:
        inside = at < len(seen)
        candidate = seen[np.where(inside, at, 0)]
        same_first = inside & (candidate["first"] == rows["first"])
        hit = same_first & (candidate["second"] == rows["second"])
        found[hit] = candidate["time"][hit]
        undecided = same_first & ~hit
        if not undecided.any():
            return found
        at = np.where(undecided, at + 1, len(seen))
