"""From a frame to its handler and back to bytes."""

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from struct import Struct as Packed
from typing import Any

from levada.broker.broker import Broker
from levada.broker.fast_path import FastPath
from levada.broker.fetch_fast_path import FetchFastPath
from levada.broker.large_requests import HASHING, LONG_NAMES_BYTES, LargeRequests, encode_in_slices
from levada.broker.metrics import BrokerMetrics
from levada.broker.produce_fast_path import ProduceFastPath
from levada.broker.route import Request, Route
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.model.metrics import Registry
from levada.net.connection import ServerConnection
from levada.net.reply import CloseConnection, Reply
from levada.protocol.api import ApiKey, request_class, response_class
from levada.protocol.codec import BAD_BYTES, Piece, encode, encoder_of, limited_decoder_of, reason_of
from levada.protocol.declare import Message
from levada.protocol.errors import TooManyElements
from levada.protocol.headers import RequestHeader, decode_request_header, response_has_tags, skip_tags
from levada.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

FAST_PATHS: dict[int, type[FetchFastPath] | type[ProduceFastPath]] = {
    kind.api: kind for kind in (FetchFastPath, ProduceFastPath)
}

_VERSIONED_KEY = Packed(">hh")
_response_header = Packed(">i").pack


@dataclass(slots=True)
class VersionCodec:
    """All that a request of one API in one version takes, looked up once."""

    version: int
    has_tags: bool
    decode: Callable[[memoryview, int, int], tuple[Message, int]]
    encode: Callable[[object, Callable[[Piece], None]], None]
    header_end: bytes
    """What follows the correlation id in the response's header."""
    handle: Callable[[Any, Request], object]
    divided_above: int
    """Bytes of a request that is handled in parts, whatever it has in it."""
    fast_path: FastPath[Any, Any, Any] | None
    is_of_brokers: bool


