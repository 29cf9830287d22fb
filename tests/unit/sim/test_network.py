"""Streams over the simulated network, and what goes wrong with them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from levada.sim import Simulation
from levada.world.world import World
from tests.unit.echo import EchoClient, EchoServer


async def open_port(world: World, port: int, factory: Callable[[], EchoServer]) -> int:
    listener = await world.net.listen("", port, factory)
    await listener.start()
    return listener.port


class Pair:
    """An echo server on host b, reached from host a."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.a = sim.world("a")
        self.b = sim.world("b")
        self.servers: list[EchoServer] = []

    def accept(self) -> EchoServer:
        self.servers.append(EchoServer())
        return self.servers[-1]

    async def connect(self) -> tuple[EchoClient, asyncio.Transport]:
        if not self.servers:
            await open_port(self.b, 9092, self.accept)
        client = EchoClient()
        return client, await self.a.net.connect("b", 9092, lambda: client)


def run(test: Callable[[Pair], Coroutine[Any, Any, None]], seed: int = 1) -> Simulation:
    with Simulation(seed, recording=True) as sim:
        sim.run(test(Pair(sim)))
        return sim


@pytest.mark.parametrize("seed", range(20))
def test_bytes_come_back_in_order_whatever_the_chunks(seed: int) -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        payload = pair.sim.chance("payload").randbytes(300_000)
        for start in range(0, len(payload), 50_000):
            transport.write(payload[start : start + 50_000])
        assert await client.expect(len(payload)) == payload
        assert len(client.chunks) > 300
        assert transport.get_extra_info("peername") == ("b", 9092)
        assert pair.servers[0].transport.get_extra_info("peername") == transport.get_extra_info("sockname")
        assert transport.get_extra_info("nothing", "default") == "default"

    run(test, seed)


def test_small_writes_are_cut_and_joined() -> None:
    sizes = set()

    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        for round_number in range(1, 60):
            transport.writelines([b"01234", bytearray(b"56789"), memoryview(b"")])
            await client.expect(10 * round_number)
        assert bytes(client.received) == b"0123456789" * 59
        sizes.update(client.chunks)

    run(test)
    assert {1, 10} < sizes


def test_time_passes_on_the_way() -> None:
    async def test(pair: Pair) -> None:
        pair.sim.network.link("a", "b").latency_us = (100_000, 100_000)
        pair.sim.network.link("b", "a").latency_us = (200_000, 200_000)
        client, transport = await pair.connect()
        assert pair.sim.loop.time() == pytest.approx(0.3)
        transport.write(b"x")
        await client.expect(1)
        assert pair.sim.loop.time() == pytest.approx(0.6)

    run(test)


def test_a_narrow_link_takes_its_time() -> None:
    async def test(pair: Pair) -> None:
        pair.sim.network.link("a", "b").bytes_per_second = 10_000
        client, transport = await pair.connect()
        started = pair.sim.loop.time()
        transport.write(bytes(50_000))
        await client.expect(50_000)
        assert 5 <= pair.sim.loop.time() - started < 5.5

    run(test)


def test_a_writer_is_paused_until_its_reader_reads() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        transport.pause_reading()
        assert not transport.is_reading()
        total = 0
        while client.can_write.is_set():
            transport.write(bytes(100_000))
            total += 100_000
            await asyncio.sleep(1)
        assert pair.servers[0].pauses >= 1
        assert transport.get_write_buffer_size() > transport.get_write_buffer_limits()[1]
        assert not client.received
        transport.resume_reading()
        await client.can_write.wait()
        await client.expect(total)
        assert transport.get_write_buffer_size() == 0
        transport.set_write_buffer_limits(high=10)
        transport.write(bytes(11))
        assert not client.can_write.is_set()
        await client.expect(total + 11)
        assert client.can_write.is_set()

    run(test)


def test_a_buffer_changed_after_its_write_is_sent_changed() -> None:
    """As uvloop does: the simulator must not hide such a bug by copying early."""

    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        buffer = bytearray(b"before")
        transport.write(buffer)
        buffer[:] = b"after!"
        assert await client.expect(6) == b"after!"

    run(test)


def test_a_close_sends_what_is_buffered_and_ends_both_sides() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        transport.write(bytes(200_000))
        await client.expect(200_000)
        pair.servers[0].transport.write(b"bye")
        pair.servers[0].transport.close()
        assert pair.servers[0].transport.is_closing()
        pair.servers[0].transport.write(b"ignored")
        assert await client.wait_lost() is None
        assert await pair.servers[0].wait_lost() is None
        assert client.ended
        assert client.received.endswith(b"bye")
        await asyncio.sleep(60)
        assert client.lost == pair.servers[0].lost == [None]

    run(test)


def test_an_eof_leaves_the_other_direction_open() -> None:
    class HalfClosing(EchoServer):
        def eof_received(self) -> bool:
            self.transport.write(b"last words")
            asyncio.get_running_loop().call_later(1, self.transport.close)
            return True

    async def test(pair: Pair) -> None:
        await open_port(pair.b, 1, HalfClosing)
        client = EchoClient()
        transport = await pair.a.net.connect("b", 1, lambda: client)
        assert transport.can_write_eof()
        transport.write(b"hello")
        transport.write_eof()
        with pytest.raises(RuntimeError):
            transport.write(b"more")
        assert await client.expect(15) == b"hellolast words"
        assert await client.wait_lost() is None

    run(test)


def test_an_abort_is_a_reset_for_the_peer() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        transport.abort()
        assert await client.wait_lost() is None
        assert isinstance(await pair.servers[0].wait_lost(), ConnectionResetError)

    run(test)


