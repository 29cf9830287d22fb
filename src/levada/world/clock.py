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

    def awake_ms(self) -> int:
        """The same, but they stand still while the machine sleeps; one count for all processes of a machine."""
        ...

    def boot_id(self) -> str:
        """Names the time since the machine was switched on: what another one has, this machine has forgotten."""
        ...

    def perf_ns(self) -> int:
        """Nanoseconds that never go back, for short durations; the cheapest clock there is."""
        ...


class Entropy(Protocol):
    """Everything random: ids, jitter, choices."""

    def random_bytes(self, size: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""
        ...
