"""Which changes of a micro-batch pass, and what is remembered of them."""

from typing import Any

import pandas as pd
import pytest

from levada.spark.history import latest
from levada.spark.history.latest import Applied, LatestChange, ScatteredKey

Row = tuple[int, Any, str | None, bool]


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
        }
    )


FUNCTION = LatestChange(1, ())


def test_the_latest_of_each_key_passes_and_rejected_rows_as_well() -> None:
    applied: Applied = {}
    assert FUNCTION.advance(applied, rows((1, 5, None, False), (1, 7, None, False), (1, 6, None, False))) == [1]
    assert FUNCTION.advance(applied, rows((2, 1, None, False), (1, 0, None, True), (1, 8, None, False))) == [0, 1, 2]
    assert {key[0]: order for key, (order, _) in applied.items()} == {1: (8,), 2: (1,)}


def test_what_is_not_newer_than_before_does_not_pass() -> None:
    applied: Applied = {(1, -1): ((7,), None)}
    assert FUNCTION.advance(applied, rows((1, 6, None, False), (1, 7, None, False))) == []
    assert FUNCTION.advance(applied, rows((1, 2**62 + 1, None, False), (1, 2**62, None, False))) == [0]


def test_a_key_in_two_partitions_is_an_error() -> None:
    applied: Applied = {(1, -1): ((7,), "t-0")}
    with pytest.raises(ScatteredKey, match="changes of 1: they are in t-0 and t-1; name a column"):
        FUNCTION.advance(applied, rows((1, 8, "t-1", False)))
