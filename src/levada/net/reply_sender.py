"""The way out of a connection: small pieces are joined, ranges of files are read when there is room for them."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from struct import Struct as Packed
from typing import cast

from levada.model.buffers import Buffer
from levada.net.connection_settings import ConnectionSettings
from levada.net.open_connections import OpenConnections
from levada.net.writelines import writelines_of
from levada.protocol.codec import Piece
from levada.world.disk import FileRange

logger = logging.getLogger(__name__)

SEND_CHUNK = 1024 * 1024
JOIN_BELOW = 16 * 1024
JOIN_UP_TO = 64 * 1024
UNJOINED_FROM = 4 * 1024
"""Pieces of this average size are not joined: to copy them takes longer than to send them one by one."""

_pack_size = Packed(">i").pack


class ReplySender:
    """Takes replies in the order in which they are to leave."""

    def __init__(self, settings: ConnectionSettings, connections: OpenConnections, on_room: Callable[[], None]) -> None:
        """`on_room` is called when bytes that a thread had to read have been sent."""
        self._settings = settings
        self._connections = connections
        self._peer = "?"
        self._on_room = on_room
        self._transport: asyncio.Transport
        # Small pieces, still to be joined, come after all of `outgoing`.
        self._outgoing: deque[Piece] = deque()
        self._small: list[Buffer] = []
        self._small_bytes = 0
        self._cold_read: asyncio.Future[bytes] | None = None
        self.is_paused = False
        """The transport has as much as it takes."""
        self.is_over = False
        """The connection is closed, or will be without sending any more."""

    def begin(self, transport: asyncio.Transport, peer: str) -> None:
        self._transport = transport
        self._writelines = writelines_of(transport)
        self._peer = peer

    @property
    def unsent_bytes(self) -> int:
        """What the transport has and the client has not taken."""
        return self._transport.get_write_buffer_size()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something that the transport has not been given: it has enough, or a thread reads it."""
        return bool(self._outgoing) or self._cold_read is not None

    def abort(self) -> None:
        self.is_over = True
        self._transport.abort()

    def connection_lost(self) -> None:
        self.is_over = True
        self._settings.unsent.forget(self)
        self._outgoing.clear()
        self._small.clear()
        if self._cold_read is not None:
            self._cold_read.cancel()
        # Of the connection, which then is freed at once and not by a collection.
        self._on_room = _nothing

    def resume(self) -> None:
        """The transport takes more."""
        self.is_paused = False
        self._settings.unsent.forget(self)

    def add(self, reply: list[Piece] | bytes) -> None:
        """Join what is in memory: a copy costs less than many small writes. Ranges of files stay where they are."""
        if isinstance(reply, bytes):
            self._small.append(reply)
            self._small_bytes += len(reply)
            return
        if FileRange in map(type, reply):
            self._add_with_ranges(reply)
            return
        size = sum(map(len, reply))
        self._small.append(_pack_size(size))
        self._small += reply  # type: ignore[arg-type]
        self._small_bytes += size

    def send_if_enough(self) -> bool:
        """Send what it is not worth waiting for more with; whether that was so."""
        if self._small_bytes >= JOIN_UP_TO:
            if not self._write_unjoined():
                self.send()
            return True
        if self._outgoing:
            self.send()
            return True
        return False

    def send_small(self) -> None:
        """The end of a turn: what was kept to be joined leaves."""
        if self._small:
            self.send()

    def send(self) -> None:
        """Hand pieces to the transport until it has enough; ranges of files are read only then."""
        if self._small_bytes >= JOIN_BELOW and self._write_unjoined():
            return
        self._join_small()
        outgoing = self._outgoing
        while outgoing and not self.is_paused and self._cold_read is None and not self.is_over:
            piece = outgoing.popleft()
            if isinstance(piece, FileRange):
                self._send_chunk(b"", piece)
            elif outgoing and isinstance(outgoing[0], FileRange):
                self._send_chunk(piece, cast(FileRange, outgoing.popleft()))
            else:
                self._write(piece)

    def _add_with_ranges(self, reply: list[Piece]) -> None:
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
        if self._outgoing or self.is_paused or self.is_over or self._cold_read is not None:
            return False
        size = sum(map(len, self._small))
        if size < len(self._small) * UNJOINED_FROM:
            return False
        self._write_all(self._small, size)
        self._small.clear()
        self._small_bytes = 0
        return True

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
            self.is_over = True
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
        self._on_room()

    def _fail_read(self, piece: FileRange, reason: str) -> None:
        """The size of the reply is already on its way, so failing means closing."""
        logger.error("closing connection peer=%s path=%s reason=%r", self._peer, piece.file.path, reason)
        self.abort()


def _nothing() -> None: ...
