"""The doors to time and chance."""

from typing import Protocol


class Clock(Protocol):
    """Time as the machine tells it."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back and count while the machine sleeps."""
        ...

    def perf_ns(self) -> int:
        """Nanoseconds that never go back, for short durations; the cheapest clock there is."""
        ...


class MachineClock(Clock, Protocol):
    """What it also tells, for processes of one machine to compare."""

    def awake_ms(self) -> int:
        """Milliseconds that never go back and stand still while the machine sleeps: one count for all processes."""
        ...

    def boot_id(self) -> str:
        """Names the time since the machine was switched on: what another one has, this machine has forgotten."""
        ...


class Entropy(Protocol):
    """Everything random: ids, jitter, choices."""

    def random_bytes(self, size: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""
        ...
