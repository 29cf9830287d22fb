"""What `make demo` says of whether it has kept up, and that it fails where it has not."""

from pathlib import Path
from typing import Any, cast

import pytest

from examples.shop.__main__ import kept_up
from examples.shop.events import RAW_TOPICS
from examples.shop.watching import Watch
from levada.client.types import TopicPartition
from levada.spark.pipeline.meter import Sample

ORDERS = TopicPartition(RAW_TOPICS[0], 0)
RATE = 100
CLOSES = 90


def watched(behind: float, *, from_second: int, closes: int = CLOSES) -> Watch:
    """A query that is so many seconds of its input behind, from some second on."""
    watch = Watch(cast(Any, None), [], 0, Path(), 0.0)
    watch.history.marks.update({"shop opens": 0.0, "shop closes": float(closes)})
    for second in range(closes + 1):
        end = RATE * second
        place = end - int(RATE * behind) if second >= from_second else end
        watch.history.meter.note(Sample(float(second), {ORDERS: end}, {"clean": {ORDERS: place}}))
    return watch


@pytest.mark.parametrize(
    ("watch", "is_well", "said"),
    [
        (watched(3.0, from_second=70), True, "kept up: after its first minute no query was more than 3.0 s"),
        (watched(30.0, from_second=70), False, "did NOT keep up: after its first minute clean was 30.0 s"),
        (watched(30.0, from_second=10, closes=50), True, "kept up? It was open for less than the 60 s"),
    ],
)
def test_a_demo_that_falls_behind_says_so_and_fails(watch: Watch, is_well: bool, said: str) -> None:
    has_kept_up, text = kept_up(watch)
    assert has_kept_up == is_well
    assert text.startswith(said)


def test_a_query_whose_input_has_stopped_is_still_behind() -> None:
    watch = watched(30.0, from_second=10)
    watch.history.meter.note(Sample(300.0, {ORDERS: RATE * CLOSES}, {"clean": {ORDERS: RATE * CLOSES - 3_000}}))
    assert watch.history.seconds_behind("clean") == pytest.approx(100.0)
