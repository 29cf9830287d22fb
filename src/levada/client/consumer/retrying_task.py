"""Work beside the polls that is repeated until nothing is left to do, with pauses while it fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from levada.client.cluster import Backoff, background
from levada.client.cluster.waiting import shared
from levada.client.consumer.background import happens
from levada.client.errors import KafkaError

logger = logging.getLogger("levada.client")

Step = Callable[[], Awaitable[bool]]
"""Whether something has to be tried again; raises what is final."""


class RetryingTask:
    """A task for as long as it is needed; what it cannot get over waits to be raised to the user."""

    def __init__(
        self, backoff: Backoff, is_needed: Callable[[], bool], steps: Sequence[Step], on_change: Callable[[], None]
    ) -> None:
        self._backoff = backoff
        self._is_needed = is_needed
        self._steps = steps
        self._on_change = on_change
        self._task: asyncio.Task[None] | None = None
        self._failure: KafkaError | None = None
        self._retry_now = asyncio.Event()
        self._is_closed = False

    def start_if_needed(self) -> None:
        """Begin if there is need; returns at once."""
        if self._task is None and not self._is_closed and self._is_needed():
            self._task = background(self._run())
            self._task.add_done_callback(self._ended)

    def retry_now(self) -> None:
        """Do not wait any longer to try again: something changed."""
        self._retry_now.set()

    def raise_failure(self) -> None:
        """What ended the last attempt, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def settle(self) -> None:
        """Wait until nothing is left to do."""
        self.start_if_needed()
        if self._task is not None:
            await shared(self._task)
        self.raise_failure()

    def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._repeat()
        finally:
            # At once and not in the callback: a caller that looks meanwhile must not wait for a task that is over.
            self._task = None

    async def _repeat(self) -> None:
        failures = 0
        while self._is_needed():
            self._retry_now.clear()
            try:
                again = [await step() for step in self._steps]
            except KafkaError as error:
                if not error.retriable:
                    self._failure = error
                    return
                logger.debug("tried again soon: %s", error)
                again = [True]
            failures = failures + 1 if any(again) else 0
            self._on_change()
            if failures:
                await happens(self._retry_now, self._backoff.pause_ms(failures))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("work beside the polls ended", exc_info=error)
            self._failure = KafkaError(f"the background task of the consumer ended with {error!r}")
        self._on_change()
