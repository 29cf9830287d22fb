"""Operations that wait, each with a time when its waiting ends: parking, leaving and idling cost next to nothing."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from heapq import heapify, heappop, heappush
from math import ceil
from typing import ClassVar, TypeAlias

TICK_MS = 10
"""Operations end together with others of their tick: never before their time, and at most one tick after it."""

PRUNE_ABOVE = 1_024
"""Ticks that are kept before those whose operations have all left are looked for."""

Bucket: TypeAlias = "dict[DelayedOperation, None]"


class DelayedOperation(ABC):
    """Something that waits for an event, but not for ever."""

    __slots__ = ("_bucket",)

    kind: ClassVar[str]
    """As Kafka's metrics name it."""

    def __init__(self) -> None:
        self._bucket: Bucket | None = None

    @abstractmethod
    def expire(self) -> None:
        """Time is up, or the broker stops: end with what there is. It may not raise, others expire after it."""


class DelayedOperations:
    """All that wait on one event loop: buckets of operations by the tick they expire in, and one timer for the next.

    An operation that leaves is one removal from its bucket. The heap holds ticks and not operations, so that
    100,000 of them with the same wait are a few entries, and while nothing expires nothing runs.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, Bucket] = {}
        self._ticks: list[int] = []
        self._prune_above = PRUNE_ABOVE
        self._timer: asyncio.TimerHandle | None = None
        self._timer_tick = 0
        self._is_closed = False
        self.parked: Counter[str] = Counter()
        """How many wait now, by kind."""
        self.expired: Counter[str] = Counter()
        """How many have waited to their end, by kind."""

    def park(self, operation: DelayedOperation, delay_ms: int) -> None:
        assert operation._bucket is None, "an operation waits once at a time"
        if self._is_closed:
            operation.expire()
            return
        loop = asyncio.get_running_loop()
        tick = ceil((loop.time() * 1_000 + delay_ms) / TICK_MS)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._add_bucket(tick)
        bucket[operation] = None
        operation._bucket = bucket
        self.parked[operation.kind] += 1
        if self._timer is None or tick < self._timer_tick:
            self._set_timer(loop, tick)

    def cancel(self, operation: DelayedOperation) -> None:
        """What it waited for came; nothing happens if it does not wait."""
        bucket = operation._bucket
        if bucket is not None:
            del bucket[operation]
            operation._bucket = None
            self.parked[operation.kind] -= 1

    def close(self) -> None:
        """End all operations now, and from now on each as it comes."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, bucket in sorted(self._buckets.items()):
            self._expire(bucket)
        self._buckets.clear()
        self._ticks.clear()

    def _add_bucket(self, tick: int) -> Bucket:
        if len(self._buckets) >= self._prune_above:
            self._prune()
        bucket: Bucket = {}
        self._buckets[tick] = bucket
        heappush(self._ticks, tick)
        return bucket

    def _prune(self) -> None:
        """Waits of any length that are cut short would otherwise leave their empty buckets until their time."""
        self._buckets = {tick: bucket for tick, bucket in self._buckets.items() if bucket}
        self._ticks = list(self._buckets)
        heapify(self._ticks)
        self._prune_above = max(PRUNE_ABOVE, 2 * len(self._ticks))

    def _set_timer(self, loop: asyncio.AbstractEventLoop, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_tick = tick
        self._timer = loop.call_at(tick * TICK_MS / 1_000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        # A loop may fire within its clock's resolution before the time it was given; that tick is due all the same.
        due = max(self._timer_tick, int(loop.time() * 1_000 / TICK_MS))
        while self._ticks and self._ticks[0] <= due:
            bucket = self._buckets.pop(heappop(self._ticks))
            self._expire(bucket)
        self._set_next_timer(loop)

    def _set_next_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._ticks and not self._buckets[self._ticks[0]]:
            del self._buckets[heappop(self._ticks)]
        # What expired may have parked something, and set the timer.
        if self._ticks and (self._timer is None or self._ticks[0] < self._timer_tick):
            self._set_timer(loop, self._ticks[0])

    def _expire(self, bucket: Bucket) -> None:
        for operation in list(bucket):
            # One that expires may have made others leave.
            if operation._bucket is bucket:
                self.cancel(operation)
                self.expired[operation.kind] += 1
                operation.expire()
