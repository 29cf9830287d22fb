"""Clients that follow the schemas with wild values: every answer must be one, in the version that was asked in."""

import asyncio
import random
from collections import Counter
from typing import Any

from levada.broker.response_errors import error_counter
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, response_class
from levada.protocol.codec import decode_prefix
from levada.protocol.errors import CodecError
from levada.protocol.headers import decode_response_header, response_has_tags
from tests.fuzz.streams import ROUTES, mutated, request
from tests.fuzz.values import Values
from tests.fuzz.wire import joined, tokens

PARKED_SECONDS = 0.3
"""An answer that takes longer may be one that has to wait for others; it is not waited for."""

NO_REPLY = 0
LARGE_COMMIT = 256 * 1024

FAMILIES: tuple[tuple[int, ...], ...] = (
    (
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.LEAVE_GROUP,
    ),
    (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FOR_LEADER_EPOCH),
)
"""Requests that make most sense one after the other."""


class WrongAnswer(Exception):
    """A broker said something that no client could understand."""


class Talk:
    """One connection with a few requests, each after the answer to the one before."""

    def __init__(self, chance: random.Random, values: Values) -> None:
        self._chance = chance
        self._values = Values(values)
        self._last_api: int = ApiKey.API_VERSIONS
        self.sent: list[bytes] = []
        self.own_port = 0
        self.was_refused = False
        """Whether the broker closed the connection, though all that was sent followed its schema."""

    async def run(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self.own_port = writer.get_extra_info("sockname")[1]
        try:
            for number in range(self._chance.randrange(1, 8)):
                if not await self._ask(number, reader, writer):
                    break
            if self._chance.random() < 0.3:
                self._send(writer, mutated(self._chance, self._random_request(99)[2]))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            self.was_refused = True
        finally:
            writer.transport.abort()

    async def _ask(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether there is an answer, so that another question makes sense."""
        api_key, version, frame, message = self._random_request(number)
        self._send(writer, frame)
        self._values.learn_from(message)
        if api_key == ApiKey.PRODUCE and message.acks == NO_REPLY:
            return True
        try:
            async with asyncio.timeout(PARKED_SECONDS):
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await reader.readexactly(size)
        except TimeoutError:
            return False
        response, codes = _understood(answer, api_key, version, number)
        if ErrorCode.UNKNOWN_SERVER_ERROR in codes and not _may_be_unknown(api_key, message):
            raise WrongAnswer(f"{ApiKey(api_key).title} v{version}: an error without a name")
        self._values.learn_from(response)
        if api_key == ApiKey.FETCH:
            self._values.learn("session_epoch", [min(max(message.session_epoch, 0), 2**31 - 2) + 1])
        return True

    def _random_request(self, correlation_id: int) -> tuple[int, int, bytes, Any]:
        """The API, its version, the frame and the message in it; often of the same family as the last."""
        chance = self._chance
        family = next((one for one in FAMILIES if self._last_api in one), ()) if chance.random() < 0.6 else ()
        route = ROUTES[chance.choice(family or tuple(ROUTES))]
        self._last_api = route.api_key
        version = chance.choice(route.versions)
        message = self._values.message(chance, route.message, version)
        frame = request(route, version, joined(tokens(message, version)), correlation_id=correlation_id)
        return route.api_key, version, frame, message

    def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        self.sent.append(frame)
        writer.write(frame)


def _may_be_unknown(api_key: int, message: Any) -> bool:
    """Where Apache answers by that code too: a commit larger than a batch, a subscription that cannot be read."""
    is_commit = api_key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
    return api_key == ApiKey.JOIN_GROUP or (is_commit and _bytes_to_keep(message) > LARGE_COMMIT)


def _bytes_to_keep(commit: Any) -> int:
    """About what its records take in the log: each names its group and its topic, though the request does so once."""
    return sum(
        len(commit.group_id.encode())
        + len((topic.name or "").encode())
        + len((offset.committed_metadata or "").encode())
        for topic in commit.topics
        for offset in topic.partitions
    )


def _understood(answer: bytes, api_key: int, version: int, correlation_id: int) -> tuple[Any, Counter[int]]:
    """The response, and the error codes in it."""
    name = f"{ApiKey(api_key).title} v{version}"
    try:
        echoed, position = decode_response_header(answer, has_tags=response_has_tags(api_key, version))
        response, end = decode_prefix(response_class(api_key), version, answer, position)
    except CodecError as error:
        raise WrongAnswer(f"{name}: {error}: {answer[:200].hex()}") from error
    if echoed != correlation_id or end != len(answer):
        raise WrongAnswer(f"{name}: correlation id {echoed} for {correlation_id}, {len(answer) - end} bytes too many")
    codes: Counter[int] = Counter()
    error_counter(type(response))(response, codes)
    return response, codes
