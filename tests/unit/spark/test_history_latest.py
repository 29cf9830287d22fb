"""Which changes of a micro-batch pass, and what is remembered of them."""

import pickle
from typing import Any

import pandas as pd
import pytest

from levada.spark.history import latest
from levada.spark.history.latest import Forgetting, KeyGroup, LatestChange, ScatteredKey

Row = tuple[int, Any, str | None, bool]
MINUTE_US = 60_000_000
NOW_US = 1_000 * MINUTE_US


def rows(*given: Row) -> pd.DataFrame:
    """Key, order, place, and whether it is rejected."""
    return pd.DataFrame(
        {
            latest.FIRST_HASH: [key for key, *_ in given],
            latest.SECOND_HASH: [-key for key, *_ in given],
            latest.KEY_TEXT: [str(key) for key, *_ in given],
            f"{latest.ORDER}0": [order for _, order, *_ in given],
            latest.PLACE: [place for _, _, place, _ in given],
            latest.IS_REJECTED: [rejected for *_, rejected in given],
            latest.IS_DELETED: [False for _ in given],
        }
    )


FUNCTION = LatestChange(1, ())


def test_the_latest_of_each_key_passes_and_rejected_rows_as_well() -> None:
    group = KeyGroup()
    assert FUNCTION.advance(group, rows((1, 5, None, False), (1, 7, None, False), (1, 6, None, False))) == [1]
    assert FUNCTION.advance(group, rows((2, 1, None, False), (1, 0, None, True), (1, 8, None, False))) == [0, 1, 2]
    assert {key[0]: order for key, (order, *_) in group.keys.items()} == {1: (8,), 2: (1,)}


def test_what_is_not_newer_than_before_does_not_pass() -> None:
    group = KeyGroup({(1, -1): ((7,), None, False, None)})
    assert FUNCTION.advance(group, rows((1, 6, None, False), (1, 7, None, False))) == []
    assert FUNCTION.advance(group, rows((1, 2**62 + 1, None, False), (1, 2**62, None, False))) == [0]


def test_a_key_in_two_partitions_is_an_error() -> None:
    group = KeyGroup({(1, -1): ((7,), "t-0", False, None)})
    with pytest.raises(ScatteredKey, match="changes of 1: they are in t-0 and t-1; name a column"):
        FUNCTION.advance(group, rows((1, 8, "t-1", False)))


def changed(*given: tuple[int, int, bool, int | None]) -> pd.DataFrame:
    """Key, order, whether it deletes, and the minute of the row; None is a row without a time."""
    frame = rows(*((key, order, None, False) for key, order, *_ in given))
    frame[latest.IS_DELETED] = [is_deleted for *_, is_deleted, _ in given]
    times = [latest.NO_TIME if minute is None else minute * MINUTE_US for *_, minute in given]
    return frame.assign(**{latest.TIME: times})


def after(
    forgetting: Forgetting, *batches: tuple[int, int, bool, int | None], now_us: int = NOW_US, group: KeyGroup | None
) -> set[int]:
    """The keys that are remembered when each of the rows was a batch of its own."""
    kept = group or KeyGroup()
    for row in batches:
        frame = changed(row)
        FUNCTION.advance(kept, frame)
        forgetting.forget(kept, frame, now_us)
        kept = KeyGroup.loads(kept.dumps())
    return {first for first, _ in kept.keys}


TEN_MINUTES = 10 * MINUTE_US


@pytest.mark.parametrize(
    ("forgetting", "remembered"),
    [
        (Forgetting(deleted_after_us=TEN_MINUTES), {1, 3, 4}),
        (Forgetting(after_us=TEN_MINUTES), {3, 4}),
        (Forgetting(deleted_after_us=TEN_MINUTES, after_us=20 * MINUTE_US), {1, 3, 4}),
    ],
)
def test_keys_are_forgotten_when_rows_are_so_much_younger_than_their_last_change(
    forgetting: Forgetting, remembered: set[int]
) -> None:
    batches = ((1, 1, False, 0), (2, 1, True, 0), (3, 1, True, 2), (4, 1, False, 11))
    assert after(forgetting, *batches, group=None) == remembered
    assert after(forgetting, *batches[:-1], (4, 1, False, 10), group=None) == {1, 2, 3, 4}


def test_a_key_that_is_back_is_not_forgotten_as_deleted() -> None:
    forgetting = Forgetting(deleted_after_us=TEN_MINUTES)
    assert after(forgetting, (1, 1, True, 0), (1, 2, False, 1), (2, 1, False, 30), group=None) == {1, 2}


def test_an_old_row_does_not_turn_the_clock_back_and_is_remembered_from_its_batch_on() -> None:
    forgetting = Forgetting(after_us=TEN_MINUTES)
    assert after(forgetting, (1, 1, False, 20), (2, 1, False, 0), (3, 1, False, 30), group=None) == {1, 2, 3}


def test_a_date_in_the_future_counts_as_the_time_of_its_batch() -> None:
    forgetting = Forgetting(after_us=TEN_MINUTES)
    known = KeyGroup({(1, -1): ((1,), None, False, NOW_US - TEN_MINUTES)}, NOW_US - TEN_MINUTES)
    assert after(forgetting, (2, 1, False, 5_000), group=known) == {1, 2}
    assert after(forgetting, (2, 2, False, None), now_us=NOW_US + 1, group=known) == {2}


def test_a_rejected_row_moves_no_clock() -> None:
    group = KeyGroup({(1, -1): ((1,), None, True, 0)}, 0)
    frame = changed((2, 1, False, 500)).assign(**{latest.IS_REJECTED: [True]})
    Forgetting(deleted_after_us=1).forget(group, frame, NOW_US)
    assert (len(group.keys), group.clock_us) == (1, 0)


def test_a_checkpoint_from_before_keys_could_be_forgotten_goes_on() -> None:
    group = KeyGroup.loads(pickle.dumps({(1, -1): ((7,), "t-0")}))
    assert FUNCTION.advance(group, rows((1, 6, "t-0", False), (1, 8, "t-0", False))) == [1]
    later = ((1, 9, True, 0), (2, 1, False, 11))
    assert after(Forgetting(deleted_after_us=TEN_MINUTES), *later, group=KeyGroup()) == {2}
