"""Whether the user's code still polls: a member whose records are not processed must not keep its partitions."""

from levada.world.clock import Clock


class PollWatch:
    def __init__(self, clock: Clock, max_interval_ms: int) -> None:
        self.max_interval_ms = max_interval_ms
        self._clock = clock
        self._polled_ms = clock.monotonic_ms()

    def polled(self, now_ms: int) -> None:
        self._polled_ms = max(self._polled_ms, now_ms)

    def remaining_ms(self) -> int:
        """Until max.poll.interval.ms is over."""
        return max(self._polled_ms + self.max_interval_ms - self._clock.monotonic_ms(), 0)

    @property
    def is_late(self) -> bool:
        return self.remaining_ms() == 0

    def warning(self) -> str:
        """What to tell the user."""
        return (
            f"this consumer left its group, because it was not polled for max.poll.interval.ms={self.max_interval_ms}: "
            "the processing of records takes too long. Raise max.poll.interval.ms, or get fewer records at once with "
            "max.poll.records"
        )
