"""Fetch v4-18. v5 log start, v7 sessions (KIP-227), v9 epochs (KIP-320), v12 flexible and diverging epochs (KIP-595),
v13 topic ids (KIP-516), v15 replica state (KIP-903), v16 the new leader (KIP-951)."""

import asyncio

from levada.broker.delayed import DelayedOperation
from levada.broker.fetch_reading import Fetch
from levada.broker.fetch_sessions import NO_SESSION
from levada.broker.route import Request
from levada.model.errors import KafkaError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.fetch import FetchRequest, FetchResponse

API = ApiKey.FETCH
VERSIONS = stable_versions(API)

FIRST_WITH_TOPIC_IDS = 13


def handle(message: FetchRequest, request: Request) -> "FetchResponse | asyncio.Future[FetchResponse]":
    broker = request.broker
    replica_id = message.replica_id if message.replica_state is None else message.replica_state.replica_id
    try:
        session = broker.fetch_sessions.begin(
            message,
            uses_topic_ids=request.version >= FIRST_WITH_TOPIC_IDS,
            is_privileged=replica_id >= 0,
            now_ms=broker.clock.monotonic_ms(),
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code, responses=[])
    fetch = Fetch(message, request, session, replica_id)
    if fetch.read() or message.max_wait_ms <= 0:
        return fetch.answer()
    return ParkedFetch(fetch, message.max_wait_ms).answered


class ParkedFetch(DelayedOperation):
    """A fetch that found too little: its session tells it of changes, the clock that time is up."""

    kind = "Fetch"

    __slots__ = ("_fetch", "_is_scheduled", "_missing_bytes", "answered")

    def __init__(self, fetch: Fetch, max_wait_ms: int) -> None:
        super().__init__()
        self._fetch = fetch
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
        try:
            if self._fetch.read() or is_last:
                response = self._fetch.answer()
                self._leave()
                self.answered.set_result(response)
            else:
                self._wait()
        except Exception as error:
            # Whoever awaits the answer deals with it; who woke us has nothing to do with it.
            self._leave()
            self.answered.set_exception(error)

    def _wait(self) -> None:
        self._missing_bytes = self._fetch.missing_bytes
        self._fetch.forget()

    def _on_done(self, answered: "asyncio.Future[FetchResponse]") -> None:
        if answered.cancelled():
            # The client is gone.
            self._leave()

    def _leave(self) -> None:
        self._fetch.broker.delayed.cancel(self)
        session = self._fetch.session
        if session.waiter is self:
            session.waiter = None
        if session.id == NO_SESSION:
            session.unwatch()
