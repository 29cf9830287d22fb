"""The time of an embedded broker in the hands of a test."""

import threading
from collections.abc import Callable

from levada.testing.governed_time import NANOSECONDS, GovernedTime

SECONDS_PER_MINUTE, SECONDS_PER_HOUR, SECONDS_PER_DAY = 60, 3_600, 86_400


class BrokerTime:
    """What the broker takes for the time: it can be frozen, and moved on.

    It governs what the broker writes down (LogAppendTime, the age of segments) and all that it does by time: sessions
    and transactions that time out, retention, producers that are forgotten. Clients, and the long polls they ask for,
    live in real time.
    """

    def __init__(self, governed: GovernedTime, call: Callable[[Callable[[], None]], None]) -> None:
        self._governed = governed
        self._call = call
        self._moving = threading.Lock()

    @property
    def is_frozen(self) -> bool:
        return self._governed.is_frozen

    def now_ms(self) -> int:
        """Milliseconds since 1970, as the broker sees it."""
        return self._governed.now_ms()

    def freeze(self) -> None:
        """Let time stand still; nothing happens on its own until it is moved or runs on."""
        self._call(self._governed.freeze)

    def resume(self) -> None:
        """Let time run on from where it stands."""
        self._call(self._governed.resume)

    def advance(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Move on, from one timer of the broker to the next, and return when all that is due by then is done."""
        seconds += minutes * SECONDS_PER_MINUTE + hours * SECONDS_PER_HOUR + days * SECONDS_PER_DAY
        if seconds < 0:
            raise ValueError(f"time does not go back, and {seconds} s is less than nothing")
        arrived = threading.Event()
        # Two threads that move it do so one after the other.
        with self._moving:
            self._call(lambda: self._governed.move(round(seconds * NANOSECONDS), arrived))
            arrived.wait()
