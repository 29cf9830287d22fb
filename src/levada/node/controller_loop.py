"""The controller at work: requests are decided in turn, written together, and answered when they count."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from levada.controller.controller import decide
from levada.controller.decision import Context, ControllerDecision, Defaults
from levada.metadata.delta import apply
from levada.metadata.door import Deposed, Door, Token
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord
from levada.model.errors import ApiError, KafkaStorageError, NotController
from levada.protocol.declare import AnsweredBy
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
    answer: "asyncio.Future[ControllerReply[Any]]"
    """Requests of every kind wait in one queue."""


class ControllerLoop:
    """Works from the moment a node holds a token until it is deposed."""

    def __init__(
        self, door: Door, token: Token, image: Image, clock: Clock, entropy: Entropy, defaults: Callable[[], Defaults]
    ) -> None:
        self._door = door
        self._token = token
        self._clock = clock
        self._entropy = entropy
        self._defaults = defaults
        self._asked: list[_Asked] = []
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
            self._asked.append(_Asked(request, version, answer))
            self._is_asked.set()
        return answer

    async def run(self) -> None:
        """Until deposed or cancelled."""
        try:
            while True:
                await self._is_asked.wait()
                self._is_asked.clear()
                asked, self._asked = self._asked, []
                try:
                    await self._answer(asked)
                except BaseException:
                    _refuse(asked, NotController("This is not the correct controller for this cluster."))
                    raise
        except Deposed as error:
            logger.warning("controller deposed epoch=%d reason=%r", self._token.epoch, str(error))
        finally:
            self._is_over = True
            _refuse(self._asked, NotController("This is not the correct controller for this cluster."))

    async def _answer(self, asked: list[_Asked]) -> None:
        """Decide each on top of those before it, and write what they decide as one batch."""
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
        if records and not await self._write(records, [one for one, _ in decided]):
            return
        self.image = image
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
        )
        try:
            return decide(image, one.request, context)
        except Exception as error:
            if not isinstance(error, ApiError):
                logger.exception("cannot decide request=%s", type(one.request).__name__)
            _refuse([one], error)
            return None

    async def _write(self, records: list[MetadataRecord], waiting: list[_Asked]) -> bool:
        """Whether the records count; those who wait for them hear it if not."""
        try:
            await self._door.append(self._token, self.image.offset + 1, records)
        except Deposed:
            _refuse(waiting, NotController("Another controller was elected while this was written."))
            raise
        except OSError as error:
            logger.error("cannot write the metadata log reason=%r", str(error))
            _refuse(waiting, KafkaStorageError(f"cannot write the metadata log: {error}"))
            return False
        return True


def _refuse(asked: list[_Asked], error: Exception) -> None:
    for one in asked:
        if not one.answer.done():
            one.answer.set_exception(error)
