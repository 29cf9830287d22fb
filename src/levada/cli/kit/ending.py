"""Ctrl-C and SIGTERM for tools that have something to finish: what must not be torn apart is finished first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from levada.cli.kit.refusals import INTERRUPTED

TERMINATED: Final = 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


class Signals:
    """Raises KeyboardInterrupt for Ctrl-C and Terminated for SIGTERM, but not in the middle of what is shielded."""

    def __init__(self) -> None:
        self._is_shielded = False
        self._waiting: KeyboardInterrupt | None = None

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """A first signal waits for the end of this; a second one, of an impatient operator, does not."""
        self._is_shielded = True
        try:
            yield
        finally:
            self._is_shielded = False
        if self._waiting is not None:
            raise self._waiting

    def heed(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            # Only once: what is being finished then must not be torn apart by another one.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        interrupt = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        if not self._is_shielded or self._waiting is not None:
            raise interrupt
        self._waiting = interrupt


@contextmanager
def terminable() -> Iterator[Signals]:
    """Inside, both signals raise."""
    signals = Signals()
    before = {number: signal.signal(number, signals.heed) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code that a shell expects."""
    return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
