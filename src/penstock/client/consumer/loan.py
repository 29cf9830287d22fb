"""Records that are decoded already, lent to the thread that polls: it takes them without asking the client's loop."""

import threading
from collections.abc import Callable

from penstock.records import ConsumerRecord

LOAN_MS = 50
"""A consumer that polls is seen to poll so often: its group and its automatic commits wait no longer."""


class Loan:
    """What is taken counts as consumed once the loop has ended the loan; until then nothing else reads there."""

    def __init__(self, records: list[ConsumerRecord], start: int, limit: int, now_ms: Callable[[], float]) -> None:
        self._records = records
        self._start = self._next = start
        self._limit = limit
        self._now_ms = now_ms
        self._ends_ms = now_ms() + LOAN_MS
        self._is_over = False
        # The loop may end a loan while a thread takes from it.
        self._lock = threading.Lock()

    def take(self, limit: int | None) -> list[ConsumerRecord]:
        """Up to so many of the records; none once the loan is over."""
        if limit is None:
            limit = self._limit
        with self._lock:
            if self._is_over or limit <= 0 or self._now_ms() >= self._ends_ms:
                return []
            start = self._next
            self._next = min(start + limit, len(self._records))
            return self._records[start : self._next]

    def end(self) -> int:
        """On the loop: nothing more can be taken; how many were."""
        with self._lock:
            self._is_over = True
            return self._next - self._start
