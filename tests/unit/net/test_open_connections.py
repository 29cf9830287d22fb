"""How many connections there may be, from where, and for how long without a word."""

import asyncio
import logging
import socket
import time

import pytest

from levada.net.connection import ServerConnection
from levada.net.open_connections import ConnectionLimits, canonical_ip
from levada.net.reply import Reply
from levada.sim import Simulation
from tests.unit.net.serving import Server, echo, framed, open_fake, read_frame
from tests.unit.world.loops import LOOPS, run_on

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def is_answered(client: Client) -> bool:
    """Whether the one request that was sent is answered, as far as this loop can tell."""
    try:
        return await asyncio.wait_for(read_frame(client[0]), 0.1) == b"request"
    except TimeoutError:
        return False


async def ask(server: Server, from_ip: str = "127.0.0.1") -> Client:
    reader, writer = await server.connect(from_ip)
    writer.write(framed(b"request"))
    return reader, writer


async def is_closed(client: Client) -> bool:
    try:
        return await asyncio.wait_for(client[0].read(), 5) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("loop", LOOPS)
def test_connections_above_the_limit_wait_unread_and_start_in_their_order(loop: str) -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(max_connections=100)) as server:
            clients = [await ask(server) for _ in range(200)]
            for client in clients[:100]:
                assert await read_frame(client[0]) == b"request"
            answers = [asyncio.ensure_future(read_frame(client[0])) for client in clients[100:]]
            await asyncio.sleep(0.2)
            assert not any(answer.done() for answer in answers)
            assert (server.connections.open, server.connections.held) == (100, 100)
            for left in range(0, 100, 10):
                for _, writer in clients[left : left + 10]:
                    writer.close()
                assert await asyncio.gather(*answers[left : left + 10]) == [b"request"] * 10
                assert [answer.done() for answer in answers].count(True) == left + 10
            assert (server.connections.open, server.connections.held) == (100, 0)
            assert server.connections.accepted == 200
            for _, writer in clients:
                writer.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_when_too_many_wait_the_next_is_closed(loop: str) -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(max_connections=1), backlog=2) as server:
            clients = [await ask(server) for _ in range(4)]
            assert await is_closed(clients[3])
            assert server.connections.refused_backlog_full == 1
            assert [await is_answered(client) for client in clients[:3]] == [True, False, False]
            for _, writer in clients:
                writer.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_request_that_was_there_before_its_connection_was_held_is_answered_later(loop: str) -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(max_connections=1)) as server:
            # Sent before the loop can accept anything.
            sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
            for one in sockets:
                one.sendall(framed(b"request"))
            first, second = [await asyncio.open_connection(sock=one) for one in sockets]
            assert await read_frame(first[0]) == b"request"
            assert (server.connections.open, server.connections.held) == (1, 1)
            assert not await is_answered(second)
            first[1].close()
            assert await asyncio.wait_for(read_frame(second[0]), 5) == b"request"
            second[1].close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_more_than_there_are_files_for_are_closed_with_one_line_for_all(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        limits = ConnectionLimits(most_possible=20, max_connections=18)
        async with Server(echo, limits) as server:
            clients = [await ask(server) for _ in range(40)]
            assert all([await is_closed(client) for client in clients[20:]])
            assert (server.connections.open, server.connections.held) == (18, 2)
            assert server.connections.refused_impossible == 20
            assert caplog.text.count("too many connections") == 1
            # One place that is free for a moment does not make it another crowd.
            clients[0][1].close()
            assert await asyncio.wait_for(read_frame(clients[18][0]), 5) == b"request"
            more = [await ask(server) for _ in range(3)]
            assert all([await is_closed(client) for client in more[1:]])
            assert caplog.text.count("too many connections") == 1
            for _, writer in (*clients[:20], *more):
                writer.close()
            while server.connections.open:
                await asyncio.sleep(0.001)
            again = [await ask(server) for _ in range(21)]
            assert await is_closed(again[20])
            assert caplog.text.count("too many connections") == 2
            for _, writer in (*clients, *again):
                writer.close()

    run_on(loop, main())


def test_a_raised_limit_lets_those_who_wait_start() -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(max_connections=0)) as server:
            clients = [await ask(server) for _ in range(3)]
            server.connections.limits = ConnectionLimits(max_connections=2)
            assert [await is_answered(client) for client in clients] == [True, True, False]
            server.connections.limits = ConnectionLimits(max_connections=1)
            clients[0][1].close()
            assert not await is_answered(clients[2])
            clients[1][1].close()
            assert await is_answered(clients[2])
            clients[2][1].close()

    asyncio.run(main())


def test_one_that_left_while_it_waited_does_not_keep_its_slot() -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(max_connections=1)) as server:
            clients = [await ask(server) for _ in range(3)]
            clients[1][1].close()
            assert await is_answered(clients[0])
            clients[0][1].close()
            assert await is_answered(clients[2])
            clients[2][1].close()

    asyncio.run(main())


