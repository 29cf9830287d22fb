"""Questions to brokers about many items: each to the right broker, and again while what failed may pass."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from levada.client.admin.outcomes import Outcomes
from levada.client.cluster import Cluster, Deadline
from levada.client.errors import (
    Disconnected,
    IllegalState,
    KafkaError,
    TimedOut,
    UnsupportedVersion,
    error_for,
    timed_out,
)
from levada.model.error_codes import RETRIABLE, ErrorCode
from levada.protocol.declare import Request

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
"""What a broker answers to one kind of request."""

_E = ErrorCode

BROKER_FAULTS: frozenset[ErrorCode] = frozenset({_E.BROKER_NOT_AVAILABLE})
CONTROLLER_FAULTS: frozenset[ErrorCode] = frozenset({_E.NOT_CONTROLLER})
QUOTA_FAULTS: frozenset[ErrorCode] = CONTROLLER_FAULTS | {_E.THROTTLING_QUOTA_EXCEEDED}
COORDINATOR_FAULTS: frozenset[ErrorCode] = frozenset(
    {_E.COORDINATOR_LOAD_IN_PROGRESS, _E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR}
)
LEADER_FAULTS = RETRIABLE

DOUBTFUL = frozenset({_E.UNKNOWN_TOPIC_OR_PARTITION, _E.UNKNOWN_TOPIC_ID, _E.BROKER_NOT_AVAILABLE})
"""What is true of a name that is wrong, and for a moment of one that is new: asked again, but not until the end."""
DOUBT_MS = 2_000

NOT_ABOUT_ITEMS = (Disconnected, TimedOut, UnsupportedVersion)
SETTING = "default.api.timeout.ms"

MAX_WAIT_SECONDS = 365 * 24 * 3_600.0

Answers: TypeAlias = Mapping[K, V | KafkaError]


@dataclass(frozen=True, slots=True)
class BrokerAnswer(Generic[K, R_co]):
    """What one broker said about the items it was asked about."""

    response: R_co
    items: Sequence[K]
    broker: int | None
    """None where any broker would do."""


@dataclass(slots=True)
class BrokerRoutes(Generic[K]):
    """Which broker is asked about which items; None stands for any broker."""

    to: dict[int | None, list[K]] = field(default_factory=dict)
    errors: dict[K, KafkaError] = field(default_factory=dict)
    """Of items that no broker can be found for."""

    def add(self, broker: int | None, item: K) -> None:
        self.to.setdefault(broker, []).append(item)


Route: TypeAlias = Callable[[Sequence[K]], Coroutine[Any, Any, BrokerRoutes[K]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[K, V, R]):
    """One kind of request: whom it goes to, how it asks about items, and how to read the answer."""

    what: str
    """Completes the sentence `gave up trying ... after 60000 ms`, such as `to list topics`."""
    route: Route[K]
    request: Callable[[Sequence[K], int], Request[R]]
    """From the items and the milliseconds that the broker has."""
    read: Callable[[BrokerAnswer[K, R]], Answers[K, V]]
    passing: Collection[ErrorCode] = CONTROLLER_FAULTS
    """What a broker may say of an item that is worth asking again."""
    is_single: bool = False
    """Whether a request can be about one item only."""
    at_least: int = 0
    at_most: int | None = None
    older: "Question[K, V, Any] | None" = None
    """How to ask a broker that does not know these versions."""


@dataclass(slots=True)
class _Round(Generic[K, V]):
    """One attempt at all the items that are left."""

    deadline: Deadline
    answers: dict[K, V | KafkaError] = field(default_factory=dict)
    unanswered: dict[K, None] = field(default_factory=dict)
    """Items of whose answers only the client's own error is known."""

    def reasons(self) -> dict[K, KafkaError]:
        """What went wrong, other than that time was up."""
        return {
            item: answer
            for item, answer in self.answers.items()
            if isinstance(answer, KafkaError) and not _is_out_of_time(answer)
        }

    def fail(self, items: Iterable[K], error: KafkaError) -> None:
        for item in items:
            self.answers[item] = error
            self.unanswered[item] = None


