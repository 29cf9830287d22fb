"""Fetch v4-18. v5 log start, v7 sessions (KIP-227), v9 epochs (KIP-320), v12 flexible and diverging epochs (KIP-595),
v13 topic ids (KIP-516), v15 replica state (KIP-903), v16 the new leader (KIP-951)."""

import asyncio

from levada.broker.delayed import DelayedOperation
from levada.broker.fetch_reading import Fetch
from levada.broker.fetch_sessions import NO_SESSION
from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.fetch import TOPIC_IDS_SINCE, FetchRequest, FetchResponse

API = ApiKey.FETCH
VERSIONS = stable_versions(API)

LARGE = 1_000
"""Partitions where something may have changed; more are not looked at in one turn of the loop."""


def handle(message: FetchRequest, request: Request) -> "FetchResponse | asyncio.Future[FetchResponse]":
    broker = request.broker
    replica_id = message.replica_id if message.replica_state is None else message.replica_state.replica_id
    try:
        session = broker.fetch_sessions.begin(
            message,
            uses_topic_ids=request.version >= TOPIC_IDS_SINCE,
            is_privileged=replica_id >= 0,
            now_ms=broker.clock.monotonic_ms(),
        )
    except ApiError as error:
        return FetchResponse(error_code=error.code, responses=[])
    fetch = Fetch(message, request, session, replica_id)
    if len(session.dirty) > LARGE:
        request.is_large = True
        return asyncio.ensure_future(_fetch_in_slices(fetch, message.max_wait_ms))
    if fetch.read() or message.max_wait_ms <= 0:
        return fetch.answer()
    return ParkedFetch(fetch, request, message.max_wait_ms).answered


async def _fetch_in_slices(fetch: Fetch, max_wait_ms: int) -> FetchResponse:
    """With too little to answer it looks again when as much has come as is missing, until its time is up."""
    waiting = WaitingSlices(fetch, max_wait_ms)
    try:
        while not await fetch.read_in_slices() and not waiting.is_over:
            await waiting.for_bytes(fetch.missing_bytes)
        return await fetch.answer_in_slices()
    finally:
        waiting.leave()


class WaitingSlices(DelayedOperation):
    """Hears of changes in a session from before the first look at it, so that none is missed during a look."""

    kind = "Fetch"

    __slots__ = ("_came", "_fetch", "_missing_bytes", "is_over")

    def __init__(self, fetch: Fetch, max_wait_ms: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._came = asyncio.Event()
        self._missing_bytes = 0
        self.is_over = max_wait_ms <= 0
        fetch.session.watch()
        fetch.session.waiter = self
        if not self.is_over:
            fetch.broker.delayed.park(self, max_wait_ms)

    def on_change(self, size: int) -> None:
        self._missing_bytes -= size
        if not size or self._missing_bytes <= 0:
            self._came.set()

    def expire(self) -> None:
        self.is_over = True
        self._came.set()

    async def for_bytes(self, count: int) -> None:
        # What came during the look counts: it may have come behind it.
        self._missing_bytes += count
        if self._missing_bytes > 0 and not self.is_over:
            self._came.clear()
        self._fetch.forget()
        await self._came.wait()
        self._came.clear()
        self._missing_bytes = 0

    def leave(self) -> None:
        self._fetch.broker.delayed.cancel(self)
        session = self._fetch.session
        if session.waiter is self:
            session.waiter = None
        if session.id == NO_SESSION:
            session.unwatch()


class ParkedFetch(DelayedOperation):
    """A fetch that found too little: its session tells it of changes, the clock that time is up."""

    kind = "Fetch"

    __slots__ = ("_ends_s", "_fetch", "_is_scheduled", "_missing_bytes", "_request", "_slices", "answered")

    def __init__(self, fetch: Fetch, request: Request, max_wait_ms: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._request = request
        self._slices: asyncio.Task[FetchResponse] | None = None
        self._ends_s = asyncio.get_running_loop().time() + max_wait_ms / 1_000
        self._is_scheduled = False
        self.answered: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        self.answered.add_done_callback(self._on_done)
        self._wait()
        session = fetch.session
        session.watch()
        session.waiter = self
        fetch.broker.delayed.park(self, max_wait_ms)

    def on_change(self, size: int) -> None:
        self._missing_bytes -= size
        if self._is_scheduled or (size and self._missing_bytes > 0 and not self._fetch.has_unseen):
            return
        # Later, because a producer is at work right now, and may have more in the same request.
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._try_again)

    def expire(self) -> None:
        self._try_again(is_last=True)

    def _try_again(self, *, is_last: bool = False) -> None:
        self._is_scheduled = False
        if self.answered.done():
            return
        if len(self._fetch.session.dirty) > LARGE:
            self._go_on_in_slices(is_last=is_last)
            return
        try:
            if self._fetch.read() or is_last:
                response = self._fetch.answer()
                self._leave()
                self.answered.set_result(response)
            else:
                self._wait()
        except Exception as error:
            # For the connection that awaits the answer; the append or timer that came to this has not failed.
            self._leave()
            self.answered.set_exception(error)

    def _go_on_in_slices(self, *, is_last: bool) -> None:
        """So much has changed that one turn of the loop is not enough for it."""
        self._leave()
        self._request.is_large = True
        loop = asyncio.get_running_loop()
        left_ms = 0 if is_last else max(round(1_000 * (self._ends_s - loop.time())), 0)
        self._slices = loop.create_task(_fetch_in_slices(self._fetch, left_ms))
        self._slices.add_done_callback(self._answer_with)

    def _answer_with(self, slices: "asyncio.Task[FetchResponse]") -> None:
        if self.answered.done():
            # The client is gone, but the error is for this place to see.
            _ = slices.cancelled() or slices.exception()
        elif slices.cancelled():
            self.answered.cancel()
        elif (error := slices.exception()) is not None:
            self.answered.set_exception(error)
        else:
            self.answered.set_result(slices.result())

    def _wait(self) -> None:
        self._missing_bytes = self._fetch.missing_bytes
        self._fetch.forget()

    def _on_done(self, answered: "asyncio.Future[FetchResponse]") -> None:
        if answered.cancelled():
            # The client is gone.
            self._leave()
            if self._slices is not None:
                self._slices.cancel()

    def _leave(self) -> None:
        self._fetch.broker.delayed.cancel(self)
        session = self._fetch.session
        if session.waiter is self:
            session.waiter = None
        if session.id == NO_SESSION:
            session.unwatch()
