"""The client's side of a connection: requests out, responses matched to them."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from levada.model.buffers import LentBuffers
from levada.net.frames import SCRATCH_SIZE, FrameReader, InvalidFrame
from levada.net.writelines import writelines_of
from levada.protocol.api import response_class
from levada.protocol.codec import decode_prefix, encode
from levada.protocol.declare import Message, Request
from levada.protocol.errors import CodecError
from levada.protocol.headers import decode_response_header, encode_request_header, response_has_tags
from levada.world.net import Net

T = TypeVar("T")

MAX_RESPONSE_BYTES = 2**31 - 1
EAGER_UP_TO = 64 << 20
"""A broker's word for the size of its answer is taken up to here."""
JOINED_UP_TO = 32 << 10
"""Below that, one more copy costs less than one more piece."""


class ChannelClosed(Exception):
    """The connection is gone; whether the request was carried out is not known."""


class NotAResponse(ChannelClosed):
    """What came is nothing that a broker sends, or not what was due; the connection is given up."""


@dataclass(frozen=True, slots=True)
class _Call:
    api_key: int
    version: int
    correlation_id: int
    answer: "asyncio.Future[Any]"


class Channel(asyncio.BufferedProtocol):
    """Many calls may be under way; a broker answers them in order."""

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id
        self._buffers = LentBuffers()
        self._reader = FrameReader(bytearray(SCRATCH_SIZE), MAX_RESPONSE_BYTES, self._buffers, eager_up_to=EAGER_UP_TO)
        self._calls: deque[_Call] = deque()
        self._next_correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self.is_congested = False
        """Whether the other side takes its time, so that what is written stays in memory here."""
        self.on_drained: Callable[[], None] | None = None
        """Called once, when that is over."""

    @classmethod
    async def connect(cls, net: Net, host: str, port: int, client_id: str | None = "levada") -> "Channel":
        channel = cls(client_id)
        await net.connect(host, port, lambda: channel)
        return channel

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def call(self, request: Request[T], version: int) -> T:
        """Send a request and wait for its response."""
        return await self.send(request, version)

    def send(self, request: Request[T], version: int) -> "asyncio.Future[T]":
        """Send a request now; the future has its response, or ChannelClosed."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        call = _Call(request.api_key, version, self._take_correlation_id(), answer)
        self._write(request, version, call.correlation_id)
        self._calls.append(call)
        return answer

    def send_without_answer(self, request: Message, version: int) -> None:
        """Send what a broker does not answer: Produce with acks=0."""
        self._write(request, version, self._take_correlation_id())

    def limit_responses(self, max_bytes: int) -> None:
        """Give the connection up when a response claims to be larger."""
        self._reader.limit(max_bytes)

    def set_buffers(self, send_bytes: int, receive_bytes: int) -> None:
        """Bound the socket's buffers; below 0 the system chooses, which mostly does better."""
        own = self._transport.get_extra_info("socket") if self._transport is not None else None
        for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
            if own is not None and size >= 0:
                own.setsockopt(socket.SOL_SOCKET, option, size)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        self.is_congested = True

    def resume_writing(self) -> None:
        self.is_congested = False
        tell, self.on_drained = self.on_drained, None
        if tell is not None:
            tell()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.resume_writing()
        for call in self._calls:
            if not call.answer.done():
                call.answer.set_exception(ChannelClosed(str(exc or "closed by the other side")))
        self._calls.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.received(nbytes)
        try:
            while (frame := self._reader.next_frame()) is not None:
                # The answer outlives this turn, and its records are views of a large frame, which has a buffer of its
                # own until the last of them is gone; a small frame lies in memory that is used for the next one.
                finished = self._reader.take_finished()
                if finished is None:
                    self._answer(bytes(frame))
                else:
                    self._answer(frame)
                    self._buffers.give(finished)
            if self._reader.announced:
                self._reader.begin()
        except (CodecError, InvalidFrame) as error:
            self._fail(error)
        self._reader.park()

    def _take_correlation_id(self) -> int:
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        return self._next_correlation_id

    def _write(self, request: Message, version: int, correlation_id: int) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ChannelClosed("the connection is closed")
        header = encode_request_header(request.api_key, version, correlation_id, self._client_id)
        pieces: list[Any] = encode(request, version)
        size = len(header) + sum(map(len, pieces))
        whole = [size.to_bytes(4, "big"), header, *pieces]
        if size <= JOINED_UP_TO:
            self._transport.write(b"".join(whole))
        else:
            # uvloop sends the pieces as they are; the caller leaves them alone until there is an answer.
            writelines_of(self._transport)(whole)

    def _answer(self, frame: bytes | memoryview) -> None:
        if not self._calls:
            raise InvalidFrame("a response without a request")
        call = self._calls.popleft()
        try:
            has_tags = response_has_tags(call.api_key, call.version)
            correlation_id, position = decode_response_header(frame, has_tags=has_tags)
            if correlation_id != call.correlation_id:
                raise InvalidFrame(f"response {correlation_id} where {call.correlation_id} was due")
            response, _ = decode_prefix(response_class(call.api_key), call.version, frame, position)
        except (CodecError, InvalidFrame) as error:
            if not call.answer.done():
                call.answer.set_exception(NotAResponse(str(error)))
            raise
        if not call.answer.done():
            call.answer.set_result(response)

    def _fail(self, error: Exception) -> None:
        """Nothing after a broken response can be trusted."""
        for call in self._calls:
            if not call.answer.done():
                call.answer.set_exception(NotAResponse(str(error)))
        self._calls.clear()
        self.close()