class RequestRouter:
    """Carries questions for one admin client."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._timeout_ms: int = cluster.options["default.api.timeout.ms"]
        self._has_default_timeout = SETTING not in cluster.options.given
        self._request_timeout_ms: int = cluster.options["request.timeout.ms"]
        self._retries: int = cluster.options["retries"]

    def deadline(self, timeout_ms: float | None) -> Deadline:
        if timeout_ms is None:
            return Deadline(self.cluster.world.clock, self._timeout_ms, is_default=self._has_default_timeout)
        return Deadline(self.cluster.world.clock, timeout_ms)

    async def each(self, items: Iterable[K], question: Question[K, V, R], deadline: Deadline) -> Outcomes[K, V]:
        """An outcome per item. Raises where nothing was done and no reason is about an item: no broker was reached."""
        answers: dict[K, V | KafkaError] = await self.settle(items, question, deadline)
        return conclude(answers)

    async def one(self, question: Question[str, V, R], deadline: Deadline) -> V:
        """The answer to a question that is about one thing only."""
        return (await self.each([question.what], question, deadline))[question.what]

    async def broker_ids(self, deadline: Deadline) -> list[int]:
        """All brokers that are up, asked for anew."""
        self.cluster.start()
        await self.cluster.persist(self.cluster.refresh, deadline, "the brokers were not found", setting=SETTING)
        return sorted(self.cluster.view.brokers)

    async def settle(
        self, items: Iterable[K], question: Question[K, V, R], deadline: Deadline
    ) -> dict[K, V | KafkaError]:
        """The last word on each item."""
        self.cluster.start()
        items = dict.fromkeys(items)
        answers: dict[K, V | KafkaError] = {}
        reasons: dict[K, KafkaError] = {}
        left = list(items)
        doubts = self.deadline(DOUBT_MS)
        failures = 0
        while left:
            attempt: _Round[K, V] = _Round(deadline)
            await self._ask(left, question, attempt)
            answers.update(attempt.answers)
            reasons.update(attempt.reasons())
            left = [item for item in left if _may_pass(item, question, attempt, doubts)]
            if not left or failures >= self._retries:
                break
            failures += 1
            pause_ms = self.cluster.backoff.pause_ms(failures)
            contact = self.cluster.contact
            is_over = deadline.remaining_ms() <= pause_ms
            if contact.gives_up(deadline, pause_ms) or (is_over and contact.is_missing):
                unreached = self.cluster.unreached(deadline, SETTING)
                unreached.__cause__ = next(iter(reasons.values()), None)
                answers.update(dict.fromkeys(left, unreached))
                break
            if is_over:
                answers.update({item: _too_late(question.what, deadline, reasons.get(item)) for item in left})
                break
            await asyncio.sleep(pause_ms / 1_000)
            await self._look_around(attempt)
        return {item: answers[item] for item in items}

    async def _ask(self, items: Sequence[K], question: Question[K, V, R], attempt: _Round[K, V]) -> None:
        """One attempt at some items; what becomes of them is noted as it happens, whatever else takes long."""
        try:
            routes = await self._within(attempt.deadline, question.what, question.route(items))
        except IllegalState:
            raise
        except KafkaError as error:
            attempt.fail(items, error)
            return
        attempt.answers.update(routes.errors)
        calls = [
            self._ask_broker(broker, some, question, attempt)
            for broker, asked in routes.to.items()
            for some in ([[item] for item in asked] if question.is_single else [asked])
        ]
        await asyncio.gather(*calls)

    async def _ask_broker(
        self, broker: int | None, items: Sequence[K], question: Question[K, V, R], attempt: _Round[K, V]
    ) -> None:
        timeout_ms = int(min(self._request_timeout_ms, attempt.deadline.remaining_ms()))
        request = question.request(items, timeout_ms)
        try:
            call = self._call(broker, request, question)
            response = await self._within(attempt.deadline, question.what, call)
        except UnsupportedVersion as error:
            if question.older is None:
                attempt.fail(items, error)
            else:
                await self._ask(items, question.older, attempt)
            return
        except IllegalState:
            raise
        except KafkaError as error:
            attempt.fail(items, error)
            return
        answers: dict[K, V | KafkaError] = _read(question, BrokerAnswer(response, items, broker))
        attempt.answers.update(answers)

    async def _call(self, broker: int | None, request: Request[R], question: Question[K, V, R]) -> R:
        at_least, at_most = question.at_least, question.at_most
        if broker is None:
            return await self.cluster.call_any(request, at_least=at_least, at_most=at_most)
        return await self.cluster.call(broker, request, at_least=at_least, at_most=at_most)

    async def _look_around(self, attempt: _Round[K, V]) -> None:
        """Before the next attempt: have the brokers changed?

        Before the first contact there is nothing that could have: the attempt asks the same addresses.
        """
        is_lost = bool(attempt.unanswered) or any(
            isinstance(answer, KafkaError) and answer.code == ErrorCode.NOT_CONTROLLER
            for answer in attempt.answers.values()
        )
        if not is_lost or self.cluster.contact.is_missing:
            return
        try:
            await self._within(attempt.deadline, "", self.cluster.refresh())
        except IllegalState:
            raise
        except KafkaError:
            # The attempt will tell.
            pass

    async def _within(self, deadline: Deadline, what: str, call: Coroutine[Any, Any, T]) -> T:
        """A step of an attempt, given up when the whole call is."""
        try:
            async with asyncio.timeout(min(deadline.remaining_ms() / 1_000, MAX_WAIT_SECONDS)):
                return await call
        except KafkaError:
            # Some of them are TimeoutErrors too.
            raise
        except TimeoutError:
            raise _out_of_time(what, deadline) from None


def conclude(answers: Answers[K, V]) -> Outcomes[K, V]:
    """Outcomes of the whole call, unless it failed as a whole."""
    outcomes: Outcomes[K, V] = Outcomes(answers)
    if not outcomes.done and all(isinstance(error, NOT_ABOUT_ITEMS) for error in outcomes.errors.values()):
        outcomes.raise_any()
    return outcomes


def check(code: int, message: str | None = None, *, context: str) -> None:
    """Raise what a broker says, unless it says that all is well."""
    if code != ErrorCode.NONE:
        raise error_for(code, message, context=context)


def verdict(code: int, message: str | None, context: str, value: V) -> V | KafkaError:
    """The value, unless the broker says that there is none."""
    return value if code == ErrorCode.NONE else error_for(code, message, context=context)


def _read(question: Question[K, V, R], answer: BrokerAnswer[K, R]) -> dict[K, V | KafkaError]:
    try:
        said = question.read(answer)
    except KafkaError as error:
        return dict.fromkeys(answer.items, error)
    return {
        item: said[item] if item in said else KafkaError(f"{question.what}: the broker's answer leaves out {item}")
        for item in answer.items
    }


def _may_pass(item: K, question: Question[K, V, R], attempt: _Round[K, V], doubts: Deadline) -> bool:
    answer = attempt.answers[item]
    if not isinstance(answer, KafkaError):
        return False
    if item in attempt.unanswered:
        return answer.retriable
    return answer.code in question.passing and (answer.code not in DOUBTFUL or not doubts.is_over)


def _out_of_time(what: str, deadline: Deadline) -> TimedOut:
    return timed_out(f"gave up trying {what}", SETTING, int(deadline.timeout_ms))


def _is_out_of_time(error: KafkaError) -> bool:
    return isinstance(error, TimedOut) and error.code is None


def _too_late(what: str, deadline: Deadline, reason: KafkaError | None) -> KafkaError:
    if reason is None:
        return _out_of_time(what, deadline)
    if reason.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        # Not a matter of patience: the caller has a quota, and should hear of it.
        return reason
    error = timed_out(f"gave up trying {what}", SETTING, int(deadline.timeout_ms), f"last error: {reason}")
    error.__cause__ = reason
    return error
