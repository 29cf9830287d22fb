"""The broker's side of its connections, where a test can cut them and keep replies from leaving."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from levada.model.buffers import Buffer
from levada.net.writelines import writelines_of
from levada.world.net import BACKLOG
from levada.world.real_net import RealListener, RealNet

RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, no time: the peer sees a reset and not an orderly end."""

CLIENT_LENGTH_AT: Final = 12
"""Behind the frame's size, the API key, its version and the correlation id."""
EVERYBODY: Final = None

ConnectionFactory = Callable[[], asyncio.BufferedProtocol]


class GuardedNet:
    """The Net door: real sockets, with a hand on each connection. Only to be used by the loop's thread."""

    def __init__(self) -> None:
        self._real = RealNet()
        self._listeners: list[RealListener] = []
        self._guards: dict[_Guard, None] = {}
        self._made: list[asyncio.Transport] = []
        """Connections of the broker's own, to other brokers."""
        self.descriptors: set[int] = set()
        """Of the open connections."""
        self._cut: set[str | None] = set()
        self._mute: set[str | None] = set()

    async def listen(
        self, host: str, port: int, connection_factory: ConnectionFactory, backlog: int = BACKLOG
    ) -> RealListener:
        listener = await self._real.listen(host, port, lambda: _Guard(self, connection_factory()), backlog)
        self._listeners.append(listener)
        return listener

    async def connect(self, host: str, port: int, connection_factory: ConnectionFactory) -> asyncio.Transport:
        transport = await self._real.connect(host, port, connection_factory)
        self._made = [*(one for one in self._made if not one.is_closing()), transport]
        return transport

    # Faults

    def cut(self, client_id: str | None) -> None:
        """Reset the connections of a client, or all, and every new one as soon as it is known whose it is."""
        self._cut.add(client_id)
        for guard in list(self._guards):
            if self.is_cut(guard.client_id):
                guard.hang_up()

    def mute(self, client_id: str | None) -> None:
        """Let requests of a client, or all, come in, and no reply out."""
        self._mute.add(client_id)

    def heal(self) -> None:
        """All is well again, but for connections that have lost a reply: a client could not place the next one."""
        self._cut.clear()
        self._mute.clear()
        for guard in list(self._guards):
            if guard.has_lost_replies:
                guard.hang_up()

    def is_cut(self, client_id: str | None) -> bool:
        return EVERYBODY in self._cut or client_id in self._cut

    def is_mute(self, client_id: str | None) -> bool:
        return EVERYBODY in self._mute or client_id in self._mute

    def abandon(self) -> None:
        """Close every socket without a word to the broker, which is dead."""
        for listener in self._listeners:
            listener.close()
        for guard in list(self._guards):
            guard.abandon()
        for transport in self._made:
            transport.abort()

    # The guards' calls

    def opened(self, guard: "_Guard") -> None:
        self._guards[guard] = None
        self.descriptors.add(guard.descriptor)

    def closed(self, guard: "_Guard") -> None:
        self._guards.pop(guard, None)
        self.descriptors.discard(guard.descriptor)


class _Guard(asyncio.BufferedProtocol):
    """Between a socket and the broker's connection. It knows the client by its first request."""

    def __init__(self, net: GuardedNet, inner: asyncio.BufferedProtocol) -> None:
        self.client_id = ""
        """Empty until it is known, or if the client has none."""
        self.has_lost_replies = False
        self.descriptor = -1
        self._net = net
        self._inner: asyncio.BufferedProtocol | None = inner
        self._transport: asyncio.Transport
        self._head: bytearray | None = bytearray()
        """What has come so far, as long as the client's id is not in it."""
        self._buffer: Any = None

    # The socket's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.descriptor = transport.get_extra_info("socket").fileno()
        self._net.opened(self)
        if self._net.is_cut(self.client_id):
            self._inner = None
            self.hang_up()
        elif self._inner is not None:
            self._inner.connection_made(_GuardedTransport(self._transport, self))

    def connection_lost(self, exc: Exception | None) -> None:
        self._net.closed(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> Buffer:
        assert self._inner is not None, "nothing is read once it was hung up"
        buffer = self._inner.get_buffer(sizehint)
        if self._head is not None:
            self._buffer = buffer
        return cast(Buffer, buffer)

    def buffer_updated(self, nbytes: int) -> None:
        assert self._inner is not None, "nothing is read once it was hung up"
        if self._head is not None:
            self._learn(self._head, nbytes)
            if self._net.is_cut(self.client_id):
                self.hang_up()
                return
        self._inner.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    # The net's calls

    def hang_up(self) -> None:
        found = self._transport.get_extra_info("socket")
        if found is not None and not self._transport.is_closing():
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._transport.abort()

    def abandon(self) -> None:
        self._inner = None
        self.hang_up()

    def lets_out(self) -> bool:
        """Whether a reply may leave; if not, it is gone."""
        if self._net.is_mute(self.client_id):
            self.has_lost_replies = True
        return not self.has_lost_replies

    def _learn(self, head: bytearray, nbytes: int) -> None:
        head += memoryview(self._buffer)[:nbytes]
        self._buffer = None
        text_at = CLIENT_LENGTH_AT + 2
        if len(head) < text_at:
            return
        size = max(int.from_bytes(head[CLIENT_LENGTH_AT:text_at], signed=True), 0)
        if len(head) >= text_at + size:
            self.client_id = head[text_at : text_at + size].decode(errors="replace")
            self._head = None


class _GuardedTransport(asyncio.Transport):
    """The transport that the broker sees: what it writes may be kept from leaving."""

    def __init__(self, transport: asyncio.Transport, guard: _Guard) -> None:
        super().__init__()
        self._transport = transport
        self._writelines = writelines_of(transport)
        self._guard = guard
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]
        self.is_closing = transport.is_closing  # type: ignore[method-assign]
        self.close = transport.close  # type: ignore[method-assign]
        self.abort = transport.abort  # type: ignore[method-assign]
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]
        self.get_write_buffer_size = transport.get_write_buffer_size  # type: ignore[method-assign]

    def write(self, data: Buffer) -> None:
        if self._guard.lets_out():
            self._transport.write(data)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        if self._guard.lets_out():
            self._writelines(list_of_data)
