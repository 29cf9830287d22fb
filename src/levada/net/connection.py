"""One client's connection on the server's side: frames in, replies out in the order of their requests."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TypeAlias, cast

from levada.net.connection_settings import ConnectionSettings
from levada.net.frames import FRAME_OVERHEAD, POISON, FrameReader, InvalidFrame
from levada.net.open_connections import Admission, OpenConnections, canonical_ip
from levada.net.reply import CloseConnection, Reply, bytes_in_memory
from levada.net.reply_sender import ReplySender

logger = logging.getLogger(__name__)

MAX_REQUESTS_IN_PROGRESS = 64
"""A client that pipelines more waits; its bytes stay in the kernel's buffers."""

MAX_FINISHED_BYTES = 1024 * 1024
"""So much may wait in memory for an earlier request's answer before the client is read on."""

LONGEST_TURN_NS = 10_000_000

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
        self._sender = ReplySender(settings, connections, self._go_on)
        self._is_draining = False
        # For the search for idle connections.
        self._was_active = True
        self._unsent_before = 0
        self._transport: asyncio.Transport
        self.ip = "?"
        self.peer = "?"
        self.listener = settings.listener
        self.serves_brokers = settings.serves_brokers

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.ip = canonical_ip(peer[0])
            self.peer = f"{peer[0]}:{peer[1]}"
        self._sender.begin(self._transport, self.peer)
        admission = self._connections.admit(self)
        if admission is Admission.REFUSED:
            self.abort()
        elif admission is Admission.HELD:
            self._pause_reading()
            # uvloop begins to read after this call, whatever it did.
            asyncio.get_running_loop().call_soon(self._stay_paused)

    def connection_lost(self, exc: Exception | None) -> None:
        self._sender.connection_lost()
        self._connections.discard(self)
        self._settings.memory.forget(self)
        self._release_memory()
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
        self._sender.is_paused = True

    def resume_writing(self) -> None:
        self._was_active = True
        self._sender.resume()
        self._go_on()

    # The server's calls

    def start(self) -> None:
        """Begin to read, after having been held; what uvloop has read all the same is there already."""
        asyncio.get_running_loop().call_soon(self._resume_reading)

    def was_idle(self) -> bool:
        """Whether nothing came, left or was worked on since this was last asked."""
        if self._was_active:
            self._was_active = False
            return False
        unsent = self._sender.unsent_bytes
        has_moved = unsent != self._unsent_before
        self._unsent_before = unsent
        if unsent:
            # The client does not read: what else it asked for does not keep it alive.
            return not has_moved
        return not (self._in_line or self._sender.is_waiting or self._waits_for_memory)

    def close(self) -> None:
        """Stop reading, and close when the replies in progress have left."""
        self._is_draining = True
        self._pause_reading()
        self._close_if_drained()

    def abort(self) -> None:
        self._sender.abort()

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
        reader, sender = self._reader, self._sender
        began_ns = 0
        while not self._is_reading_paused and not sender.is_over:
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
                sender.add(reply)
                if sender.send_if_enough():
                    self._pause_reading_if_behind()
            if self._poisons:
                frame[:] = bytes((POISON,)) * len(frame)
            began_ns = began_ns or self._perf_ns()
            if self._perf_ns() - began_ns > LONGEST_TURN_NS:
                # Others have their turn before the rest of what this client has sent at once.
                self._pause_reading()
                asyncio.get_running_loop().call_soon(self._resume_reading)
        sender.send_small()
        if sender.is_paused:
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
                self._sender.add(reply)
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

    # Flow

    def _go_on(self) -> None:
        """There is room for replies, or there are replies: send, then read what that allows."""
        self._sender.send()
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
            self._sender.is_paused
            or self._is_held
            or self._sender.is_waiting
            or len(self._in_line) >= MAX_REQUESTS_IN_PROGRESS
            or self._finished_bytes >= MAX_FINISHED_BYTES
            or self._waits_for_memory
        )

    def _close_after_error(self) -> None:
        """Requests before the bad one are answered first, as Apache does, who reads no further until they are."""
        self._release_memory()
        self._sender.send()
        self.close()

    def _close_if_drained(self) -> None:
        if not self._in_line and not self._sender.is_waiting:
            self._sender.is_over = True
            self._transport.close()
