"""What a send gives back: light until the caller asks for the outcome."""

import asyncio
import threading
import time
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from levada.client.arguments import check_timeout
from levada.client.errors import IllegalState, KafkaError, TimedOut
from levada.client.producer.batch import Batch
from levada.client.producer.front import Ticket
from levada.client.types import RecordMetadata


class Handle(Ticket):
    """The outcome of one send: `await handle` in asyncio, `handle.result()` in other code."""

    __slots__ = ()

    def done(self) -> bool:
        """Whether the record was acknowledged, or was given up."""
        return self.batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record went; waits up to `timeout` seconds, and raises what kept it from going anywhere."""
        if not self.batch.is_done:
            wait_in_thread([self.batch], timeout)
        return self.batch.outcome(self.index, self.timestamp_ms)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """What went wrong, or None."""
        try:
            self.result(timeout)
        except KafkaError as error:
            if isinstance(error, TimedOut) and not self.batch.is_done:
                raise
            return error
        return None

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.batch.is_done:
            yield from wait_in_loop([self.batch]).__await__()
        return self.batch.outcome(self.index, self.timestamp_ms)


class ManyHandle:
    """The outcome of a bulk send; it is done when all its records are."""

    __slots__ = ("_batches", "count")

    def __init__(self, batches: Sequence[Batch], count: int) -> None:
        self._batches = batches
        self.count = count
        """How many records were sent."""

    def done(self) -> bool:
        return all(batch.is_done for batch in self._batches)

    def result(self, timeout: float | None = None) -> int:
        """The number of records, once all are acknowledged; raises the first error among them."""
        wait_in_thread(self._batches, timeout)
        return self._outcome()

    def __await__(self) -> Generator[Any, None, int]:
        yield from wait_in_loop(self._batches).__await__()
        return self._outcome()

    def _outcome(self) -> int:
        for batch in self._batches:
            error = batch.failure()
            if error is not None:
                raise error
        return self.count


def wait_in_thread(batches: Sequence[Batch], timeout: float | None) -> None:
    """Block until all are done; not on the loop that would have to finish them."""
    waiting = [batch for batch in batches if not batch.is_done]
    if waiting and _is_in_loop():
        raise IllegalState("result() would block the event loop: await the handle instead")
    if timeout is not None:
        check_timeout(timeout)
    give_up_at = None if timeout is None else time.monotonic() + timeout
    for batch in waiting:
        event = threading.Event()
        batch.when_done(event.set)
        if not event.wait(None if give_up_at is None else give_up_at - time.monotonic()):
            raise TimedOut(f"no outcome within the {timeout} s given to result(); the record is still on its way")


async def wait_in_loop(batches: Sequence[Batch]) -> None:
    """Wait until all are done, on the loop that finishes them."""
    for batch in batches:
        if not batch.is_done:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            batch.when_done(partial(_release, future))
            await future


def _release(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
