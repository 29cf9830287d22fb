"""Queries that fail between two looks, or while they are stopped; no real one can be made to do so at that moment."""

from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from levada.spark.pipeline.problems import QueryFailed
from levada.spark.pipeline.running import StopSignals, stop_after_batch, supervise
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
    running = cast(
        Any, SimpleNamespace(queries={"kept": EndsWhenLookedAt()}, look=list, look_now=list, show=lambda _: None)
    )
    with pytest.raises(QueryFailed, match="kept: two rows for one key"):
        supervise(running, Control(), cast(Any, None), cast(Any, None), 60.0, lambda _: None)


class FailsInItsLastBatch(EndsWhenLookedAt):
    """In a batch when it is told to stop, and failed at the end of that."""

    status = MappingProxyType({"isTriggerActive": True, "isDataAvailable": True})

    def __init__(self) -> None:
        super().__init__()
        self._jsq.lastProgress = lambda: None

    def stop(self) -> None:
        """It has ended."""


def test_a_query_that_fails_while_it_is_stopped_is_not_taken_for_stopped() -> None:
    running = cast(Any, SimpleNamespace(queries={"kept": FailsInItsLastBatch()}))
    with pytest.raises(QueryFailed, match="kept: two rows for one key"):
        stop_after_batch(running, StopSignals(Control()))
