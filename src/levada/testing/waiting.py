"""What helpers wait for, and what they say when it does not come."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
INTERVAL_SECONDS = 0.01


__tracebackhide__ = True
"""Of each module of this kit that tests call: pytest shows the test's own line, not the inside of a helper."""


class NotInTime(AssertionError):
    """What a test waited for did not come; the text says what was there instead."""


def wait_until(
    condition: Callable[[], T], timeout: float = TIMEOUT_SECONDS, *, interval: float = INTERVAL_SECONDS
) -> T:
    """Ask again and again until the answer is true, and return it; NotInTime after `timeout` seconds.

    >>> answers = iter([0, 0, 7])
    >>> wait_until(lambda: next(answers))
    7
    """
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise NotInTime(f"{described(condition)} was still {answer!r} after {timeout} s")
        time.sleep(interval)


def described(condition: Callable[..., object]) -> str:
    """A name for a condition; a lambda is known by its line."""
    code = getattr(condition, "__code__", None)
    name: str = getattr(condition, "__qualname__", repr(condition))
    return f"{name} (line {code.co_firstlineno})" if code is not None and "<lambda>" in name else name
