"""Records decoded ahead of the polls: a loop or a thread takes them without asking the client's loop for each."""

from collections.abc import Iterator
from itertools import islice

from levada.records import ConsumerRecord

PREFETCH_SECONDS = 0.05
"""A consumer that reads is seen to poll so often: its group and its automatic commits wait no longer."""
PREFETCH_RECORDS = 10_000
"""What is decoded ahead is copied, and once more what is left of it: not a batch of any size."""


class PrefetchedRecords:
    """What is taken counts as consumed once the client's loop has ended this; until then nothing else reads there.

    Without a lock, which the loop would wait for while a signal handler waits for the loop in the thread that has it.
    Taking, and ending, is one call that goes through an iterator: neither a thread nor a signal comes in between.
    """

    def __init__(self, records: list[ConsumerRecord], start: int, limit: int) -> None:
        prefetched = records[start : start + limit]
        self._count = len(prefetched)
        self._left = iter(prefetched)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """The records that are left, each taken with that; none after `end`."""
        return self._left

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to so many of the records; none after `end`."""
        return list(islice(self._left, limit)) if limit > 0 else []

    def end(self) -> int:
        """On the loop: nothing more can be taken; how many were."""
        return self._count - len(list(self._left))
