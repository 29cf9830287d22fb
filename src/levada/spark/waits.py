"""Ever longer waits for what is away."""

import time
from collections.abc import Callable, Iterator
from typing import Final

FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 15.0


def waits(
    limit_s: float, pause: Callable[[float], object], clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Pauses, each twice as long as the one before, until the time is up; the caller tries again after each."""
    deadline = clock() + limit_s
    wait_s = FIRST_WAIT_S
    while (left_s := deadline - clock()) > 0:
        pause(min(wait_s, left_s))
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        yield
