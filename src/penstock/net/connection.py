"""One client's connection on the server's side: frames in, replies out in the order of their requests."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from penstock.model.buffers import Buffer
from penstock.net.frames import POISON, FrameReader, InvalidFrame
from penstock.protocol.codec import Piece
from penstock.world.disk import AsyncDisk, FileRange

logger = logging.getLogger(__name__)

MAX_REQUESTS_IN_PROGRESS = 64
"""A client that pipelines more waits; its bytes stay in the kernel's buffers."""

SEND_CHUNK = 256 * 1024
JOIN_BELOW = 16 * 1024

Reply: TypeAlias = list[Piece] | None
"""An encoded response without its size, or None where the protocol sends nothing."""

Dispatch: TypeAlias = Callable[[memoryview, "ServerConnection"], "Reply | asyncio.Future[Reply]"]
"""Handles one frame. The frame is valid until this returns; raising CloseConnection ends the connection."""


class CloseConnection(Exception):
    """The client broke the protocol in a way that has no answer."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    scratch: bytearray
    """Shared by all connections of a loop."""
    max_frame_size: int
    async_disk: AsyncDisk
    poison_frames: bool = False
    """Overwrite each frame after its dispatch, so that a view kept too long shows itself."""


class OpenConnections:
    """The connections of a server, in the order they came."""

    def __init__(self) -> None:
        self._open: dict[ServerConnection, None] = {}
        self._none_left = asyncio.Event()
        self._none_left.set()

    def add(self, connection: "ServerConnection") -> None:
        self._open[connection] = None
        self._none_left.clear()

    def discard(self, connection: "ServerConnection") -> None:
        self._open.pop(connection, None)
        if not self._open:
            self._none_left.set()

    async def close(self, grace_seconds: float) -> None:
        """Let replies in progress leave, but wait no longer than that for them."""
        for connection in list(self._open):
            connection.close()
        try:
            await asyncio.wait_for(self._none_left.wait(), grace_seconds)
        except TimeoutError:
            for connection in list(self._open):
                connection.abort()


class ServerConnection(asyncio.BufferedProtocol):
    """Pauses reading while a client does not drain its replies or has too many requests in progress."""

    def __init__(self, dispatch: Dispatch, settings: ConnectionSettings, connections: OpenConnections):
        self._dispatch = dispatch
        self._settings = settings
        self._connections = connections
        self._reader = FrameReader(settings.scratch, settings.max_frame_size)
        self._in_progress: deque[asyncio.Future[Reply]] = deque()
        self._outgoing: deque[Piece] = deque()
        self._cold_read: asyncio.Future[bytes] | None = None
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_draining = False
        self._is_handling = False
        self._transport: asyncio.Transport
        self.peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._outgoing.clear()
        if self._cold_read is not None:
            self._cold_read.cancel()
        for pending in self._in_progress:
            pending.cancel()
        self._in_progress.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.received(nbytes)
        self._handle_frames()

    def eof_received(self) -> bool:
        # As Apache does: a client that stops sending has left, and what it waited for need not be kept.
        return False

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._send()
        self._resume_reading()
        if self._is_draining:
            self._close_if_drained()

    def close(self) -> None:
        """Stop reading, and close when the replies in progress have left."""
        self._is_draining = True
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()
        self._close_if_drained()

    def abort(self) -> None:
        self._transport.abort()

    def _handle_frames(self) -> None:
        self._is_handling = True
        try:
            while not self._is_reading_paused and not self._transport.is_closing():
                frame = self._reader.next_frame()
                if frame is None:
                    break
                self._handle(frame)
                if self._settings.poison_frames:
                    frame[:] = bytes((POISON,)) * len(frame)
        except (CloseConnection, InvalidFrame) as error:
            logger.warning("closing connection peer=%s reason=%r", self.peer, str(error))
            self._transport.abort()
        except Exception:
            logger.exception("closing connection peer=%s after an error of our own", self.peer)
            self._transport.abort()
        finally:
            self._is_handling = False
            self._reader.park()

    def _handle(self, frame: memoryview) -> None:
        reply = self._dispatch(frame, self)
        if isinstance(reply, asyncio.Future):
            self._in_progress.append(reply)
            reply.add_done_callback(self._on_reply)
        elif self._in_progress:
            done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            done.set_result(reply)
            self._in_progress.append(done)
        elif reply is not None:
            self._enqueue(reply)
            self._send()
        self._pause_reading_if_behind()

    def _on_reply(self, _: "asyncio.Future[Reply]") -> None:
        """A parked request has its answer; send every answer that now has none before it."""
        while self._in_progress and self._in_progress[0].done():
            finished = self._in_progress.popleft()
            if finished.cancelled():
                continue
            error = finished.exception()
            if error is not None:
                reason = str(error) if isinstance(error, CloseConnection) else repr(error)
                logger.warning("closing connection peer=%s reason=%r", self.peer, reason)
                self._transport.abort()
                return
            reply = finished.result()
            if reply is not None:
                self._enqueue(reply)
        self._send()
        self._resume_reading()
        if self._is_draining:
            self._close_if_drained()

    def _enqueue(self, reply: list[Piece]) -> None:
        size = 0
        for piece in reply:
            size += len(piece)
        small: list[Buffer] = [size.to_bytes(4, "big")]
        for piece in reply:
            if not isinstance(piece, FileRange) and len(piece) < JOIN_BELOW:
                small.append(piece)
                continue
            self._outgoing.append(b"".join(small))
            self._outgoing.append(piece)
            small = []
        if small:
            self._outgoing.append(b"".join(small))

    def _send(self) -> None:
        """Hand pieces to the transport until it has enough; ranges of files are read only then."""
        outgoing = self._outgoing
        while outgoing and not self._is_writing_paused and self._cold_read is None and not self._transport.is_closing():
            piece = outgoing.popleft()
            if isinstance(piece, FileRange):
                self._send_chunk(piece)
            else:
                self._transport.write(piece)

    def _send_chunk(self, piece: FileRange) -> None:
        """Send the beginning of a range: at once if its bytes are in memory, else when a thread has read them."""
        size = min(piece.size, SEND_CHUNK)
        if size < piece.size:
            self._outgoing.appendleft(FileRange(piece.file, piece.position + size, piece.size - size))
        try:
            data = piece.file.read_warm(piece.position, size)
        except OSError as error:
            self._fail_read(piece, str(error))
            return
        if data is None:
            reading = self._settings.async_disk.read(piece.file, piece.position, size)
            self._cold_read = asyncio.ensure_future(reading)
            self._cold_read.add_done_callback(lambda done: self._on_cold_read(done, piece, size))
        else:
            self._write_chunk(data, piece, size)

    def _on_cold_read(self, done: "asyncio.Future[bytes]", piece: FileRange, size: int) -> None:
        self._cold_read = None
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._fail_read(piece, str(error))
            return
        self._write_chunk(done.result(), piece, size)
        self._send()
        self._resume_reading()
        if self._is_draining:
            self._close_if_drained()

    def _write_chunk(self, data: Buffer, piece: FileRange, size: int) -> None:
        if len(data) == size:
            self._transport.write(data)
        else:
            self._fail_read(piece, "bytes to send are gone")

    def _fail_read(self, piece: FileRange, reason: str) -> None:
        """The size of the reply is already on its way, so failing means closing."""
        logger.error("closing connection peer=%s path=%s reason=%r", self.peer, piece.file.path, reason)
        self._transport.abort()

    def _pause_reading_if_behind(self) -> None:
        if self._is_reading_paused:
            return
        if self._is_behind():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._is_reading_paused or self._is_handling or self._is_draining or self._transport.is_closing():
            return
        if self._is_behind():
            return
        self._is_reading_paused = False
        self._reader.unpark()
        self._handle_frames()
        if not self._is_reading_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _is_behind(self) -> bool:
        """Whether the client has not taken its replies yet, or has asked for more than it may at once."""
        is_sending = bool(self._outgoing) or self._cold_read is not None or self._is_writing_paused
        return is_sending or len(self._in_progress) >= MAX_REQUESTS_IN_PROGRESS

    def _close_if_drained(self) -> None:
        if not self._in_progress and not self._outgoing and self._cold_read is None:
            self._transport.close()
