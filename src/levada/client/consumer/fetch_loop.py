"""Fetches from one broker, one request after another, for as long as there is something to fetch there."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from levada.client.cluster import Cluster, Deadline, Node, background
from levada.client.consumer.background import happens
from levada.client.consumer.fetch_session import Ask, FetchSession, SessionKey
from levada.client.consumer.fetched import Backlog
from levada.client.errors import Disconnected, KafkaError, error_for
from levada.model.error_codes import ErrorCode
from levada.net.channel import ChannelClosed
from levada.protocol.api import ApiKey
from levada.protocol.declare import NO_UUID
from levada.protocol.errors import CodecError
from levada.protocol.messages.fetch import TOPIC_IDS_SINCE, FetchRequest, FetchResponse

logger = logging.getLogger("levada.client")

FOREVER_MS = 2.0**52
CLOSE_WITHIN_MS = 1_000
PATIENCE_MS = 20
"""An answer with data is there sooner than this; what takes longer waits for data to come."""
UNWANTED_PATIENCE_MS = 2
"""The same if none of that data is wanted any more: a new connection takes about as long."""


@dataclass(slots=True)
class FetchPlan:
    """What to fetch from a broker now."""

    asks: dict[SessionKey, Ask]
    backlogs: dict[SessionKey, Backlog]
    max_bytes: int

    def keys(self) -> dict[tuple[str | bytes, int], SessionKey]:
        """The keys by what an answer calls them: a topic by its name or by its id."""
        by_name: dict[tuple[str | bytes, int], SessionKey] = {(key.topic, key.partition): key for key in self.asks}
        by_name.update({(key.topic_id, key.partition): key for key in self.asks})
        return by_name


@dataclass(slots=True)
class Obstacle:
    """Why there is nothing to fetch from a broker now."""

    full: Backlog | None = None
    """It has to be read first."""
    excess_bytes: int = 0
    """So many have to be read first."""
    retry_in_ms: float = FOREVER_MS


class FetchTerms(Protocol):
    """The side of the fetcher that a loop sees."""

    def plan(self, node_id: int) -> FetchPlan | Obstacle: ...

    def absorb(self, node_id: int, plan: FetchPlan, response: FetchResponse, session: FetchSession) -> None: ...

    def is_outdated(self, node_id: int, plan: FetchPlan) -> bool:
        """Whether something is wanted from the broker that was not asked for with this plan."""

    def is_wanted(self, plan: FetchPlan) -> bool:
        """Whether anything of what was asked for with this plan would still be taken."""

    def fail(self, error: KafkaError) -> None: ...


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What each request asks for, whatever it fetches."""

    min_bytes: int
    max_wait_ms: int
    isolation_level: int
    rack: str


