"""The HTTP port for monitoring a node: metrics, health and readiness."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from urllib.parse import parse_qs

from levada.model.config import ConfigError
from levada.model.metrics import Registry, Sample, matches
from levada.world.net import Listener, Net

if TYPE_CHECKING:
    from types import ModuleType

logger = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 64
SLICE: Final = 100
"""Metrics that are read in one go."""

RECEIVE_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
SEND_SECONDS: Final = 30.0

PLAIN: Final = "text/plain; charset=utf-8"
END_OF_HEADERS: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN


class MetricsEndpoint:
    """`/metrics` is for Prometheus, `/jmx` for `levada metrics`, `/health` and `/ready` for a supervisor."""

    def __init__(self, registry: Registry, is_ready: Callable[[], bool]) -> None:
        self._registry = registry
        self._is_ready = is_ready
        self._listener: Listener | None = None
        self._connections: dict[HttpConnection, None] = {}

    @property
    def port(self) -> int:
        assert self._listener is not None, "the endpoint has not been started"
        return self._listener.port

    async def start(self, net: Net, host: str, port: int) -> None:
        """Open the port; ConfigError without the library that writes Prometheus's format."""
        _prometheus()
        self._listener = await net.listen(host, port, lambda: HttpConnection(self._answer, self._connections))
        await self._listener.start()

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.abort()

    async def _answer(self, target: str) -> HttpResponse:
        path, _, query = target.partition("?")
        if path == "/metrics":
            prometheus = _prometheus()
            body: bytes = await prometheus.render(await self._collect())
            return HttpResponse(HTTPStatus.OK, body, prometheus.CONTENT_TYPE)
        if path == "/jmx":
            body = await self._beans(parse_qs(query).get("pattern", []))
            return HttpResponse(HTTPStatus.OK, body, "application/json")
        if path == "/health":
            return HttpResponse(HTTPStatus.OK, b"healthy\n")
        if path == "/ready":
            if self._is_ready():
                return HttpResponse(HTTPStatus.OK, b"ready\n")
            return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, b"not ready\n")
        return HttpResponse(HTTPStatus.NOT_FOUND, b"try /metrics, /jmx, /health or /ready\n")

    async def _beans(self, patterns: list[str]) -> bytes:
        """The attributes of each MBean that fits one of the patterns; of all where there is none."""
        named = [(reading.name, reading.attributes) for reading in await self._collect()]
        wanted = {
            name: attributes
            for name, attributes in named
            if not patterns or any(matches(pattern, name) for pattern in patterns)
        }
        return json.dumps(wanted).encode()

    async def _collect(self) -> list[Sample]:
        readings = []
        for reading in self._registry.collect():
            readings.append(reading)
            # Requests must not wait for thousands of partitions.
            if len(readings) % SLICE == 0:
                await asyncio.sleep(0)
        return readings


def _prometheus() -> "ModuleType":
    """Loaded late: a node without this port does without the library."""
    try:
        from levada.node import prometheus
    except ImportError as error:
        raise ConfigError(
            f"levada.metrics.port needs another package: pip install 'levada[metrics]' ({error})"
        ) from error
    return prometheus


Respond: TypeAlias = Callable[[str], Awaitable[HttpResponse]]


class HttpConnection(asyncio.BufferedProtocol):
    """One request, one response, and the end: a monitoring system scrapes every few seconds at most."""

    def __init__(self, respond: Respond, connections: "dict[HttpConnection, None]") -> None:
        self._respond = respond
        self._connections = connections
        self._buffer = bytearray(MAX_REQUEST_BYTES)
        self._received = 0
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections[self] = None
        self._end_after(RECEIVE_SECONDS)
        if len(self._connections) > MAX_CONNECTIONS:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        self._received += nbytes
        end = self._buffer.find(END_OF_HEADERS, 0, self._received)
        if end >= 0:
            self._handle(bytes(self._buffer[:end]))
        elif self._received == len(self._buffer):
            self._send(HttpResponse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the request is too large\n"))
        elif not self._buffer[:1].isalpha():
            self._send(HttpResponse(HTTPStatus.BAD_REQUEST, b"this port speaks HTTP\n"))

    def abort(self) -> None:
        self._transport.abort()

    def _handle(self, request: bytes) -> None:
        method, _, rest = request.partition(b"\r\n")[0].partition(b" ")
        target, _, version = rest.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not target.isascii():
            self._send(HttpResponse(HTTPStatus.BAD_REQUEST, b"this port speaks HTTP\n"))
        elif method != b"GET":
            self._send(HttpResponse(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET is served\n"))
        else:
            self._transport.pause_reading()
            self._end_after(ANSWER_SECONDS)
            self._task = asyncio.get_running_loop().create_task(self._run(target.decode()))

    async def _run(self, target: str) -> None:
        try:
            answer = await self._respond(target)
        except Exception:
            logger.exception("failed to answer target=%r", target)
            answer = HttpResponse(HTTPStatus.INTERNAL_SERVER_ERROR, b"see the node's log\n")
        self._send(answer)

    def _send(self, answer: HttpResponse) -> None:
        head = (
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n"
            "Allow: GET\r\n"
            "Connection: close\r\n\r\n"
        )
        # Closing waits for the client to take all of it, however slowly, so that needs an end too.
        self._end_after(SEND_SECONDS)
        self._transport.write(head.encode() + answer.body)
        self._transport.close()

    def _end_after(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._transport.abort)
