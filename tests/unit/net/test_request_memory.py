"""`queued.max.request.bytes`: which connection has to wait for memory, and that none waits for ever."""

import asyncio

import pytest

from levada.net.connection import ServerConnection
from levada.net.reply import CloseConnection, Reply
from levada.net.request_memory import UNLIMITED, RequestMemory
from tests.unit.net.serving import FakeTransport, Server, framed, open_fake, read_frame
from tests.unit.world.loops import LOOPS, run_on

LARGE = 1_000


class Waiter:
    def __init__(self) -> None:
        self.got: list[int] = []

    def on_memory(self, size: int) -> None:
        self.got.append(size)


def test_a_frame_may_begin_while_anything_is_left() -> None:
    memory, waiter = RequestMemory(100), Waiter()
    assert memory.take(99, waiter)
    assert memory.available == 1
    assert memory.take(500, waiter)
    assert (memory.used, memory.available) == (599, -499)
    assert not memory.take(1, waiter)
    memory.release(500)
    assert waiter.got == [1]
    assert (memory.used, memory.available, memory.waiting) == (100, 0, 0)


def test_memory_goes_to_those_who_wait_in_their_order_and_to_no_newcomer() -> None:
    memory, first, second, third, newcomer = RequestMemory(100), *(Waiter() for _ in range(4))
    assert memory.take(100, newcomer)
    assert not memory.take(150, first)
    assert not memory.take(10, second)
    assert not memory.take(20, third)
    memory.forget(second)
    memory.release(100)
    assert (first.got, second.got, third.got) == ([150], [], [])
    memory.release(60)
    assert not memory.take(1, newcomer)
    memory.release(90)
    assert (third.got, newcomer.got) == ([20], [1])
    memory.release(21)
    assert memory.used == 0


def test_one_release_may_be_enough_for_several() -> None:
    memory, first, second, third = RequestMemory(100), *(Waiter() for _ in range(3))
    assert memory.take(500, first)
    assert not memory.take(60, first)
    assert not memory.take(70, second)
    assert not memory.take(80, third)
    memory.release(500)
    assert (first.got, second.got, third.got) == ([60], [70], [])
    assert (memory.used, memory.waiting) == (130, 1)


@pytest.mark.parametrize("limit", [UNLIMITED, 0])
def test_without_a_limit_no_request_waits_and_what_is_used_is_known(limit: int) -> None:
    memory = RequestMemory(limit)
    assert memory.take(2**40, Waiter())
    assert memory.take(1, Waiter())
    assert memory.used == 2**40 + 1
    assert memory.available > 2**40


class Parking:
    """Answers small requests and parks large ones."""

    def __init__(self) -> None:
        self.parked: list[tuple[bytes, asyncio.Future[Reply]]] = []

    def __call__(self, frame: memoryview, connection: ServerConnection) -> "Reply | asyncio.Future[Reply]":
        if len(frame) < LARGE:
            return [bytes(frame)]
        self.parked.append((bytes(frame[:1]), asyncio.get_running_loop().create_future()))
        return self.parked[-1][1]

    @property
    def names(self) -> bytes:
        return b"".join(name for name, _ in self.parked)


def large(name: bytes) -> bytes:
    return framed(name * LARGE)


def parking_server() -> tuple[Parking, Server]:
    parking = Parking()
    return parking, Server(parking, memory_limit=LARGE)


def ask(server: Server, data: bytes) -> tuple[ServerConnection, FakeTransport]:
    connection, transport = open_fake(server)
    transport.receive(connection, data)
    return connection, transport


@pytest.mark.parametrize("loop", LOOPS)
def test_large_requests_wait_for_memory_and_small_ones_do_not(loop: str) -> None:
    async def main() -> None:
        parking = Parking()
        async with Server(parking, memory_limit=LARGE) as server:
            clients = [await server.connect() for _ in range(4)]
            for name, (_, writer) in zip((b"a", b"b", b"c"), clients):
                writer.write(large(name))
                while not parking.parked or server.memory.waiting < "abc".index(name.decode()):
                    await asyncio.sleep(0)
            reader, writer = clients[3]
            writer.write(framed(b"small"))
            assert await read_frame(reader) == b"small"
            assert parking.names == b"a"
            for index, name in enumerate((b"a", b"b", b"c")):
                while len(parking.parked) <= index:
                    await asyncio.sleep(0)
                assert parking.names[index:] == name
                assert server.memory.used == LARGE
                parking.parked[index][1].set_result([name])
                assert await read_frame(clients[index][0]) == name
            assert server.memory.used == 0
            for _, writer in clients:
                writer.close()

    run_on(loop, main())


