"""The server's side of a connection, over real sockets."""

import asyncio
from pathlib import Path

import pytest

from levada.model.buffers import Buffer
from levada.net.connection import MAX_REQUESTS_IN_PROGRESS, ServerConnection
from levada.net.reply import CloseConnection, Reply
from levada.world.disk import FileRange
from levada.world.real_disk import RealDisk, RealFile
from tests.unit.net.serving import Server, echo, framed, open_fake, read_frame, run_session
from tests.unit.world.loops import LOOPS, run_on


def test_requests_in_one_packet_are_answered_in_order() -> None:
    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        writer.write(framed(b"one") + framed(b"two") + framed(b"x" * 5_000) + framed(b"four"))
        return [await read_frame(reader) for _ in range(4)]

    assert run_session(echo, session) == [b"one", b"two", b"x" * 5_000, b"four"]


def test_a_later_answer_waits_for_an_earlier_one() -> None:
    parked: list[asyncio.Future[Reply]] = []

    def dispatch(frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        name = bytes(frame)
        if name == b"slow":
            parked.append(asyncio.get_running_loop().create_future())
            return parked[-1]
        if name == b"silent":
            return None
        if name == b"release":
            asyncio.get_running_loop().call_soon(lambda: parked[0].set_result([b"slow"]))
        return [name]

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        for name in (b"slow", b"silent", b"fast", b"release"):
            writer.write(framed(name))
        return [await read_frame(reader) for _ in range(3)]

    assert run_session(dispatch, session) == [b"slow", b"fast", b"release"]


def test_too_many_requests_in_progress_stop_the_reading_until_one_is_answered() -> None:
    parked: list[asyncio.Future[Reply]] = []

    def dispatch(frame: memoryview, connection: ServerConnection) -> "asyncio.Future[Reply]":
        parked.append(asyncio.get_running_loop().create_future())
        return parked[-1]

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(b"r") * (MAX_REQUESTS_IN_PROGRESS + 10))
        while len(parked) < MAX_REQUESTS_IN_PROGRESS:
            await asyncio.sleep(0)
        writer.write(framed(b"r"))
        await writer.drain()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(parked) == MAX_REQUESTS_IN_PROGRESS
        answered = 0
        while answered < MAX_REQUESTS_IN_PROGRESS + 11:
            while len(parked) <= answered:
                await asyncio.sleep(0)
            parked[answered].set_result([answered.to_bytes(2, "big")])
            assert int.from_bytes(await read_frame(reader), "big") == answered
            answered += 1

    run_session(dispatch, session)


def test_a_client_that_does_not_read_stops_being_read_and_gets_all_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 8_000)
    file = RealDisk().open(str(path))
    handled = 0

    def dispatch(frame: memoryview, connection: ServerConnection) -> Reply:
        nonlocal handled
        handled += 1
        return [b"head", FileRange(file, 256, 2_000_000), b"tail"]

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        total = 100
        writer.write(framed(b"r") * total)
        await writer.drain()
        for _ in range(200):
            await asyncio.sleep(0)
        assert handled < total // 2
        expected = b"head" + (bytes(range(256)) * 8_000)[256:2_000_256] + b"tail"
        for _ in range(total):
            assert await read_frame(reader) == expected
        assert handled == total

    try:
        run_session(dispatch, session)
    finally:
        file.close()


def test_cold_bytes_are_read_elsewhere_and_sent_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 16_000)
    file = RealDisk().open(str(path))
    warm = RealFile.read_warm
    asked = 0

    def every_second_is_cold(self: RealFile, position: int, size: int, into: bytearray | None = None) -> Buffer | None:
        nonlocal asked
        asked += 1
        return None if asked % 2 else warm(self, position, size, into)

    monkeypatch.setattr(RealFile, "read_warm", every_second_is_cold)

    def dispatch(frame: memoryview, connection: ServerConnection) -> Reply:
        return [bytes(frame), FileRange(file, 0, 4_000_000)]

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(framed(b"%d" % number) for number in range(10)))
        for number in range(10):
            assert await read_frame(reader) == b"%d" % number + (bytes(range(256)) * 16_000)[:4_000_000]

    try:
        run_session(dispatch, session)
    finally:
        file.close()
    assert asked > 30


