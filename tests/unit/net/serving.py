"""A server of connections for tests: over real sockets, or with a transport that does only what it is told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from levada.model.buffers import Buffer
from levada.net.connection import Dispatch, ServerConnection
from levada.net.connection_settings import ConnectionSettings
from levada.net.open_connections import ConnectionLimits, OpenConnections
from levada.net.reply import Reply
from levada.net.request_memory import UNLIMITED, RequestMemory
from levada.world.net import BACKLOG, Net
from levada.world.real_async_disk import RealAsyncDisk
from levada.world.real_net import RealNet

SCRATCH = 256
"""Frames above this are large ones."""

HIGH_WATER = 64 * 1024

Session = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)


def echo(frame: memoryview, connection: ServerConnection) -> Reply:
    return [bytes(frame)]


class Server:
    """Connections that share what a node's connections share."""

    def __init__(
        self,
        dispatch: Dispatch,
        limits: ConnectionLimits | None = None,
        *,
        backlog: int = BACKLOG,
        memory_limit: int = UNLIMITED,
        max_frame_size: int = 1_000_000,
        poison: bool = True,
        net: Net | None = None,
    ) -> None:
        self._dispatch = dispatch
        self._net = net or RealNet()
        self.connections = OpenConnections(limits, backlog)
        self.memory = RequestMemory(memory_limit)
        self.settings = ConnectionSettings(bytearray(SCRATCH), max_frame_size, RealAsyncDisk(), poison, self.memory)
        self.made: list[ServerConnection] = []
        self.port = 0

    def make(self) -> ServerConnection:
        self.made.append(ServerConnection(self._dispatch, self.settings, self.connections))
        return self.made[-1]

    async def __aenter__(self) -> "Server":
        self._listener = await self._net.listen("127.0.0.1", 0, self.make)
        await self._listener.start()
        self.port = self._listener.port
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._listener.close()
        await self.connections.close(1)

    async def connect(self, from_ip: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client, once the server knows it."""
        known = len(self.made)
        client = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(from_ip, 0))
        while len(self.made) == known or self.made[-1].peer == "?":
            await asyncio.sleep(0)
        return client


class FakeTransport(asyncio.Transport):
    """Keeps what it is given until `drain`, and asks the protocol to pause as real ones do."""

    def __init__(self, protocol: asyncio.BufferedProtocol, ip: str = "10.0.0.1") -> None:
        super().__init__({"peername": (ip, 1234)})
        self._protocol = protocol
        self.written: list[bytes] = []
        self.unsent = 0
        self.keeps = False
        self._is_paused = False
        self.is_aborted = False
        self._is_closing = False
        self._is_full = False

    def receive(self, connection: ServerConnection, data: bytes) -> None:
        """What the client sends, as far as it is read."""
        while data and self.is_reading():
            with memoryview(connection.get_buffer(-1)) as buffer:
                count = min(len(buffer), len(data))
                buffer[:count] = data[:count]
            connection.buffer_updated(count)
            data = data[count:]

    def write(self, data: Buffer) -> None:
        self.written.append(bytes(data))
        if self.keeps:
            self.unsent += len(data)
        if self.unsent > HIGH_WATER and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def drain(self) -> None:
        """The client has read all."""
        self.unsent = 0
        if self._is_full:
            self._is_full = False
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self.is_aborted = True
        self.lose()

    def lose(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


def open_fake(server: Server, ip: str = "10.0.0.1") -> tuple[ServerConnection, FakeTransport]:
    connection = server.make()
    transport = FakeTransport(connection, ip)
    connection.connection_made(transport)
    return connection, transport


def run_session(dispatch: Dispatch, session: Session) -> Any:
    """A server with one client that runs `session`."""

    async def main() -> Any:
        async with Server(dispatch) as server:
            reader, writer = await server.connect()
            try:
                return await asyncio.wait_for(session(reader, writer), 20)
            finally:
                writer.close()

    return asyncio.run(main())
