"""Requests of so many elements that all of them in one turn would hold the event loop.

They are decoded, handled and encoded in slices, with turns for others in between. What is about many topics, groups or
ids one by one is handed to its handler in parts, as if the client had sent several requests one after the other, and
their responses are put together again.
"""

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from levada.broker.metrics import ApisCalled
from levada.broker.route import Request, Route
from levada.model.buffers import Buffer
from levada.model.error_codes import ErrorCode
from levada.net.reply import CloseConnection, Reply
from levada.protocol.api import ApiKey, request_class, response_class
from levada.protocol.codec import BAD_BYTES, Piece, reason_of, sliced_decoder_of, sliced_encoder_of
from levada.protocol.declare import Message, Struct
from levada.protocol.errors import TooManyElements
from levada.protocol.headers import RequestHeader, encode_response_header, response_has_tags
from levada.protocol.runtime import new_count
from levada.protocol.schema import fields_of
from levada.world.disk import FileRange

MAX_ELEMENTS: Final = 1_000_000
"""A request with more is refused: each takes some hundred bytes of memory while it is handled."""
MAX_UNDIVIDED: Final = 10_000
"""Of what a handler must have as a whole."""
HUGE_BYTES: Final = 256 * 1024
"""Requests above this are decoded and handled one after the other, whatever number of clients sends them."""
WAITING: Final = frozenset((ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))
"""Clients choose how long an answer to these waits for something to happen: no other request waits with it."""
HASHING: Final = frozenset(
    (
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_FETCH,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
    )
)
"""What these name is hashed letter by letter, to find who coordinates it: a few hundred long names take long."""
LONG_NAMES_BYTES: Final = 64 * 1024
"""Of a request, which is divided then though it has few elements."""
FREED_AT_ONCE: Final = 5_000
PART: Final = 500
"""How many elements a handler is given at once."""
TEXT_OF_ELEMENT: Final = 64
"""Characters that take about as long as an element."""

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """Where the elements of a request lie that do not depend on each other, and where their answers do."""

    asked: Path
    answered: Path


