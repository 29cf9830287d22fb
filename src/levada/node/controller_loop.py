"""The controller at work: requests are decided in turn, written together, and answered when they count."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from levada.controller.brokers import FenceRequest
from levada.controller.controller import decide
from levada.controller.decision import Context, ControllerDecision, Defaults
from levada.controller.sessions import BrokerSessions, Liveness
from levada.metadata.delta import apply
from levada.metadata.door import Deposed, Door, Token
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, ControllerLost, KafkaStorageError, NotController
from levada.protocol.declare import AnsweredBy
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from levada.storage.identity import new_uuid
from levada.world.clock import Clock, Entropy

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

MAX_RECORDS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class ControllerReply(Generic[Reply]):
    reply: Reply
    offset: int
    """Up to which the log must be read to see what the reply speaks of."""


@dataclass(frozen=True, slots=True)
class _Asked:
    request: AnsweredBy[object]
    version: int
    came_ms: int
    answer: "asyncio.Future[ControllerReply[Any]]"
    """Requests of every kind wait in one queue."""


class ControllerLoop:
    """Works from the moment a node holds a token until it is deposed."""

    def __init__(
        self,
        door: Door,
        token: Token,
        image: Image,
        clock: Clock,
        entropy: Entropy,
        defaults: Callable[[], Defaults],
        session_timeout_ms: int,
    ) -> None:
        self._door = door
        self._token = token
        self._clock = clock
        self._entropy = entropy
        self._defaults = defaults
        self.sessions = BrokerSessions(image.brokers, session_timeout_ms, clock.monotonic_ms())
        self._incarnations: Mapping[int, str] | None = None
        self._asked: list[_Asked] = []
        self._next_look_ms = clock.monotonic_ms() + self.sessions.look_interval_ms
        self._waiting_for_change: dict[asyncio.Future[None], None] = {}
        self._is_asked = asyncio.Event()
        self._is_over = False
        self.image = image
        """As it will be when all that was written counts; it may be ahead of what brokers know."""

    def ask(self, request: AnsweredBy[Reply], version: int) -> "asyncio.Future[ControllerReply[Reply]]":
        """The answer, when it counts; NotController if this node is deposed before."""
        answer: asyncio.Future[ControllerReply[Reply]] = asyncio.get_running_loop().create_future()
        if self._is_over:
            answer.set_exception(NotController("This is not the correct controller for this cluster."))
        else:
            self._asked.append(_Asked(request, version, self._clock.monotonic_ms(), answer))
            self._is_asked.set()
        return answer

    async def changed(self, offset: int, seconds: float) -> int:
        """The offset of the last record that counts, as soon as it is another than a reader's, at the latest then."""
        if self.image.offset <= offset and not self._is_over:
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting_for_change[change] = None
            try:
                async with asyncio.timeout(seconds):
                    await change
            except TimeoutError:
                pass
            finally:
                self._waiting_for_change.pop(change, None)
        return self.image.offset

    async def run(self) -> None:
        """Until deposed or cancelled."""
        try:
            while True:
                await self._wait()
                self._fence_silent()
                asked, self._asked = self._asked, []
                self._is_asked.clear()
                try:
                    await self._answer(asked)
                except BaseException:
                    _refuse(asked, ControllerLost("The controller has ended before it could answer."))
                    raise
        except Deposed as error:
            logger.warning("controller deposed epoch=%d reason=%r", self._token.epoch, str(error))
        finally:
            self._is_over = True
            self._tell_of_change()
            _refuse(self._asked, NotController("This is not the correct controller for this cluster."))

    async def _wait(self) -> None:
        """For a request, or until it is time to look for silent brokers."""
        wait_ms = max(self._next_look_ms - self._clock.monotonic_ms(), 0)
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._is_asked.wait()
        except TimeoutError:
            pass

    def _fence_silent(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_look_ms:
            return
        # Also where it cannot be written that a broker is fenced: that is tried again at the next look.
        self._next_look_ms = now_ms + self.sessions.look_interval_ms
        # One that is about to be answered would have a lease by that.
        heard = [one.request.broker_id for one in self._asked if isinstance(one.request, BrokerHeartbeatRequest)]
        for broker_id in self.sessions.look(self.image, now_ms):
            if broker_id in heard:
                continue
            logger.warning(
                "broker silent id=%d knows=%d end=%d", broker_id, self.sessions.offset_of(broker_id), self.image.offset
            )
            # Its outcome is in the log; there is no caller to be told.
            self.ask(FenceRequest(broker_id), 0).add_done_callback(_heard)

    async def _answer(self, asked: list[_Asked]) -> None:
        """Decide each on top of those before it, and write what they decide as one batch."""
        if any(isinstance(one.request, BrokerRegistrationRequest) for one in asked):
            await self._look_at_members()
        image = self.image
        records: list[MetadataRecord] = []
        decided: list[tuple[_Asked, object]] = []
        for number, one in enumerate(asked):
            if len(records) >= MAX_RECORDS_AT_ONCE:
                self._asked[:0] = asked[number:]
                self._is_asked.set()
                break
            decision = self._decide(image, one)
            if decision is None:
                continue
            if decision.records:
                image = apply(image, decision.records, image.offset + len(decision.records))
                records += decision.records
            decided.append((one, decision.reply))
        waiting = [one for one, _ in decided]
        if not records:
            # A controller that was deposed unawares must not renew leases, nor say how things are.
            if not await self._confirm(waiting):
                return
        elif not await self._write(records, waiting):
            return
        self.image = image
        self._note_sessions(decided)
        self._tell_of_change()
        for one, reply in decided:
            if not one.answer.done():
                one.answer.set_result(ControllerReply(reply, image.offset))

    def _decide(self, image: Image, one: _Asked) -> ControllerDecision[object] | None:
        context = Context(
            now_ms=self._clock.now_ms(),
            version=one.version,
            defaults=self._defaults(),
            new_id=lambda: new_uuid(self._entropy),
            below=self._entropy.below,
            liveness=Liveness(self.sessions, one.came_ms, self._incarnations),
            controller_epoch=self._token.epoch,
        )
        try:
            return decide(image, one.request, context)
        except Exception as error:
            if not isinstance(error, ApiError):
                logger.exception("cannot decide request=%s", type(one.request).__name__)
            _refuse([one], error)
            return None

    def _note_sessions(self, decided: Sequence[tuple[_Asked, object]]) -> None:
        """What heartbeats say of their brokers, when this controller has the right to take note of it."""
        end = self.image.offset
        for one, reply in decided:
            match one.request, reply:
                case BrokerHeartbeatRequest() as request, BrokerHeartbeatResponse(error_code=ErrorCode.NONE) as answer:
                    offset = request.current_metadata_offset
                    answer.is_caught_up &= self.sessions.hear(request.broker_id, offset, end, one.came_ms)
                case BrokerRegistrationRequest() as request, BrokerRegistrationResponse(error_code=ErrorCode.NONE):
                    self.sessions.end(request.broker_id)
                    self.sessions.hear(request.broker_id, end, end, one.came_ms)

    def _tell_of_change(self) -> None:
        waiting, self._waiting_for_change = self._waiting_for_change, {}
        for change in waiting:
            if not change.done():
                change.set_result(None)

    async def _look_at_members(self) -> None:
        try:
            self._incarnations = {member.node_id: member.incarnation for member in await self._door.members()}
        except OSError as error:
            logger.error("cannot see which brokers take part reason=%r", str(error))
            self._incarnations = {}

    async def _confirm(self, waiting: list[_Asked]) -> bool:
        """Whether this controller still had the right to decide; those who wait hear it if that is not known."""
        try:
            await self._door.confirm(self._token)
        except Deposed:
            _refuse(waiting, NotController("Another controller was elected while this was decided."))
            raise
        except OSError as error:
            _refuse(waiting, NotController(f"Cannot tell whether this is still the controller: {error}"))
            return False
        return True

    async def _write(self, records: list[MetadataRecord], waiting: list[_Asked]) -> bool:
        """Whether the records count; those who wait for them hear it if not."""
        try:
            await self._door.append(self._token, self.image.offset + 1, records)
        except Deposed:
            _refuse(waiting, ControllerLost("Another controller was elected while this was written."))
            raise
        except ConnectionError as error:
            # A coordinator that is away has written nothing, and will be back.
            logger.error("cannot reach the coordinator reason=%r", str(error))
            _refuse(waiting, NotController(f"The coordinator cannot be reached: {error}"))
            return False
        except OSError as error:
            logger.error("cannot write the metadata log reason=%r", str(error))
            _refuse(waiting, KafkaStorageError(f"cannot write the metadata log: {error}"))
            return False
        return True


def _heard(answer: "asyncio.Future[ControllerReply[bool]]") -> None:
    """A controller that is deposed fences no broker; its successor will."""
    if not answer.cancelled() and answer.exception() is None:
        logger.info("fenced silent broker offset=%d", answer.result().offset)


def _refuse(asked: list[_Asked], error: Exception) -> None:
    for one in asked:
        if not one.answer.done():
            one.answer.set_exception(error)
