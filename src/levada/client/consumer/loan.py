"""Records that are decoded already, lent to the thread that polls: it takes them without asking the client's loop."""

from collections.abc import Callable
from itertools import islice

from levada.records import ConsumerRecord

LOAN_MS = 50
"""A consumer that polls is seen to poll so often: its group and its automatic commits wait no longer."""
LOAN_RECORDS = 10_000
"""What is lent is copied, and once more what is left of it: not a batch of any size."""


class Loan:
    """What is taken counts as consumed once the loop has ended the loan; until then nothing else reads there.

    Without a lock, which the loop would wait for while a signal handler waits for the loop in the thread that has it.
    Taking, and ending, is one call that goes through an iterator: neither a thread nor a signal comes in between.
    """

    def __init__(self, records: list[ConsumerRecord], start: int, limit: int, now_ms: Callable[[], float]) -> None:
        lent = records[start : start + LOAN_RECORDS]
        self._count = len(lent)
        self._left = iter(lent)
        self._limit = limit
        self._now_ms = now_ms
        self._ends_ms = now_ms() + LOAN_MS

    def take(self, limit: int | None) -> list[ConsumerRecord]:
        """Up to so many of the records; none once the loan is over."""
        if limit is None:
            limit = self._limit
        if limit <= 0 or self._now_ms() >= self._ends_ms:
            return []
        return list(islice(self._left, limit))

    def end(self) -> int:
        """On the loop: nothing more can be taken; how many were."""
        return self._count - len(list(self._left))