DIVISIONS: Final = MappingProxyType(
    {
        ApiKey.PRODUCE: (Division(("topic_data", "partition_data"), ("responses", "partition_responses")),),
        ApiKey.LIST_OFFSETS: (Division(("topics", "partitions"), ("topics", "partitions")),),
        ApiKey.METADATA: (Division(("topics",), ("topics",)),),
        ApiKey.OFFSET_FETCH: (
            Division(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
            Division(("topics", "partition_indexes"), ("topics", "partitions")),
        ),
        ApiKey.FIND_COORDINATOR: (Division(("coordinator_keys",), ("coordinators",)),),
        ApiKey.LEAVE_GROUP: (Division(("members",), ("members",)),),
        ApiKey.DESCRIBE_GROUPS: (Division(("groups",), ("groups",)),),
        ApiKey.DELETE_TOPICS: (Division(("topics",), ("responses",)), Division(("topic_names",), ("responses",))),
        ApiKey.DELETE_RECORDS: (Division(("topics", "partitions"), ("topics", "partitions")),),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (Division(("topics", "partitions"), ("topics", "partitions")),),
        ApiKey.ADD_PARTITIONS_TO_TXN: (Division(("transactions",), ("results_by_transaction",)),),
        ApiKey.DESCRIBE_CONFIGS: (Division(("resources",), ("results",)),),
        ApiKey.ALTER_CONFIGS: (Division(("resources",), ("responses",)),),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (Division(("resources",), ("responses",)),),
        ApiKey.ALTER_REPLICA_LOG_DIRS: (Division(("dirs", "topics", "partitions"), ("results", "partitions")),),
        ApiKey.DELETE_GROUPS: (Division(("groups_names",), ("results",)),),
        ApiKey.ELECT_LEADERS: (
            Division(("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),
        ),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (Division(("topics", "partitions"), ("responses", "partitions")),),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (Division(("topics",), ("topics",)),),
        ApiKey.OFFSET_DELETE: (Division(("topics", "partitions"), ("topics", "partitions")),),
        ApiKey.DESCRIBE_PRODUCERS: (Division(("topics", "partition_indexes"), ("topics", "partitions")),),
        ApiKey.DESCRIBE_TRANSACTIONS: (Division(("transactional_ids",), ("transaction_states",)),),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (Division(("group_ids",), ("groups",)),),
    }
)
"""Of each API; where the protocol has renamed a field, the one that is there counts."""

MAX_BY_API: Final = MappingProxyType(
    {
        # How many new partitions may be asked for is a rule about the whole request.
        ApiKey.CREATE_TOPICS: 50_000,
        ApiKey.CREATE_PARTITIONS: 50_000,
        ApiKey.DESCRIBE_CONFIGS: 200_000,
        ApiKey.FETCH: 200_000,
        # One batch of a coordinator keeps all that a commit names, and what does not fit is refused.
        ApiKey.OFFSET_COMMIT: 100_000,
        ApiKey.TXN_OFFSET_COMMIT: 100_000,
        ApiKey.WRITE_TXN_MARKERS: 100_000,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: 50_000,
        ApiKey.DESCRIBE_LOG_DIRS: 50_000,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: 20_000,
    }
)
"""In place of MAX_UNDIVIDED where a handler makes little of an element, or pauses itself."""


class LargeRequests:
    def __init__(self, apis: ApisCalled, perf_ns: Callable[[], int]) -> None:
        self._apis = apis
        self._perf_ns = perf_ns
        self._huge = asyncio.Lock()

    async def answer(
        self, route: Route, header: RequestHeader, request: Request, frame: Buffer, position: int, started_ns: int
    ) -> Reply:
        """The encoded response, without the size of the frame; None where the protocol sends nothing."""
        if len(frame) <= HUGE_BYTES:
            message, elements = await _decode(route, request.version, frame, position)
            return await self._answer(route, header, request, message, elements, len(frame), started_ns)
        async with self._huge:
            message, elements = await _decode(route, request.version, frame, position)
            if route.api_key not in WAITING:
                return await self._answer(route, header, request, message, elements, len(frame), started_ns)
        return await self._answer(route, header, request, message, elements, len(frame), started_ns)

    async def _answer(
        self,
        route: Route,
        header: RequestHeader,
        request: Request,
        message: Message,
        elements: int,
        size: int,
        started_ns: int,
    ) -> Reply:
        try:
            response, has_failed = await self._handle(route, message, request, elements)
        except TooManyElements as error:
            raise CloseConnection(str(error)) from error
        metrics = self._apis[route.api_key]
        metrics.record_sliced(request.version, size, self._perf_ns() - started_ns, has_failed=has_failed)
        if response is None:
            return None
        reply = await encode_in_slices(response, request.version, header)
        for division in DIVISIONS.get(route.api_key, ()):
            await _free(getattr(response, division.answered[0]))
        return reply

    async def _handle(self, route: Route, message: Message, request: Request, elements: int) -> tuple[object, bool]:
        """The response, and whether it has errors."""
        divisions = DIVISIONS.get(route.api_key, ())
        division = next((each for each in divisions if getattr(message, each.asked[0])), None)
        if division is None:
            if elements > MAX_BY_API.get(route.api_key, MAX_UNDIVIDED):
                raise TooManyElements(f"a {route.api_key.title} request of {elements} elements")
            response = await _handled(route, message, request)
            return response, response is not None and await self._has_errors(route, response)
        most = MAX_BY_API.get(route.api_key, MAX_UNDIVIDED)
        for _ in parts(getattr(message, division.asked[0]), division.asked[1:], PART, most):
            # What cannot be divided is found before anything is done.
            await asyncio.sleep(0)
        return await self._handle_parts(route, message, request, division, most)

    async def _has_errors(self, route: Route, response: object) -> bool:
        metrics = self._apis[route.api_key]
        for counted in metrics.count_errors_in_slices(response):
            has_errors = counted > 0
            await asyncio.sleep(0)
        return has_errors

    async def _handle_parts(
        self, route: Route, message: Message, request: Request, division: Division, most: int
    ) -> tuple[object, bool]:
        """The same; a part that is refused as a whole speaks for the request."""
        metrics = self._apis[route.api_key]
        first, has_failed = None, False
        name, *path = division.asked
        asked = getattr(message, name)
        for part in parts(asked, tuple(path), PART, most):
            one = copy.copy(message)
            setattr(one, name, part)
            response = await _handled(route, one, request)
            if response is not None:
                has_failed |= metrics.count_errors(response) > 0
                if getattr(response, "error_code", ErrorCode.NONE):
                    return response, True
                if first is None:
                    first = response
                else:
                    join(first, response, division.answered)
            await asyncio.sleep(0)
        await _free(asked)
        return first, has_failed


async def _decode(route: Route, version: int, frame: Buffer, position: int) -> tuple[Message, int]:
    """The message, and how many elements it has; CloseConnection if it cannot be read."""
    done = new_count()
    decoding = sliced_decoder_of(request_class(route.api_key), version)(frame, position, len(frame), done)
    while True:
        message = None
        try:
            next(decoding)
        except StopIteration as decoded:
            message = decoded.value[0]
        except BAD_BYTES as error:
            raise CloseConnection(reason_of(error)) from error
        if done[0] > MAX_ELEMENTS:
            raise CloseConnection(f"a request of more than {MAX_ELEMENTS} elements")
        if message is not None:
            return message, done[0]
        await asyncio.sleep(0)


async def _free(items: list[object] | None) -> None:
    """Bit by bit: to free all of it at once would be another long turn."""
    while items:
        del items[-FREED_AT_ONCE:]
        await asyncio.sleep(0)


async def _handled(route: Route, message: Message, request: Request) -> object:
    handled = route.handle(message, request)
    return await handled if inspect.isawaitable(handled) else handled


async def encode_in_slices(response: object, version: int, header: RequestHeader) -> list[Piece]:
    api_key = ApiKey(header.api_key)
    pieces: list[Piece] = [encode_response_header(header.correlation_id, has_tags=response_has_tags(api_key, version))]
    joined: list[Piece] = []
    for _ in sliced_encoder_of(response_class(api_key), version)(response, pieces.append):
        _move_joined(pieces, joined)
        await asyncio.sleep(0)
    _move_joined(pieces, joined)
    return joined


def _move_joined(pieces: list[Piece], joined: list[Piece]) -> None:
    """Small pieces as one; ranges of files stay as they are."""
    if any(isinstance(piece, FileRange) for piece in pieces):
        joined += pieces
    else:
        joined.append(b"".join(pieces))  # type: ignore[arg-type]
    pieces.clear()


def parts(items: Sequence[Any], path: Path, size: int, most: int = MAX_UNDIVIDED) -> Iterator[list[Any]]:
    """Lists that add up to `items`, with about `size` elements in each; TooManyElements in what cannot be divided.

    Long texts count as several: the name of a group, for one, is hashed to find its coordinator.
    """
    part: list[Any] = []
    room = size
    pieces = _pieces(items, path, size, most) if isinstance(items[0], Struct) else ((item, 1) for item in items)
    for item, elements in pieces:
        weight = elements + _text_in(item) // TEXT_OF_ELEMENT
        if part and weight > room:
            yield part
            part, room = [], size
        part.append(item)
        room -= weight
    if part:
        yield part


def _text_in(item: object) -> int:
    """How many characters there are in an element, beside those in the elements of its own."""
    if isinstance(item, str):
        return len(item)
    if not isinstance(item, Struct):
        return 0
    return sum(len(value) for field in fields_of(type(item)) if isinstance(value := getattr(item, field.name), str))


def _pieces(items: Sequence[Any], path: Path, size: int, most: int) -> Iterator[tuple[Any, int]]:
    """The items with the number of elements in each; one that has too many comes in copies with some of them."""
    for item in items:
        inner = getattr(item, path[0]) if path else None
        weight = 1 + (size if inner and len(inner) > size else elements_in(item, most))
        if not inner or weight <= size:
            if weight > most:
                raise TooManyElements(f"too many elements in one {type(item).__name__}")
            yield item, weight
            continue
        for part in parts(inner, path[1:], size, most):
            piece = copy.copy(item)
            setattr(piece, path[0], part)
            yield piece, 1 + elements_in(piece, most)


def elements_in(item: Any, most: int = MAX_ELEMENTS) -> int:
    """How many elements the arrays of a struct have, and those in them; not counted far above what is allowed."""
    count = 0
    for field in fields_of(type(item)):
        inner = getattr(item, field.name) if field.is_array else None
        if not inner:
            continue
        count += len(inner)
        for one in inner if field.struct is not None else ():
            if count > most:
                break
            count += elements_in(one, most)
    return count


def join(answered: object, more: object, path: Path) -> None:
    """Add the elements of another response; an item that was cut in two is one again."""
    items, others = getattr(answered, path[0]), getattr(more, path[0])
    if len(path) > 1 and items and others and _are_one(items[-1], others[0], path[1]):
        join(items[-1], others[0], path[1:])
        others = others[1:]
    items += others


def _are_one(one: Any, other: Any, parted: str) -> bool:
    return all(getattr(one, field.name) == getattr(other, field.name) for field in fields(one) if field.name != parted)