def test_a_request_answered_at_once_holds_nothing() -> None:
    async def main() -> None:
        server = Server(lambda frame, connection: [b"ok"], memory_limit=LARGE)
        _, transport = ask(server, large(b"a") * 5)
        assert transport.written == [framed(b"ok")] * 5
        assert server.memory.used == 0

    asyncio.run(main())


def test_a_frame_is_counted_from_its_first_bytes() -> None:
    async def main() -> None:
        _, server = parking_server()
        ask(server, large(b"a")[:10])
        assert server.memory.used == LARGE
        _, transport = ask(server, large(b"b")[:10])
        assert server.memory.waiting == 1
        assert not transport.is_reading()

    asyncio.run(main())


@pytest.mark.parametrize("sent", [10, LARGE + 3, LARGE + 4], ids=["begun", "almost", "parked"])
def test_memory_of_a_connection_that_is_lost_goes_to_the_next(sent: int) -> None:
    async def main() -> None:
        parking, server = parking_server()
        _, lost = ask(server, large(b"a")[:sent])
        ask(server, large(b"b"))
        assert b"b" not in parking.names
        lost.abort()
        # The loss, the end of the parked request, the turn of the next.
        for _ in range(5):
            await asyncio.sleep(0)
        assert server.memory.used == LARGE
        assert server.memory.waiting == 0

    asyncio.run(main())


def test_the_next_goes_on_with_what_it_had_sent_before_it_waited() -> None:
    async def main() -> None:
        parking, server = parking_server()
        _, lost = ask(server, large(b"a"))
        stream = framed(b"small") + large(b"b") + framed(b"after")
        connection, transport = ask(server, stream)
        rest = stream[server.connections.bytes_in - LARGE - 4 :]
        assert not transport.is_reading()
        lost.abort()
        for _ in range(5):
            await asyncio.sleep(0)
        assert transport.is_reading()
        transport.receive(connection, rest)
        assert parking.names == b"ab"
        parking.parked[1][1].set_result([b"b"])
        await asyncio.sleep(0)
        assert b"".join(transport.written) == framed(b"small") + framed(b"b") + framed(b"after")
        await asyncio.sleep(0)
        assert server.memory.used == 0

    asyncio.run(main())


def test_one_that_is_lost_while_it_waits_takes_nothing_with_it() -> None:
    async def main() -> None:
        parking, server = parking_server()
        _, first = ask(server, large(b"a"))
        _, second = ask(server, large(b"b"))
        _, third = ask(server, large(b"c"))
        # The second is granted memory in the very moment in which it is lost.
        parking.parked[0][1].set_result([b"a"])
        second.abort()
        for _ in range(5):
            await asyncio.sleep(0)
        assert third.is_reading()
        assert server.memory.used == LARGE
        third.abort()
        first.abort()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (server.memory.used, server.memory.waiting) == (0, 0)

    asyncio.run(main())


def test_one_that_is_lost_while_it_waits_is_given_nothing_later() -> None:
    async def main() -> None:
        parking, server = parking_server()
        ask(server, large(b"a"))
        _, lost = ask(server, large(b"b"))
        lost.abort()
        await asyncio.sleep(0)
        assert server.memory.waiting == 0
        parking.parked[0][1].set_result([b"a"])
        await asyncio.sleep(0)
        assert server.memory.used == 0

    asyncio.run(main())


@pytest.mark.parametrize("error", [CloseConnection("bad"), RuntimeError("a bug of ours")])
def test_memory_of_a_request_that_fails_is_given_back(error: Exception) -> None:
    def dispatch(frame: memoryview, connection: ServerConnection) -> Reply:
        raise error

    async def main() -> None:
        server = Server(dispatch, memory_limit=LARGE)
        _, transport = ask(server, large(b"a"))
        assert transport.is_closing()
        assert server.memory.used == 0

    asyncio.run(main())


def test_one_that_waits_for_memory_is_not_idle() -> None:
    async def main() -> None:
        _, server = parking_server()
        ask(server, large(b"a"))
        connection, _ = ask(server, large(b"b"))
        assert not connection.was_idle()
        assert not connection.was_idle()

    asyncio.run(main())


def test_without_a_limit_half_frames_hold_what_came_of_them() -> None:
    async def main() -> None:
        server = Server(lambda frame, connection: None, max_frame_size=100_000_000)
        claim = (100_000_000).to_bytes(4, "big")
        held = 0
        for _ in range(100):
            connection, _ = ask(server, claim + b"drip")
            assert connection._reader._large is not None
            held += len(connection._reader._large)
        assert held <= 100 * 64 * 1024
        assert server.memory.used == 100 * 100_000_000

    asyncio.run(main())
