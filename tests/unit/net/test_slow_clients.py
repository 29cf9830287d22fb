"""Clients that do not read, read slowly, or send half: what they hold is bounded, and in the end they are closed."""

import asyncio
from pathlib import Path

import pytest

from levada.net.connection import MAX_FINISHED_BYTES, ServerConnection
from levada.net.open_connections import ConnectionLimits
from levada.net.reply import Reply
from levada.net.reply_sender import SEND_CHUNK
from levada.protocol.codec import Piece
from levada.world.disk import File, FileRange
from levada.world.real_disk import RealDisk
from tests.unit.net.serving import HIGH_WATER, Server, echo, framed, open_fake, read_frame
from tests.unit.world.loops import LOOPS, run_on

LARGE_REPLY = 600_000
"""As Metadata of 10,000 partitions."""

PIPELINED = 64


class CountingFile:
    """Always warm."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.path, self.size, self.modified_ms, self.read = file.path, file.size, file.modified_ms, file.read
        self.append, self.truncate, self.sync, self.close = file.append, file.truncate, file.sync, file.close
        self.set_modified_ms = file.set_modified_ms
        self.bytes_read = 0

    def read_warm(self, position: int, size: int, into: bytearray | None = None) -> bytes:
        self.bytes_read += size
        return self._file.read(position, size)


class Metadata:
    """Answers in memory, at once; the first request may wait for the test."""

    def __init__(self, *, first_waits: bool = False) -> None:
        self.handled = 0
        self.first: asyncio.Future[Reply] | None = None
        self._first_waits = first_waits

    def __call__(self, frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        self.handled += 1
        if self._first_waits and self.first is None:
            self.first = asyncio.get_running_loop().create_future()
            return self.first
        return [bytes(frame), *[b"x" * 100] * (LARGE_REPLY // 100)]


def numbered(count: int) -> bytes:
    return b"".join(framed(number.to_bytes(2, "big")) for number in range(count))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_never_reads_holds_one_reply_and_gets_all_if_it_reads_after_all(loop: str) -> None:
    async def main() -> None:
        metadata = Metadata()
        async with Server(metadata) as server:
            reader, writer = await server.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(numbered(PIPELINED))
            await writer.drain()
            await asyncio.sleep(0.2)
            (connection,) = server.made
            assert connection._transport.get_write_buffer_size() <= LARGE_REPLY + HIGH_WATER
            assert not connection._sender.is_waiting
            assert metadata.handled < PIPELINED
            reader._transport.resume_reading()  # type: ignore[attr-defined]
            for number in range(PIPELINED):
                reply = await read_frame(reader)
                assert len(reply) == LARGE_REPLY + 2
                assert int.from_bytes(reply[:2], "big") == number
            writer.close()

    run_on(loop, main())


def test_replies_that_wait_for_an_earlier_one_are_bounded_in_bytes() -> None:
    async def main() -> None:
        metadata = Metadata(first_waits=True)
        server = Server(metadata)
        connection, transport = open_fake(server)
        transport.receive(connection, numbered(40))
        waiting = MAX_FINISHED_BYTES // LARGE_REPLY + 1
        assert metadata.handled == 1 + waiting
        assert not transport.is_reading()
        assert metadata.first is not None
        metadata.first.set_result([b"first"])
        for _ in range(40):
            await asyncio.sleep(0)
            transport.drain()
        assert metadata.handled == 40
        assert transport.is_reading()
        replies = b"".join(transport.written)
        position = 0
        for number in range(40):
            size = int.from_bytes(replies[position : position + 4], "big")
            body = replies[position + 4 : position + 4 + size]
            assert body.startswith(b"first" if number == 0 else number.to_bytes(2, "big"))
            position += 4 + size
        assert position == len(replies)

    asyncio.run(main())


def test_many_small_replies_to_one_packet_stop_when_the_client_does_not_take_them() -> None:
    handled = 0

    def dispatch(frame: memoryview, connection: ServerConnection) -> Reply:
        nonlocal handled
        handled += 1
        return [b"x" * 4_000]

    async def main() -> None:
        server = Server(dispatch)
        connection, transport = open_fake(server)
        transport.keeps = True
        transport.receive(connection, framed(b"r") * 45)
        assert handled * 4_000 < HIGH_WATER + 5_000
        assert not transport.is_reading()
        transport.drain()
        assert handled > HIGH_WATER // 4_000

    asyncio.run(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_never_reads_is_closed_in_the_end_whatever_it_asked_for(loop: str) -> None:
    parked: list[asyncio.Future[Reply]] = []

    def dispatch(frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        if bytes(frame) == b"large":
            return [bytes(20_000_000)]
        parked.append(asyncio.get_running_loop().create_future())
        return parked[-1]

    async def main() -> None:
        async with Server(dispatch, ConnectionLimits(idle_ms=300)) as server:
            reader, writer = await server.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(framed(b"large") + framed(b"poll"))
            while not server.connections.closed_idle:
                await asyncio.sleep(0.01)
            while server.connections.open:
                await asyncio.sleep(0)
            assert all(answer.cancelled() for answer in parked)
            writer.transport.abort()

    run_on(loop, main())


def test_of_many_short_ranges_only_as_many_are_read_as_the_client_takes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4_000_000))
    file = CountingFile(RealDisk().open(str(path)))

    async def main() -> None:
        reply: list[Piece] = [FileRange(file, 10_000 * number, 10_000) for number in range(400)]
        server = Server(lambda frame, connection: [b"head", *reply])
        connection, transport = open_fake(server)
        transport.keeps = True
        transport.receive(connection, framed(b"fetch"))
        assert file.bytes_read < 3 * HIGH_WATER
        while len(b"".join(transport.written)) < 4_000_008:
            transport.drain()
        transport.drain()
        assert transport.is_reading()

    asyncio.run(main())
    file.close()


def test_a_client_that_takes_nothing_is_read_no_further_even_if_its_replies_are_small() -> None:
    async def main() -> None:
        server = Server(lambda frame, connection: [b"x" * 4_000])
        connection, transport = open_fake(server)
        transport.keeps = True
        sent = 0
        while transport.is_reading() and sent < 100:
            transport.receive(connection, framed(b"r"))
            sent += 1
        assert sent * 4_000 < HIGH_WATER + 5_000
        transport.drain()
        assert transport.is_reading()

    asyncio.run(main())


def test_a_parked_request_does_not_keep_a_client_that_takes_nothing() -> None:
    parked: list[asyncio.Future[Reply]] = []

    def dispatch(frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        if bytes(frame) == b"small":
            return [b"small"]
        parked.append(asyncio.get_running_loop().create_future())
        return parked[-1]

    async def main() -> None:
        server = Server(dispatch)
        connection, transport = open_fake(server)
        transport.keeps = True
        transport.receive(connection, framed(b"small") + framed(b"poll"))
        assert transport.is_reading()
        assert [connection.was_idle() for _ in range(3)] == [False, False, True]
        transport.drain()
        assert not connection.was_idle()

    asyncio.run(main())


def test_a_slow_reader_is_not_idle() -> None:
    async def main() -> None:
        server = Server(echo)
        connection, transport = open_fake(server)
        transport.keeps = True
        transport.receive(connection, framed(b"request"))
        transport.unsent = 10
        assert not connection.was_idle()
        for left in range(9, 1, -1):
            transport.unsent = left
            assert not connection.was_idle()
        assert connection.was_idle()
        transport.unsent = 0
        assert connection.was_idle()

    asyncio.run(main())


def test_a_request_that_comes_byte_by_byte_is_heard_and_keeps_its_connection() -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(idle_ms=200)) as server:
            reader, writer = await server.connect()
            for byte in framed(b"x" * 20):
                writer.write(bytes((byte,)))
                await asyncio.sleep(0.03)
            assert await read_frame(reader) == b"x" * 20
            writer.write(framed(b"y" * 20)[:-1])
            assert await reader.read() == b""
            assert server.connections.closed_idle == 1
            writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_a_client_that_takes_nothing_of_a_long_reply_is_noted_wherever_that_was_read(
    tmp_path: Path, is_warm: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4_000_000))
    file = CountingFile(RealDisk().open(str(path)))
    if not is_warm:
        file.read_warm = lambda *_: None  # type: ignore[method-assign, assignment]

    async def main() -> None:
        server = Server(lambda frame, connection: [b"head", FileRange(file, 0, 4_000_000)])
        server.settings.async_disk.read = lambda *_: a_long_read()  # type: ignore[method-assign]
        connection, transport = open_fake(server)
        transport.keeps = True
        transport.receive(connection, framed(b"fetch"))
        async with asyncio.timeout(10):
            while not server.settings.unsent._holders:
                await asyncio.sleep(0)
        connection.abort()

    async def a_long_read() -> bytes:
        return bytes(SEND_CHUNK)

    asyncio.run(main())
    file.close()
