"""What happens in one round of the event loop, counted: how long a round takes depends on the machine."""

import asyncio
from collections import Counter


class Rounds:
    """Numbers the rounds of the loop that runs, and counts events in each."""

    def __init__(self) -> None:
        self._number = 0
        self.events: Counter[int] = Counter()
        self._next = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._number += 1
        self._next = asyncio.get_running_loop().call_soon(self._begin)

    def note(self) -> None:
        self.events[self._number] += 1

    def stop(self) -> int:
        """The most that happened in one round."""
        self._next.cancel()
        return max(self.events.values())
