"""One client's connection on the server's side: frames in, replies out in the order of their requests."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from struct import Struct as Packed
from typing import TypeAlias, cast

from levada.model.buffers import Buffer
from levada.net.connection_settings import ConnectionSettings
from levada.net.frames import FRAME_OVERHEAD, POISON, FrameReader, InvalidFrame
from levada.net.open_connections import Admission, OpenConnections, canonical_ip
from levada.net.reply import CloseConnection, Reply, bytes_in_memory
from levada.net.writelines import writelines_of
from levada.protocol.codec import Piece
from levada.world.disk import FileRange

logger = logging.getLogger(__name__)

MAX_REQUESTS_IN_PROGRESS = 64
"""A client that pipelines more waits; its bytes stay in the kernel's buffers."""

MAX_FINISHED_BYTES = 1024 * 1024
"""So much may wait in memory for an earlier request's answer before the client is read on."""

LONGEST_TURN_NS = 10_000_000
SEND_CHUNK = 1024 * 1024
JOIN_BELOW = 16 * 1024
JOIN_UP_TO = 64 * 1024
UNJOINED_FROM = 4 * 1024
"""Pieces of this average size are not joined: to copy them takes longer than to send them one by one."""

_pack_size = Packed(">i").pack

Dispatch: TypeAlias = Callable[[memoryview, "ServerConnection"], "Reply | asyncio.Future[Reply]"]
"""Handles one frame. The frame is valid until this returns; raising CloseConnection ends the connection."""


