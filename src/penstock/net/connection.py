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
from penstock.world.disk import FileRange

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
        while outgoing and not self._is_writing_paused and not self._transport.is_closing():
            piece: Piece | None = outgoing.popleft()
            if isinstance(piece, FileRange):
                if len(piece) > SEND_CHUNK:
                    rest = FileRange(piece.file, piece.position + SEND_CHUNK, piece.size - SEND_CHUNK)
                    outgoing.appendleft(rest)
                    piece = FileRange(piece.file, piece.position, SEND_CHUNK)
                piece = self._read(piece)
            if piece is not None:
                self._transport.write(piece)

    def _read(self, piece: FileRange) -> bytes | None:
        """The bytes of a range; the size of the reply is already on its way, so failing means closing."""
        try:
            data = piece.file.read(piece.position, piece.size)
        except OSError as error:
            logger.error("closing connection peer=%s path=%s reason=%r", self.peer, piece.file.path, str(error))
        else:
            if len(data) == piece.size:
                return data
            logger.error(
                "closing connection peer=%s path=%s reason='bytes to send are gone'", self.peer, piece.file.path
            )
        self._transport.abort()
        return None

    def _pause_reading_if_behind(self) -> None:
        if self._is_reading_paused:
            return
        if self._outgoing or self._is_writing_paused or len(self._in_progress) >= MAX_REQUESTS_IN_PROGRESS:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._is_reading_paused or self._is_handling or self._is_draining or self._transport.is_closing():
            return
        if self._outgoing or self._is_writing_paused or len(self._in_progress) >= MAX_REQUESTS_IN_PROGRESS:
            return
        self._is_reading_paused = False
        self._reader.unpark()
        self._handle_frames()
        if not self._is_reading_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _close_if_drained(self) -> None:
        if not self._in_progress and not self._outgoing:
            self._transport.close()
