"""One end of a simulated TCP connection, as an asyncio transport."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Final

from levada.model.buffers import Buffer
from levada.sim.world.incarnation import Incarnation
from levada.sim.world.links import Link, chunk_size

if TYPE_CHECKING:
    from levada.sim.world.network import SimNetwork

WINDOW: Final = 256 * 1024
CHUNK: Final = 64 * 1024
HIGH_WATER: Final = 64 * 1024

Address = tuple[str, int]


class Mark:
    """Travels among the bytes and keeps its place."""

    def __init__(self, name: str) -> None:
        self.name = name


EOF: Final = Mark("eof")
RESET: Final = Mark("reset")
Segment = bytes | Mark


class SimTransport(asyncio.Transport):
    """Sends into a link, and receives what the peer's end hands over.

    Unsent bytes are kept as views, as uvloop keeps them: a buffer changed after its write is sent as changed.
    """

    def __init__(
        self, network: "SimNetwork", incarnation: Incarnation, link: Link, local: Address, remote: Address
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.incarnation = incarnation
        self.link = link
        self.name = f"{local[0]}:{local[1]}->{remote[0]}:{remote[1]}"
        self.lost = False
        self.stalled = False
        self._network = network
        self._loop = network.loop
        self._peer: SimTransport | None = None
        self._protocol: asyncio.BufferedProtocol | None = None
        # Sending
        self._unsent: deque[memoryview] = deque()
        self._unsent_size = 0
        self._in_flight = 0
        self._last_arrival_ns = 0
        self._wire = 0
        self._held: deque[Segment] = deque()
        self._releasing = False
        self._pumping = False
        self._ending = False
        self._ended = False
        self._closing = False
        self._high_water = HIGH_WATER
        self._low_water = HIGH_WATER // 4
        self._writing_paused = False
        # Receiving
        self._received: deque[Segment] = deque()
        self._reading_paused = False
        self._unread = False

    @property
    def peer(self) -> "SimTransport":
        assert self._peer is not None
        return self._peer

    def pair_with(self, peer: "SimTransport") -> None:
        self._peer = peer
        peer._peer = self

    def open(self, protocol: asyncio.BufferedProtocol) -> None:
        """Begin to talk to the protocol; what came before waits until now. Runs in the incarnation's context."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._feed()

    # asyncio.Transport

    def write(self, data: Buffer) -> None:
        if self._ending and not self._closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_mute() or not len(data):
            return
        view = memoryview(data).cast("B")
        self._unsent.append(view)
        self._unsent_size += len(view)
        self._schedule_pump()
        self._pause_writer_if_full()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._is_mute():
            self._ending = True
            self._schedule_pump()

    def close(self) -> None:
        if self._is_mute():
            return
        self._closing = True
        self._ending = True
        self._unread = bool(self._received)
        self._received.clear()
        self._schedule_pump()

    def abort(self) -> None:
        if self.lost or not self.incarnation.alive:
            return
        self.send_reset()
        self.lose(None)

    def is_closing(self) -> bool:
        return self._closing or self.lost

    def is_reading(self) -> bool:
        return not self._reading_paused and not self.is_closing()

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused and not self._is_mute():
            self._loop.call_soon(self._feed, context=self.incarnation.context())
        self._reading_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = high if high is not None else HIGH_WATER if low is None else 4 * low
        self._low_water = low if low is not None else self._high_water // 4
        if not self._high_water >= self._low_water >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._pause_writer_if_full()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water, self._high_water

    def get_write_buffer_size(self) -> int:
        return self._unsent_size

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._get_protocol()

    # For the network

    def lose(self, error: Exception | None) -> None:
        """The connection is over at this end; the protocol hears of it if its process lives."""
        if self.lost:
            return
        self.lost = True
        self._drop_unsent()
        self._received.clear()
        if self._protocol is not None:
            self._call_soon(self._protocol.connection_lost, error)
        self._network.forget_if_over(self)

    def fall_silent(self) -> None:
        """Bytes on the wire and unsent ones are gone, as when the power went."""
        self.lost = True
        self._wire += 1
        self._held.clear()
        self._drop_unsent()

    def send_reset(self, delay_ns: int = 0) -> None:
        self._drop_unsent()
        self._send(RESET, delay_ns)

    def release(self) -> None:
        """The link is open again: what was held arrives, in its order."""
        if self._held and not self._releasing:
            self._releasing = True
            when_ns = self._loop.now_ns + self.link.latency_ns()
            self._loop.call_at_ns(when_ns, self._release_held, context=Context())

    # Sending

    def _is_mute(self) -> bool:
        return self._closing or self.lost or not self.incarnation.alive

    def _call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_soon(callback, *args, context=self.incarnation.context())

    def _pause_writer_if_full(self) -> None:
        if self._unsent_size > self._high_water and not self._writing_paused:
            self._writing_paused = True
            self._get_protocol().pause_writing()

    def _schedule_pump(self) -> None:
        if not self._pumping:
            self._pumping = True
            self._call_soon(self._pump)

    def _pump(self) -> None:
        """Put on the wire what the window allows."""
        self._pumping = False
        if self.lost:
            return
        while self._unsent and self._in_flight < WINDOW:
            chunk = self._take_unsent(min(CHUNK, WINDOW - self._in_flight))
            self._in_flight += len(chunk)
            self._send(chunk)
        if self._writing_paused and self._unsent_size <= self._low_water:
            self._writing_paused = False
            self._get_protocol().resume_writing()
        if self._ending and not self._unsent:
            self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._send(EOF)
        if self._closing:
            if self._unread:
                # A socket closed with bytes that were not read answers with a reset.
                self._send(RESET)
            self.lose(None)

    def _take_unsent(self, limit: int) -> bytes:
        size = chunk_size(min(self._unsent_size, limit), self.link.chance)
        taken = bytearray()
        while len(taken) < size:
            view = self._unsent.popleft()
            missing = size - len(taken)
            taken += view[:missing]
            if len(view) > missing:
                self._unsent.appendleft(view[missing:])
        self._unsent_size -= size
        return bytes(taken)

    def _drop_unsent(self) -> None:
        self._unsent.clear()
        self._unsent_size = 0

    def _send(self, segment: Segment, delay_ns: int = 0) -> None:
        size = len(segment) if isinstance(segment, bytes) else 0
        arrival_ns = self.link.arrival_ns(self._loop.now_ns + delay_ns, size)
        # TCP keeps the order, however the delays were drawn.
        self._last_arrival_ns = max(self._last_arrival_ns, arrival_ns)
        self._loop.call_at_ns(self._last_arrival_ns, self._arrive, self._wire, segment, context=Context())

    def _arrive(self, wire: int, segment: Segment) -> None:
        if wire != self._wire:
            return
        self._held.append(segment)
        if not self._releasing:
            self._release_held()

    def _release_held(self) -> None:
        self._releasing = False
        while self._held and not self.link.blocked and not self.stalled:
            self.peer._take(self._held.popleft())

    # Receiving

    def _take(self, segment: Segment) -> None:
        """A segment of the peer is here."""
        if self.lost or not self.incarnation.alive:
            self._answer_reset(segment)
            return
        data = segment if isinstance(segment, bytes) else segment.name.encode()
        self._network.trace.note(f"receive {self.peer.name}", data)
        if segment is RESET:
            self.lose(ConnectionResetError("Connection reset by peer"))
        elif self._closing:
            self._unread = True
        else:
            self._received.append(segment)
            if self.incarnation.paused:
                # The machine takes it for the process, which finds it when it goes on.
                self._call_soon(self._feed)
            else:
                self.incarnation.context().run(self._feed)

    def _answer_reset(self, segment: Segment) -> None:
        """Bytes for a socket that is closed, as far as a machine is there to say so."""
        if isinstance(segment, bytes) and self.incarnation.alive and not self.peer.lost:
            self._send(RESET)

    def _feed(self) -> None:
        while self._received and self._protocol is not None and self.is_reading() and self.incarnation.alive:
            segment = self._received.popleft()
            if isinstance(segment, bytes):
                self._feed_bytes(segment, self._protocol)
            elif not self._protocol.eof_received():
                self.close()

    def _feed_bytes(self, data: bytes, protocol: asyncio.BufferedProtocol) -> None:
        view = memoryview(data)
        while view and self.is_reading():
            buffer = memoryview(protocol.get_buffer(-1)).cast("B")
            count = min(len(buffer), len(view))
            if not count:
                raise RuntimeError("get_buffer() returned an empty buffer")
            buffer[:count] = view[:count]
            buffer.release()
            view = view[count:]
            protocol.buffer_updated(count)
        if view and not self.is_closing():
            self._received.appendleft(bytes(view))
        self.peer._acknowledge(len(data) - len(view))

    def _acknowledge(self, size: int) -> None:
        self._in_flight -= size
        if self._unsent and not self.lost:
            self._schedule_pump()

    def _get_protocol(self) -> asyncio.BufferedProtocol:
        assert self._protocol is not None
        return self._protocol