def test_a_stop_does_not_wait_for_those_who_wait() -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(max_connections=0)) as server:
            client = await ask(server)
            started = time.monotonic()
            await server.connections.close(30)
            assert time.monotonic() - started < 5
            assert await is_closed(client)
            late = await server.connect()
            assert await is_closed(late)
            client[1].close()
            late[1].close()

    asyncio.run(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_an_address_has_only_so_many_connections(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "levada.net")
    overrides = {"127.0.0.2": 1, "127.0.0.3": 0}

    async def main() -> None:
        async with Server(echo, ConnectionLimits(max_per_ip=2, per_ip_overrides=overrides)) as server:
            allowed = [await ask(server) for _ in range(2)]
            allowed.append(await ask(server, "127.0.0.2"))
            refused = [await ask(server, f"127.0.0.{host}") for host in (1, 2, 3)]
            assert [await is_closed(client) for client in refused] == [True] * 3
            assert [await is_answered(client) for client in allowed] == [True] * 3
            assert server.connections.refused_per_ip == 3
            lines = [record.getMessage() for record in caplog.records]
            assert len(lines) == 3
            assert lines[1].startswith("refused connection peer=127.0.0.2:")
            allowed[0][1].close()
            while server.connections.open == 3:
                await asyncio.sleep(0)
            again = await ask(server)
            assert await is_answered(again)
            for _, writer in (*allowed, *refused, again):
                writer.close()

    run_on(loop, main())


def test_an_address_is_the_same_however_it_is_written() -> None:
    assert canonical_ip("::ffff:10.0.0.1") == "10.0.0.1"
    assert canonical_ip("0:0:0:0:0:0:0:1") == "::1"
    assert canonical_ip("broker-1") == "broker-1"


def test_the_addresses_that_left_are_forgotten() -> None:
    async def main() -> None:
        server = Server(echo)
        transports = [open_fake(server, f"10.0.0.{number % 5}")[1] for number in range(50)]
        for transport in transports:
            transport.lose()
        await asyncio.sleep(0)
        assert server.connections.open == 0
        assert not server.connections._per_ip

    asyncio.run(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_an_idle_connection_is_closed_and_a_busy_one_is_not(loop: str) -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(idle_ms=300)) as server:
            idle, busy = await server.connect(), await server.connect()
            for _ in range(12):
                busy[1].write(framed(b"request"))
                assert await read_frame(busy[0]) == b"request"
                await asyncio.sleep(0.05)
            assert await is_closed(idle)
            assert server.connections.closed_idle == 1
            assert await is_closed(busy)
            assert server.connections.closed_idle == 2
            idle[1].close()
            busy[1].close()

    run_on(loop, main())


def simulated_ages(limits: ConnectionLimits, *, seconds: int, activity: list[int]) -> tuple[float | None, Server]:
    """When a connection with something to do at these times is closed, in virtual time."""

    async def main(sim: Simulation) -> tuple[float | None, Server]:
        server = Server(echo, limits)
        connection, transport = open_fake(server)
        for now in range(seconds):
            if now in activity:
                transport.receive(connection, framed(b"request"))
            await asyncio.sleep(1)
            if transport.is_aborted:
                return sim.loop.time(), server
        return None, server

    with Simulation(1) as sim:
        return sim.run(main(sim))


def test_a_connection_is_closed_when_its_time_is_over_and_little_later() -> None:
    closed_at, server = simulated_ages(ConnectionLimits(), seconds=10_000, activity=[0, 500, 1_003])
    assert closed_at is not None
    assert 1_603 <= closed_at <= 1_603 + 2 * 10 + 1
    assert server.connections.closed_idle == 1


def test_below_zero_no_connection_is_idle() -> None:
    closed_at, _ = simulated_ages(ConnectionLimits(idle_ms=-1), seconds=10_000, activity=[])
    assert closed_at is None


def test_an_empty_server_has_no_timer() -> None:
    async def main() -> None:
        server = Server(echo)
        _, transport = open_fake(server)
        transport.lose()
        await asyncio.sleep(100)
        assert server.connections._next_look is None

    with Simulation(1) as sim:
        sim.run(main())


def test_a_parked_request_keeps_its_connection_and_its_answer_starts_the_time_anew() -> None:
    parked: list[asyncio.Future[Reply]] = []

    def dispatch(frame: memoryview, connection: ServerConnection) -> "asyncio.Future[Reply]":
        parked.append(asyncio.get_running_loop().create_future())
        return parked[-1]

    async def main() -> None:
        server = Server(dispatch, ConnectionLimits(idle_ms=10_000))
        connection, transport = open_fake(server)
        transport.receive(connection, framed(b"long poll"))
        # Between two looks.
        await asyncio.sleep(3_600.5)
        assert not transport.is_aborted
        parked[0].set_result([b"at last"])
        await asyncio.sleep(9.9)
        assert transport.written == [framed(b"at last")]
        assert not transport.is_aborted
        await asyncio.sleep(2)
        assert transport.is_aborted

    with Simulation(1) as sim:
        sim.run(main())


def test_a_loop_that_hung_does_not_make_its_clients_idle() -> None:
    async def main() -> None:
        async with Server(echo, ConnectionLimits(idle_ms=200)) as server:
            client = await ask(server)
            await asyncio.sleep(0.1)
            time.sleep(0.4)  # noqa: ASYNC251 - that is the point
            assert await is_answered(client)
            client[1].write(framed(b"request"))
            assert await is_answered(client)
            client[1].close()

    asyncio.run(main())


def test_a_new_idle_time_holds_for_connections_that_are_open() -> None:
    async def main() -> None:
        server = Server(echo)
        _, transport = open_fake(server)
        await asyncio.sleep(5)
        server.connections.limits = ConnectionLimits(idle_ms=1_000)
        await asyncio.sleep(2)
        assert transport.is_aborted

    with Simulation(1) as sim:
        sim.run(main())