@pytest.mark.parametrize("bad", [b"\xff\xff\xff\xff", (2_000_000).to_bytes(4, "big"), b"GET / HTTP/1.1\r\n\r\n"])
def test_an_impossible_size_closes_the_connection(bad: bytes) -> None:
    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(framed(b"good"))
        assert await read_frame(reader) == b"good"
        writer.write(bad)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""

    assert run_session(echo, session) == b""


@pytest.mark.parametrize("error", [CloseConnection("bad"), RuntimeError("a bug of ours")])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_failing_handler_closes_only_its_connection(error: Exception, is_late: bool) -> None:
    def dispatch(frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        if not is_late:
            raise error
        failed: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        return failed

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(framed(b"r"))
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""

    assert run_session(dispatch, session) == b""


def test_frames_are_poisoned_after_their_dispatch() -> None:
    kept: list[memoryview] = []

    def dispatch(frame: memoryview, connection: ServerConnection) -> Reply:
        kept.append(frame)
        return [bytes(frame)]

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(framed(b"abcd"))
        answer = await read_frame(reader)
        assert bytes(kept[0]) == b"\xdd\xdd\xdd\xdd"
        return answer

    assert run_session(dispatch, session) == b"abcd"


@pytest.mark.parametrize("is_abrupt", [False, True])
def test_parked_requests_of_a_lost_client_are_cancelled(is_abrupt: bool) -> None:
    parked: list[asyncio.Future[Reply]] = []

    def dispatch(frame: memoryview, connection: ServerConnection) -> "asyncio.Future[Reply]":
        parked.append(asyncio.get_running_loop().create_future())
        return parked[-1]

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(b"r"))
        while not parked:
            await asyncio.sleep(0)
        if is_abrupt:
            writer.transport.abort()
        else:
            writer.write_eof()
        while not parked[0].cancelled():
            await asyncio.sleep(0)

    run_session(dispatch, session)


def test_the_replies_to_one_packet_leave_in_one_write() -> None:
    async def main() -> None:
        server = Server(echo)
        connection, transport = open_fake(server)
        transport.receive(connection, framed(b"one") + framed(b"two") + framed(b"three"))
        assert transport.written == [framed(b"one") + framed(b"two") + framed(b"three")]
        transport.receive(connection, framed(b"four"))
        assert transport.written[1:] == [framed(b"four")]
        assert server.connections.bytes_in == server.connections.bytes_out == sum(map(len, transport.written))

    asyncio.run(main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("is_late", [False, True])
def test_what_was_asked_before_a_bad_request_is_answered(loop: str, is_late: bool) -> None:
    def dispatch(frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if bytes(frame) == b"bad":
            if not is_late:
                raise CloseConnection("bad")
            answer.set_exception(CloseConnection("bad"))
            return answer
        if bytes(frame) == b"slow":
            asyncio.get_running_loop().call_later(0.01, lambda: answer.set_result([b"slow"]))
            return answer
        return [bytes(frame)]

    async def main() -> None:
        async with Server(dispatch) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(map(framed, (b"quick", b"slow", b"behind", b"bad", b"never"))))
            assert await reader.read() == b"".join(map(framed, (b"quick", b"slow", b"behind")))
            writer.close()

    run_on(loop, main())


def test_connections_are_counted() -> None:
    async def main() -> None:
        async with Server(echo) as server:
            connections = server.connections
            clients = [await server.connect() for _ in range(3)]
            for reader, writer in clients:
                writer.write(framed(b"abcd"))
                await read_frame(reader)
            assert (connections.open, connections.accepted) == (3, 3)
            assert (connections.bytes_in, connections.bytes_out) == (24, 24)
            clients[0][1].close()
            while connections.open == 3:
                await asyncio.sleep(0)
            assert (connections.open, connections.accepted) == (2, 3)
            for _, writer in clients:
                writer.close()

    asyncio.run(main())
