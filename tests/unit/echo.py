"""An echo server and a client in the shape of Levada's connections: buffered protocols with flow control."""

import asyncio
from typing import cast


class EchoServer(asyncio.BufferedProtocol):
    """Sends back what it gets, and stops reading while its peer does not take it."""

    def __init__(self, buffer_size: int = 4096) -> None:
        self._buffer = bytearray(buffer_size)
        self.transport: asyncio.Transport
        self.lost: list[Exception | None] = []
        self.pauses = 0
        self.bytes_read = 0
        self._over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not isinstance: uvloop's transports do not derive from asyncio's.
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_read += nbytes
        self.transport.write(bytes(self._buffer[:nbytes]))

    def pause_writing(self) -> None:
        self.pauses += 1
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self._over.set()

    async def wait_lost(self) -> Exception | None:
        await self._over.wait()
        return self.lost[0]


class EchoClient(asyncio.BufferedProtocol):
    """Collects what comes back."""

    def __init__(self) -> None:
        self._buffer = bytearray(1000)
        self.received = bytearray()
        self.chunks: list[int] = []
        self.ended = False
        self.lost: list[Exception | None] = []
        self.can_write = asyncio.Event()
        self.can_write.set()
        self._changed = asyncio.Event()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        self.chunks.append(nbytes)
        self._changed.set()

    def eof_received(self) -> bool:
        self.ended = True
        self._changed.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self._changed.set()

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    async def expect(self, size: int) -> bytes:
        """The first `size` bytes received."""
        while len(self.received) < size:
            if self.lost:
                raise ConnectionError(f"lost after {len(self.received)} of {size} bytes") from self.lost[0]
            self._changed.clear()
            await self._changed.wait()
        return bytes(self.received[:size])

    async def wait_lost(self) -> Exception | None:
        while not self.lost:
            self._changed.clear()
            await self._changed.wait()
        return self.lost[0]
