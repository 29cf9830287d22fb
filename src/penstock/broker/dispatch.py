"""From a frame to its handler and back to bytes."""

import asyncio
import inspect
from collections.abc import Awaitable, Iterable
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.metrics import BrokerMetrics
from penstock.broker.route import Request, Route
from penstock.model.errors import ErrorCode
from penstock.model.metrics import Registry
from penstock.net.connection import CloseConnection, Reply, ServerConnection
from penstock.protocol.api import ApiKey, request_class, response_class
from penstock.protocol.codec import decode_prefix, decoder_of, encode, encoder_of
from penstock.protocol.declare import Message
from penstock.protocol.errors import CodecError
from penstock.protocol.headers import (
    RequestHeader,
    decode_request_header,
    encode_response_header,
    response_has_tags,
    skip_tags,
)
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


class Dispatcher:
    def __init__(self, routes: dict[int, Route], broker: Broker, metrics: BrokerMetrics | None = None) -> None:
        self._routes = routes
        self._broker = broker
        self._api_metrics = (metrics or BrokerMetrics(Registry(), broker.clock.monotonic_ms())).apis
        self._perf_ns = broker.clock.perf_ns

    def warm(self, api_keys: Iterable[ApiKey]) -> None:
        """Compile the codecs of the newest versions before the first client pays for it."""
        for api_key in api_keys:
            version = self._routes[api_key].versions[-1]
            decoder_of(request_class(api_key), version)
            encoder_of(response_class(api_key), version)

    def __call__(self, frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        started_ns = self._perf_ns()
        try:
            header = decode_request_header(frame)
            route = self._routes.get(header.api_key)
            if route is None or header.api_version not in route.versions:
                return _unsupported(header, route)
            if header.api_version >= route.flexible_since:
                header.body = skip_tags(frame, header.body)
            # Bytes after the message are ignored, as Apache does: librdkafka sends some after a MetadataRequest.
            message, _ = decode_prefix(route.message, header.api_version, frame, header.body)
        except CodecError as error:
            raise CloseConnection(str(error)) from error
        request = Request(header.api_version, header.client_id, connection.peer, self._broker, self._routes)
        handled = route.handle(message, request)
        # A message is never awaitable, and `isawaitable` costs as much as all our counting.
        if not isinstance(handled, Message) and inspect.isawaitable(handled):
            return asyncio.ensure_future(self._reply_later(header, handled, len(frame), started_ns, self._perf_ns()))
        reply = None if handled is None else _reply(header, handled)
        duration_ns = self._perf_ns() - started_ns
        self._api_metrics[header.api_key].record(header.api_version, len(frame), duration_ns, handled)
        return reply

    async def _reply_later(
        self, header: RequestHeader, handled: Awaitable[Any], size: int, started_ns: int, parked_ns: int
    ) -> Reply:
        response = await handled
        remote_ns = self._perf_ns() - parked_ns
        reply = None if response is None else _reply(header, response)
        local_ns = self._perf_ns() - started_ns - remote_ns
        self._api_metrics[header.api_key].record_waited(header.api_version, size, local_ns, remote_ns, response)
        return reply


def _reply(header: RequestHeader, response: Any) -> Reply:
    has_tags = response_has_tags(header.api_key, header.api_version)
    pieces = encode(response, header.api_version)
    pieces.insert(0, encode_response_header(header.correlation_id, has_tags=has_tags))
    return pieces


def _unsupported(header: RequestHeader, route: Route | None) -> Reply:
    """Only a client that asks for versions can be told; nobody else could read the answer."""
    if route is None or header.api_key != ApiKey.API_VERSIONS:
        raise CloseConnection(f"api key {header.api_key} version {header.api_version} is not served")
    versions = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=route.versions[0], max_version=route.versions[-1])
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[versions])
    return [encode_response_header(header.correlation_id, has_tags=False), *encode(response, 0)]