def test_bytes_for_a_closed_socket_are_answered_with_a_reset() -> None:
    class DeafClient(EchoClient):
        def eof_received(self) -> bool:
            return True

    async def test(pair: Pair) -> None:
        await pair.connect()
        client = DeafClient()
        transport = await pair.a.net.connect("b", 9092, lambda: client)
        await asyncio.sleep(1)
        pair.servers[1].transport.close()
        await asyncio.sleep(1)
        assert not client.lost
        transport.write(b"are you there?")
        assert isinstance(await client.wait_lost(), ConnectionResetError)

    run(test)


def test_a_partition_holds_bytes_until_it_heals() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        pair.sim.network.partition("a", "b")
        transport.write(b"hel")
        await asyncio.sleep(30)
        transport.write(b"lo")
        await asyncio.sleep(30)
        assert not client.received
        pair.sim.network.heal("a", "b")
        assert await client.expect(5) == b"hello"
        assert not client.lost

    run(test)


def test_a_one_way_partition_lets_the_answers_wait() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        await asyncio.sleep(1)
        pair.sim.network.partition("b", "a", one_way=True)
        transport.write(b"hello")
        await asyncio.sleep(30)
        assert pair.servers[0].bytes_read == 5
        assert not client.received
        pair.sim.network.heal_all()
        assert await client.expect(5) == b"hello"

    run(test)


def test_connections_are_given_up_after_a_long_partition() -> None:
    async def test(pair: Pair) -> None:
        client, _ = await pair.connect()
        pair.sim.network.partition("a", "b", reset_after_ms=(5_000, 10_000))
        assert isinstance(await client.wait_lost(), TimeoutError)
        assert isinstance(await pair.servers[0].wait_lost(), TimeoutError)
        assert 5 <= pair.sim.loop.time() <= 10.1

    run(test)


def test_no_client_connects_through_a_partition() -> None:
    async def test(pair: Pair) -> None:
        await pair.connect()
        pair.sim.network.partition("a", "b")
        with pytest.raises(TimeoutError):
            await pair.connect()
        assert pair.sim.loop.time() > 60
        pair.sim.loop.call_later(3, pair.sim.network.heal, "a", "b")
        client, transport = await pair.connect()
        transport.write(b"hello")
        await client.expect(5)

    run(test)


def test_a_reset_breaks_open_connections_and_no_new_ones() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        transport.write(b"on the wire")
        await asyncio.sleep(0)
        pair.sim.network.reset("b", "a")
        assert isinstance(await client.wait_lost(), ConnectionResetError)
        assert isinstance(await pair.servers[0].wait_lost(), ConnectionResetError)
        await asyncio.sleep(10)
        assert not client.received
        client, transport = await pair.connect()
        transport.write(b"hello")
        await client.expect(5)

    run(test)


def test_a_stalled_connection_stays_open_and_carries_nothing() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        pair.sim.network.stall("a", "b")
        transport.write(b"hello")
        await asyncio.sleep(3600)
        assert not client.received
        assert not client.lost
        other, transport = await pair.connect()
        transport.write(b"hello")
        await other.expect(5)

    run(test)


def test_refusals() -> None:
    async def test(pair: Pair) -> None:
        with pytest.raises(ConnectionRefusedError):
            await pair.a.net.connect("b", 1, EchoClient)
        listener = await pair.b.net.listen("localhost", 7, EchoServer)
        assert not pair.sim.network.is_served("b", 7)
        with pytest.raises(ConnectionRefusedError):
            await pair.b.net.connect("localhost", 7, EchoClient)
        await listener.start()
        assert pair.sim.network.is_served("b", 7)
        with pytest.raises(ConnectionRefusedError):
            await pair.a.net.connect("b", 7, EchoClient)
        (await pair.b.net.connect("localhost", 7, EchoClient)).close()
        with pytest.raises(OSError):
            await pair.b.net.listen("", 7, EchoServer)
        listener.close()
        listener.close()
        assert not pair.sim.network.is_served("b", 7)
        with pytest.raises(ConnectionRefusedError):
            await pair.b.net.connect("localhost", 7, EchoClient)

    run(test)


def test_port_zero_is_a_free_port() -> None:
    async def test(pair: Pair) -> None:
        ports = [await open_port(pair.b, 0, EchoServer) for _ in range(5)]
        assert len(set(ports)) == 5
        for port in ports:
            await pair.a.net.connect("b", port, EchoClient)

    run(test)


def test_a_connect_given_up_leaves_no_half_open_connection() -> None:
    async def test(pair: Pair) -> None:
        await pair.connect()
        pair.sim.network.link("b", "a").latency_us = (500_000, 500_000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pair.connect(), 0.3)
        assert isinstance(await pair.servers[1].wait_lost(), ConnectionResetError)

    run(test)


def test_a_server_may_speak_first() -> None:
    class Greeter(EchoServer):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.write(b"welcome")

    async def talk(world: World) -> None:
        for _ in range(30):
            client = EchoClient()
            await world.net.connect("b", 1, lambda made=client: made)  # type: ignore[misc]
            await client.expect(7)

    async def test(pair: Pair) -> None:
        await open_port(pair.b, 1, Greeter)
        await talk(pair.a)

    run(test)


def test_the_trace_tells_every_message() -> None:
    async def test(pair: Pair) -> None:
        client, transport = await pair.connect()
        transport.write(b"hello")
        await client.expect(5)

    lines = run(test).trace.lines
    assert lines is not None
    assert any("listen b#1 9092" in line for line in lines)
    assert any("receive a:32768->b:9092" in line for line in lines)
    assert any("receive b:9092->a:32768" in line for line in lines)
