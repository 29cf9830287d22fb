"""A query that fails between two looks of its supervisor; no real one can be made to do so at that moment."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from levada.spark.pipeline.problems import QueryFailed
from levada.spark.pipeline.running import supervise
from levada.spark.pipeline.sinks.batches import Control


class EndsWhenLookedAt:
    """Active when it is first asked, and failed when it is asked again."""

    def __init__(self) -> None:
        self._looks = 0
        error = SimpleNamespace(getMessage=lambda: "two rows for one key", getCause=lambda: None)
        self._jsq = SimpleNamespace(exception=lambda: SimpleNamespace(get=lambda: error))

    @property
    def isActive(self) -> bool:
        self._looks += 1
        return self._looks == 1

    def exception(self) -> object:
        return self._jsq


def test_a_query_that_fails_between_two_looks_is_not_taken_for_done() -> None:
    running = cast(Any, SimpleNamespace(queries={"kept": EndsWhenLookedAt()}, look=list))
    display = cast(Any, SimpleNamespace(show=lambda _: None))
    with pytest.raises(QueryFailed, match="kept: two rows for one key"):
        supervise(running, Control(), cast(Any, None), display, 60.0, lambda _: None)