class ServerConnection(asyncio.BufferedProtocol):
    """Pauses reading while a client does not drain its replies, has too much in progress, or memory is short."""

    def __init__(self, dispatch: Dispatch, settings: ConnectionSettings, connections: OpenConnections):
        self._dispatch = dispatch
        self._settings = settings
        self._poisons = settings.poison_frames
        self._perf_ns = settings.perf_ns
        self._connections = connections
        self._reader = FrameReader(settings.scratch, settings.max_frame_size, settings.spare)
        # Reading
        self._is_reading_paused = False
        self._is_handling = False
        self._is_held = False
        self._memory_taken = 0
        """For the large frame that is being received."""
        self._waits_for_memory = False
        # Requests whose turn to be answered has not come: pending, or finished behind one that is.
        self._in_line: deque[asyncio.Future[Reply] | Reply] = deque()
        self._finished_bytes = 0
        # Writing: small pieces, still to be joined, come after all of `outgoing`.
        self._outgoing: deque[Piece] = deque()
        self._small: list[Buffer] = []
        self._small_bytes = 0
        self._cold_read: asyncio.Future[bytes] | None = None
        self._is_writing_paused = False
        self._is_draining = False
        self._is_over = False
        # For whoever looks for idle connections.
        self._was_active = True
        self._unsent_before = 0
        self._transport: asyncio.Transport
        self.ip = "?"
        self.peer = "?"

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._writelines = writelines_of(self._transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.ip = canonical_ip(peer[0])
            self.peer = f"{peer[0]}:{peer[1]}"
        admission = self._connections.admit(self)
        if admission is Admission.REFUSED:
            self.abort()
        elif admission is Admission.HELD:
            self._pause_reading()
            # uvloop begins to read after this call, whatever it did.
            asyncio.get_running_loop().call_soon(self._stay_paused)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._connections.discard(self)
        self._settings.memory.forget(self)
        self._settings.unsent.forget(self)
        self._release_memory()
        self._outgoing.clear()
        self._small.clear()
        if self._cold_read is not None:
            self._cold_read.cancel()
        self._drop_requests()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._was_active = True
        self._connections.bytes_in += nbytes
        self._reader.received(nbytes)
        self._handle_frames()

    def eof_received(self) -> bool:
        # As Apache does: a client that stops sending has left, and what it waited for need not be kept.
        return False

    def pause_writing(self) -> None:
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        self._was_active = True
        self._is_writing_paused = False
        self._settings.unsent.forget(self)
        self._go_on()

    # The server's calls

    def start(self) -> None:
        """Begin to read, after having been held; what uvloop has read all the same is there already."""
        asyncio.get_running_loop().call_soon(self._resume_reading)

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def was_idle(self) -> bool:
        """Whether nothing came, left or was worked on since this was last asked."""
        if self._was_active:
            self._was_active = False
            return False
        unsent = self.unsent_bytes
        has_moved = unsent != self._unsent_before
        self._unsent_before = unsent
        if unsent:
            # The client does not read: what else it asked for does not keep it alive.
            return not has_moved
        return not (self._in_line or self._outgoing or self._cold_read or self._waits_for_memory)

    def close(self) -> None:
        """Stop reading, and close when the replies in progress have left."""
        self._is_draining = True
        self._pause_reading()
        self._close_if_drained()

    def abort(self) -> None:
        self._is_over = True
        self._transport.abort()

    def on_memory(self, size: int) -> None:
        """The large frame that waits may be received."""
        self._memory_taken = size
        self._waits_for_memory = False
        # Later: another connection may be in the middle of its turn, with its frames in the shared buffer.
        asyncio.get_running_loop().call_soon(self._resume_reading)

    # The dispatcher's calls

    def keep(self, frame: memoryview) -> memoryview:
        """A frame for longer than its dispatch takes: large ones have memory of their own, which stays."""
        is_shared = len(frame) + FRAME_OVERHEAD <= len(self._settings.scratch)
        return memoryview(bytes(frame)) if is_shared or self._poisons else frame

    def hold_for(self, request: "asyncio.Future[Reply]") -> "asyncio.Future[Reply]":
        """Begin no other request of this client before this one is done."""
        self._is_held = True
        self._pause_reading()
        request.add_done_callback(lambda _: setattr(self, "_is_held", False))
        return request

    # Requests

    def _handle_frames(self) -> None:
        self._is_handling = True
        try:
            self._dispatch_frames()
        except (CloseConnection, InvalidFrame) as error:
            logger.warning("closing connection peer=%s reason=%r", self.peer, str(error))
            self._close_after_error()
        except Exception:
            logger.exception("closing connection peer=%s after an error of our own", self.peer)
            self._close_after_error()
        finally:
            self._is_handling = False
            self._reader.park()

    def _dispatch_frames(self) -> None:
        reader = self._reader
        began_ns = 0
        while not self._is_reading_paused and not self._is_over:
            frame = reader.next_frame()
            if frame is None:
                if reader.announced:
                    self._begin_large()
                break
            reply = self._dispatch(frame, self)
            if self._memory_taken:
                self._release_memory(reply)
            if isinstance(reply, asyncio.Future) or self._in_line:
                self._put_in_line(reply)
            elif reply is not None:
                self._enqueue(reply)
                if self._small_bytes >= JOIN_UP_TO and self._write_unjoined():
                    if self._is_writing_paused:
                        self._pause_reading()
                elif self._outgoing or self._small_bytes >= JOIN_UP_TO:
                    self._send()
                    self._pause_reading_if_behind()
            if self._poisons:
                frame[:] = bytes((POISON,)) * len(frame)
            began_ns = began_ns or self._perf_ns()
            if self._perf_ns() - began_ns > LONGEST_TURN_NS:
                # Others have their turn before the rest of what this client has sent at once.
                self._pause_reading()
                asyncio.get_running_loop().call_soon(self._resume_reading)
        if self._small:
            self._send()
            if self._is_writing_paused:
                self._pause_reading()

    def _begin_large(self) -> None:
        if not self._memory_taken:
            size = self._reader.announced
            if not self._settings.memory.take(size, self):
                self._waits_for_memory = True
                self._pause_reading()
                return
            self._memory_taken = size
        self._reader.begin()

    def _release_memory(self, reply: "Reply | asyncio.Future[Reply]" = None) -> None:
        """A large frame is done with, or will be when its request is: what waits may hold views of it."""
        size, self._memory_taken = self._memory_taken, 0
        memory = self._settings.memory
        buffer = self._reader.take_finished()
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(lambda _: memory.release(size))
            return
        if buffer is not None:
            self._settings.spare.give(buffer)
        if size:
            memory.release(size)

    def _put_in_line(self, reply: "Reply | asyncio.Future[Reply]") -> None:
        self._in_line.append(reply)
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(self._on_reply)
        else:
            self._finished_bytes += bytes_in_memory(reply)
        self._pause_reading_if_behind()

    def _on_reply(self, _: "asyncio.Future[Reply]") -> None:
        """A request is done; send every answer that now has none before it."""
        self._was_active = True
        while self._in_line:
            first = self._in_line[0]
            if isinstance(first, asyncio.Future):
                if not first.done():
                    break
                if not self._is_good(first):
                    return
                reply = None if first.cancelled() else first.result()
            else:
                reply = first
                self._finished_bytes -= bytes_in_memory(reply)
            self._in_line.popleft()
            if reply is not None:
                self._enqueue(reply)
        self._go_on()

    def _is_good(self, done: "asyncio.Future[Reply]") -> bool:
        """Whether a request did not fail; if it did, nothing after it can be answered either."""
        error = None if done.cancelled() else done.exception()
        if error is None:
            return True
        if isinstance(error, CloseConnection):
            logger.warning("closing connection peer=%s reason=%r", self.peer, str(error))
        else:
            logger.error("closing connection peer=%s after an error of our own", self.peer, exc_info=error)
        self._drop_requests()
        self._close_after_error()
        return False

    def _drop_requests(self) -> None:
        dropped = list(self._in_line)
        self._in_line.clear()
        self._finished_bytes = 0
        for request in dropped:
            if isinstance(request, asyncio.Future):
                request.cancel()

    # Replies

    def _enqueue(self, reply: list[Piece] | bytes) -> None:
        """Join what is in memory: a copy costs less than many small writes. Ranges of files stay where they are."""
        if isinstance(reply, bytes):
            self._small.append(reply)
            self._small_bytes += len(reply)
            return
        if FileRange in map(type, reply):
            self._enqueue_with_ranges(reply)
            return
        size = sum(map(len, reply))
        self._small.append(_pack_size(size))
        self._small += reply  # type: ignore[arg-type]
        self._small_bytes += size

    def _enqueue_with_ranges(self, reply: list[Piece]) -> None:
        small = self._small
        small.append(_pack_size(sum(map(len, reply))))
        start = 0
        for at, piece in enumerate(reply):
            if not isinstance(piece, FileRange):
                continue
            small += reply[start:at]  # type: ignore[arg-type]
            start = at + 1
            has_room = self._small_bytes < JOIN_UP_TO and not self._outgoing
            data = self._read_small(piece) if has_room and piece.size < JOIN_BELOW else None
            if data is not None:
                small.append(data)
                self._small_bytes += len(data)
            else:
                self._join_small()
                self._outgoing.append(piece)
        small += reply[start:]  # type: ignore[arg-type]
        if self._outgoing:
            self._join_small()

    def _read_small(self, piece: FileRange) -> Buffer | None:
        """A short range now, if it is warm and whole: it leaves with what else there is to send."""
        try:
            data = piece.file.read_warm(piece.position, piece.size)
        except OSError:
            # It is met again when the range is sent, and dealt with there.
            return None
        return data if data is not None and len(data) == piece.size else None

    def _join_small(self) -> None:
        if self._small:
            self._outgoing.append(b"".join(self._small))
            self._small.clear()
            self._small_bytes = 0

    def _write_unjoined(self) -> bool:
        """Send what is to be joined as it is, if that is few large pieces and nothing is before them."""
        if self._outgoing or self._is_writing_paused or self._is_over or self._cold_read is not None:
            return False
        size = sum(map(len, self._small))
        if size < len(self._small) * UNJOINED_FROM:
            return False
        self._write_all(self._small, size)
        self._small.clear()
        self._small_bytes = 0
        return True

    def _send(self) -> None:
        """Hand pieces to the transport until it has enough; ranges of files are read only then."""
        if self._small_bytes >= JOIN_BELOW and self._write_unjoined():
            return
        self._join_small()
        outgoing = self._outgoing
        while outgoing and not self._is_writing_paused and self._cold_read is None and not self._is_over:
            piece = outgoing.popleft()
            if isinstance(piece, FileRange):
                self._send_chunk(b"", piece)
            elif outgoing and isinstance(outgoing[0], FileRange):
                self._send_chunk(piece, cast(FileRange, outgoing.popleft()))
            else:
                self._write(piece)

    def _write_all(self, pieces: list[Buffer], size: int) -> None:
        self._connections.bytes_out += size
        self._writelines(pieces)
        if size >= JOIN_UP_TO and self.unsent_bytes:
            self._settings.unsent.note(self)

    def _write(self, data: Buffer) -> None:
        self._connections.bytes_out += len(data)
        self._transport.write(data)

    def _send_chunk(self, head: Buffer, piece: FileRange) -> None:
        """Send the beginning of a range: at once if its bytes are in memory, else when a thread has read them.

        What goes before it, and the end of the reply if it is there, leave in the same call.
        """
        if self._transport.is_closing():
            # The transport would take all of it, to throw it away.
            self._is_over = True
            return
        size = min(piece.size, JOIN_UP_TO if self._settings.unsent.look_if_full() else SEND_CHUNK)
        if size < piece.size:
            self._outgoing.appendleft(FileRange(piece.file, piece.position + size, piece.size - size))
        spare = self._settings.sent
        buffer = None if size <= JOIN_UP_TO else spare.take(SEND_CHUNK) or bytearray(SEND_CHUNK)
        try:
            data = piece.file.read_warm(piece.position, size, buffer)
        except OSError as error:
            self._fail_read(piece, str(error))
            return
        if data is None:
            if buffer is not None:
                spare.give(buffer)
            if head:
                self._write(head)
            reading = self._settings.async_disk.read(piece.file, piece.position, size)
            self._cold_read = asyncio.ensure_future(reading)
            self._cold_read.add_done_callback(lambda done: self._on_cold_read(done, piece, size))
        elif len(data) != size:
            self._fail_read(piece, "bytes to send are gone")
        else:
            self._write_together(head, data)
            if buffer is not None:
                spare.give(buffer)

    def _write_together(self, head: Buffer, data: Buffer) -> None:
        outgoing = self._outgoing
        is_last = outgoing and not isinstance(outgoing[0], FileRange)
        tail = cast(Buffer, outgoing.popleft()) if is_last else b""
        self._write_all([piece for piece in (head, data, tail) if piece], len(head) + len(data) + len(tail))

    def _on_cold_read(self, done: "asyncio.Future[bytes]", piece: FileRange, size: int) -> None:
        self._cold_read = None
        if done.cancelled():
            return
        if done.exception() is not None or len(done.result()) != size:
            self._fail_read(piece, str(done.exception() or "bytes to send are gone"))
            return
        self._write_all([done.result()], size)
        self._go_on()

    def _fail_read(self, piece: FileRange, reason: str) -> None:
        """The size of the reply is already on its way, so failing means closing."""
        logger.error("closing connection peer=%s path=%s reason=%r", self.peer, piece.file.path, reason)
        self.abort()

    # Flow

    def _go_on(self) -> None:
        """There is room for replies, or there are replies: send, then read what that allows."""
        self._send()
        self._resume_reading()
        if self._is_draining:
            self._close_if_drained()

    def _pause_reading(self) -> None:
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self._stay_paused()

    def _stay_paused(self) -> None:
        if self._is_reading_paused and not self._transport.is_closing():
            self._transport.pause_reading()

    def _pause_reading_if_behind(self) -> None:
        if self._is_behind():
            self._pause_reading()

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
        """Whether the client has not taken its replies yet, has asked for more than it may at once, or for too much."""
        return (
            self._is_writing_paused
            or self._is_held
            or bool(self._outgoing)
            or self._cold_read is not None
            or len(self._in_line) >= MAX_REQUESTS_IN_PROGRESS
            or self._finished_bytes >= MAX_FINISHED_BYTES
            or self._waits_for_memory
        )

    def _close_after_error(self) -> None:
        """Requests before the bad one are answered first, as Apache does, who reads no further until they are."""
        self._release_memory()
        self._send()
        self.close()

    def _close_if_drained(self) -> None:
        if not self._in_line and not self._outgoing and self._cold_read is None:
            self._is_over = True
            self._transport.close()