class FetchLoop:
    """A task, a session and a connection of its own: a fetch that waits for data would hold up other requests."""

    def __init__(self, cluster: Cluster, terms: FetchTerms, limits: FetchLimits, node_id: int) -> None:
        self.node_id = node_id
        self.obstacle: Obstacle | None = None
        """Set while the loop waits."""
        self.fetches = 0
        self.latency_ms = 0
        self._cluster = cluster
        self._terms = terms
        self._limits = limits
        self._session = FetchSession()
        self._request_timeout_ms: int = cluster.options["request.timeout.ms"]
        self._node: Node | None = None
        self._changed = asyncio.Event()
        self._task = background(self._run())
        self._task.add_done_callback(self._ended)

    @property
    def is_over(self) -> bool:
        return self._task.done()

    def wake(self) -> None:
        """There may be something to fetch."""
        self._changed.set()

    def has_been_read(self, backlog: Backlog, size: int, *, is_full: bool) -> bool:
        """Bytes of a backlog were read; whether that lets a loop go on that waited for it."""
        obstacle = self.obstacle
        if obstacle is None or (obstacle.full is None and not obstacle.excess_bytes):
            return False
        obstacle.excess_bytes -= size
        if obstacle.full is backlog and not is_full:
            obstacle.full = None
        if obstacle.full is None and obstacle.excess_bytes <= 0:
            self._changed.set()
            return True
        return False

    def abandon(self) -> None:
        """End at once, without waiting for the task."""
        self._task.cancel()

    async def close(self, deadline: Deadline) -> None:
        """End, and let the broker forget the session, if that takes no long time."""
        self.abandon()
        limit_ms = min(deadline.remaining_ms(), CLOSE_WITHIN_MS)
        if not limit_ms or not self._session.is_open or self.node_id not in self._cluster.view.brokers:
            return
        # Not over the own connection: there the fetch that was given up may still be waiting.
        node = self._cluster.node(self.node_id)
        if not node.is_connected:
            return
        part = self._session.last_request()
        request = self._request(part.session_id, part.epoch, 0, 0)
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                await node.call(request)
        except (KafkaError, TimeoutError) as error:
            logger.debug("fetch session not closed: broker=%d error=%r", self.node_id, error)

    async def _run(self) -> None:
        failures = 0
        while True:
            self._changed.clear()
            plan = self._terms.plan(self.node_id)
            if isinstance(plan, Obstacle):
                self.obstacle = plan
                await happens(self._changed, plan.retry_in_ms)
                self.obstacle = None
                continue
            try:
                await self._fetch(plan)
                failures = 0
            except KafkaError as error:
                self._session.failed()
                failures += 1
                if not error.retriable:
                    self._terms.fail(error)
                elif isinstance(error, Disconnected):
                    self._cluster.refresh_soon()
                logger.debug("fetch failed: broker=%d error=%s", self.node_id, error)
                await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1_000)

    async def _fetch(self, plan: FetchPlan) -> None:
        node = self._reach()
        await node.connect()
        has_ids = all(key.topic_id != NO_UUID for key in plan.asks)
        version = node.version_of(ApiKey.FETCH, at_most=None if has_ids else TOPIC_IDS_SINCE - 1)
        uses_ids = version >= TOPIC_IDS_SINCE
        part = self._session.next_request(plan.asks, uses_topic_ids=uses_ids)
        request = self._request(part.session_id, part.epoch, self._limits.max_wait_ms, plan.max_bytes)
        request.topics = part.topics
        request.forgotten_topics_data = part.forgotten
        began_ms = self._cluster.world.clock.monotonic_ms()
        try:
            response = await self._answer(node.post(request, version, self._request_timeout_ms), plan, began_ms)
        except (ChannelClosed, CodecError) as error:
            raise node.lost(error) from error
        if response is None:
            self._hang_up()
            return
        self.fetches += 1
        self.latency_ms += self._cluster.world.clock.monotonic_ms() - began_ms
        if not self._session.answered(response.error_code, response.session_id):
            if response.error_code in RENEWS_SESSION:
                return
            raise error_for(response.error_code, context=f"fetch from broker {self.node_id}")
        self._terms.absorb(self.node_id, plan, response, self._session)

    async def _answer(
        self, answer: "asyncio.Future[FetchResponse]", plan: FetchPlan, began_ms: int
    ) -> FetchResponse | None:
        """The answer; None if something else is wanted by now and the broker still waits for data."""
        answer.add_done_callback(lambda _: self._changed.set())
        try:
            while True:
                await self._changed.wait()
                if answer.done():
                    return answer.result()
                self._changed.clear()
                limit_ms = PATIENCE_MS if self._terms.is_wanted(plan) else UNWANTED_PATIENCE_MS
                patience_ms = began_ms + limit_ms - self._cluster.world.clock.monotonic_ms()
                if patience_ms > 0:
                    asyncio.get_running_loop().call_later(patience_ms / 1_000, self._changed.set)
                elif self._terms.is_outdated(self.node_id, plan):
                    answer.cancel()
                    return None
        except asyncio.CancelledError:
            # Not in `finally`: a coroutine that is collected after its loop was closed has nothing left to cancel.
            answer.cancel()
            raise

    def _hang_up(self) -> None:
        """A fetch that waits for data cannot be taken back, and the next one would be answered after it."""
        assert self._node is not None
        self._node.close()
        self._node = None
        self._session.failed()

    def _request(self, session_id: int, epoch: int, max_wait_ms: int, max_bytes: int) -> FetchRequest:
        limits = self._limits
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=max_bytes,
            isolation_level=limits.isolation_level,
            session_id=session_id,
            session_epoch=epoch,
            topics=[],
            rack_id=limits.rack,
        )

    def _reach(self) -> Node:
        broker = self._cluster.view.brokers.get(self.node_id)
        if broker is None:
            raise Disconnected(f"broker {self.node_id} is not up")
        if self._node is not None and self._node.address != broker.address:
            self._node.close()
            self._node = None
        if self._node is None:
            self._node = self._cluster.separate_node(broker.address)
        return self._node

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if self._node is not None:
            self._node.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("fetching from broker %d ended", self.node_id, exc_info=error)
            self._terms.fail(KafkaError(f"fetching from broker {self.node_id} ended with {error!r}"))


RENEWS_SESSION = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""What a broker says whose memory of a session differs; the next request begins another one."""
