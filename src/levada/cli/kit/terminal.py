"""What a person at a terminal sees besides the output: colour and progress. In a pipe there is neither."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

STYLES: Final = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2"}

BAR_WIDTH: Final = 30
SECONDS_BETWEEN: Final = 0.1


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream (default stdout) is a terminal that wants one."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if _wants_colour(stream or sys.stdout) else text


def _wants_colour(stream: TextIO) -> bool:
    return is_terminal(stream) and "NO_COLOR" not in os.environ


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class ProgressBar:
    """A bar on stderr, redrawn in place at most ten times a second."""

    def __init__(self, what: str, total: int | None, stream: TextIO) -> None:
        self._what = what
        self._total = total
        self._stream = stream
        self._done = 0
        self._started = self._drawn = time.monotonic()
        self._is_shown = is_terminal(stream)
        self._width = 0

    def advance(self, count: int = 1) -> None:
        self.to(self._done + count)

    def to(self, done: int) -> None:
        self._done = done
        if self._is_shown and time.monotonic() - self._drawn >= SECONDS_BETWEEN:
            self._draw()

    def close(self) -> None:
        """Take the bar away: what is worth keeping is in the output."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        text = bar(self._what, self._done, self._total, self._drawn - self._started)
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = max(self._width, len(text))


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[ProgressBar]:
    """While something takes long; `total` is how much there is to do, where that is known."""
    shown = ProgressBar(what, total, sys.stderr)
    try:
        yield shown
    finally:
        shown.close()


def bar(what: str, done: int, total: int | None, seconds: float) -> str:
    """
    >>> bar("sending", 50, 200, 10.0)
    'sending [#######                       ]  25% 50/200, 30 s left'
    >>> bar("reading", 50, None, 10.0)
    'reading 50, 5/s'
    """
    if not total:
        return f"{what} {done}, {done / max(seconds, 0.001):.0f}/s"
    share = min(done / total, 1.0)
    left = f", {seconds * (1 - share) / share:.0f} s left" if share else ""
    return f"{what} [{'#' * int(BAR_WIDTH * share):{BAR_WIDTH}}] {share:4.0%} {done}/{total}{left}"