class Dispatcher:
    def __init__(self, routes: dict[int, Route], broker: Broker, metrics: BrokerMetrics | None = None) -> None:
        self._routes = routes
        self._broker = broker
        self._api_metrics = (metrics or BrokerMetrics(Registry(), broker.clock.monotonic_ms())).apis
        self._perf_ns = broker.clock.perf_ns
        self._large = LargeRequests(self._api_metrics, self._perf_ns)
        self._codecs: dict[tuple[int, int], VersionCodec] = {}
        self._fast_paths: dict[bytes, FastPath[Any, Any, Any]] = {}
        """By the first four bytes of a frame: the API's key and its version."""

    def warm(self, api_keys: Iterable[ApiKey]) -> None:
        """Compile the codecs of the newest versions before the first client pays for it."""
        for api_key in api_keys:
            self._open_codec(self._routes[api_key], self._routes[api_key].versions[-1])

    def __call__(self, frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        started_ns = self._perf_ns()
        fast_path = self._fast_paths.get(frame[:4].tobytes())
        refusal: ApiError | None = None
        if fast_path is not None:
            try:
                reply = fast_path.answer(frame, started_ns)
                if reply is not None:
                    return reply
            except ApiError as error:
                refusal = error
        try:
            header = decode_request_header(frame)
            codec = self._codecs.get((header.api_key, header.api_version))
            if codec is None:
                route = self._routes.get(header.api_key)
                if route is None or header.api_version not in route.versions:
                    return _unsupported(header, route)
                codec = self._open_codec(route, header.api_version)
            if codec.is_of_brokers:
                self._refuse_if_no_broker(header, connection)
            position = header.body
            if codec.has_tags:
                position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
            # Bytes after the message are ignored, as Apache does: librdkafka sends some after a MetadataRequest.
            if len(frame) > codec.divided_above:
                return self._answer_large(header, frame, position, connection, started_ns)
            message, _ = codec.decode(frame, position, len(frame))
        except TooManyElements:
            return self._answer_large(header, frame, position, connection, started_ns)
        except BAD_BYTES as error:
            raise CloseConnection(reason_of(error)) from error
        request = self._request(header, connection)
        if refusal is not None:
            assert fast_path is not None
            handled = fast_path.refuse(message, request, refusal)
        else:
            if codec.fast_path is not None:
                codec.fast_path.learn(frame, header.client_id, message)
            handled = codec.handle(message, request)
        # A message is never awaitable, and `isawaitable` costs as much as all our counting.
        if not isinstance(handled, Message) and inspect.isawaitable(handled):
            later = asyncio.ensure_future(self._reply_later(codec, header, request, handled, len(frame), started_ns))
            return connection.hold_for(later) if request.is_held else later
        reply = None if handled is None else _reply(codec, header, handled)
        duration_ns = self._perf_ns() - started_ns
        self._api_metrics[header.api_key].record(codec.version, len(frame), duration_ns, handled)
        return reply

    def _answer_large(
        self, header: RequestHeader, frame: memoryview, position: int, connection: ServerConnection, started_ns: int
    ) -> "asyncio.Future[Reply]":
        """In slices, and no request behind it is begun before: it may be about the same things."""
        route = self._routes[header.api_key]
        request = self._request(header, connection)
        kept = connection.keep(frame)
        answering = self._large.answer(route, header, request, kept, position, started_ns)
        return connection.hold_for(asyncio.ensure_future(answering))

    def _refuse_if_no_broker(self, header: RequestHeader, connection: ServerConnection) -> None:
        """What only brokers may ask: over their listener, and once they are known by their registration."""
        if not connection.serves_brokers:
            raise CloseConnection(f"api key {header.api_key} is for brokers, on another listener")
        is_known = self._broker.controller.knows_broker(header.client_id)
        if not is_known and header.api_key != ApiKey.BROKER_REGISTRATION:
            raise CloseConnection(f"api key {header.api_key} is for brokers, and {header.client_id!r} is none")

    def _request(self, header: RequestHeader, connection: ServerConnection) -> Request:
        version, client_id = header.api_version, header.client_id
        return Request(version, client_id, connection.peer, self._broker, self._routes, connection.listener)

    def _open_codec(self, route: Route, version: int) -> VersionCodec:
        has_tags = response_has_tags(route.api_key, version)
        codec = self._codecs[route.api_key, version] = VersionCodec(
            version=version,
            has_tags=version >= route.flexible_since,
            decode=limited_decoder_of(request_class(route.api_key), version),
            encode=encoder_of(response_class(route.api_key), version),
            header_end=b"\0" if has_tags else b"",
            handle=route.handle,
            divided_above=LONG_NAMES_BYTES if route.api_key in HASHING else sys.maxsize,
            fast_path=self._open_fast_path(route.api_key, version),
            is_of_brokers=route.is_of_brokers,
        )
        return codec

    def _open_fast_path(self, api_key: int, version: int) -> FastPath[Any, Any, Any] | None:
        kind = FAST_PATHS.get(api_key)
        if kind is None or version not in kind.versions:
            return None
        fast_path = kind(self._broker, self._api_metrics, version)
        self._fast_paths[_VERSIONED_KEY.pack(api_key, version)] = fast_path
        return fast_path

    async def _reply_later(
        self,
        codec: VersionCodec,
        header: RequestHeader,
        request: Request,
        handled: Awaitable[object],
        size: int,
        started_ns: int,
    ) -> Reply:
        parked_ns = self._perf_ns()
        response = await handled
        remote_ns = self._perf_ns() - parked_ns
        if response is None:
            reply: Reply = None
        elif request.is_large:
            reply = await encode_in_slices(response, codec.version, header)
        else:
            reply = _reply(codec, header, response)
        local_ns = self._perf_ns() - started_ns - remote_ns
        self._api_metrics[header.api_key].record_waited(codec.version, size, local_ns, remote_ns, response)
        return reply


def _reply(codec: VersionCodec, header: RequestHeader, response: object) -> Reply:
    pieces: list[Piece] = [_response_header(header.correlation_id) + codec.header_end]
    codec.encode(response, pieces.append)
    return pieces


def _unsupported(header: RequestHeader, route: Route | None) -> Reply:
    """Only a client that asks for versions can be told; no other could read the answer."""
    if route is None or header.api_key != ApiKey.API_VERSIONS:
        raise CloseConnection(f"api key {header.api_key} version {header.api_version} is not served")
    versions = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=route.versions[0], max_version=route.versions[-1])
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[versions])
    return [_response_header(header.correlation_id), *encode(response, 0)]
