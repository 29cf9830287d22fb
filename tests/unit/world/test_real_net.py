"""Real sockets on both event loops."""

import asyncio
import errno
import os
import socket

import pytest

from levada.world import real_net
from levada.world.real_net import RealListener, RealNet, ResolvedAddress, bind_all
from tests.descriptors import no_descriptors_to_spare
from tests.unit.echo import EchoClient, EchoServer
from tests.unit.world.loops import LOOPS, run_on

IPV4 = ResolvedAddress(socket.AF_INET, "127.0.0.1", ())
IPV6 = ResolvedAddress(socket.AF_INET6, "::1", (0, 0))


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", ""])
def test_bytes_go_to_a_free_port_and_back_without_delay(loop: str, host: str) -> None:
    async def main() -> None:
        net = RealNet()
        servers: list[EchoServer] = []

        def accept() -> EchoServer:
            servers.append(EchoServer())
            return servers[-1]

        listener = await net.listen(host, 0, accept)
        assert listener.port > 0
        await listener.start()
        client = EchoClient()
        transport = await net.connect(host or "localhost", listener.port, lambda: client)
        transport.writelines([b"he", b"llo"])
        assert await client.expect(5) == b"hello"
        for end in (transport, servers[0].transport):
            option = end.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert option != 0
        listener.close()
        transport.write(b" again")
        assert await client.expect(11) == b"hello again"
        with pytest.raises(OSError):
            await net.connect("127.0.0.1", listener.port, EchoClient)
        transport.close()
        assert await client.wait_lost() is None
        assert await servers[0].wait_lost() is None

    run_on(loop, main())


@needs_ipv6
@pytest.mark.parametrize("loop", LOOPS)
def test_both_families_of_a_name_get_the_same_free_port(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(host: str) -> list[ResolvedAddress]:
        return [IPV6, IPV4]

    monkeypatch.setattr(real_net, "resolve", both)

    async def main() -> None:
        net = RealNet()
        listener = await net.listen("localhost", 0, EchoServer)
        await listener.start()
        for host in ("127.0.0.1", "::1"):
            client = EchoClient()
            transport = await net.connect(host, listener.port, lambda made=client: made)  # type: ignore[misc]
            transport.write(b"hello")
            assert await client.expect(5) == b"hello"
            transport.abort()
            await client.wait_lost()
        listener.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_port_without_descriptors_for_connections_goes_on_when_there_are_some(
    loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        listener = await RealNet().listen("127.0.0.1", 0, EchoServer)
        await listener.start()
        waiting = [socket.socket() for _ in range(5)]
        for one in waiting:
            one.setblocking(False)
        with no_descriptors_to_spare():
            for one in waiting:
                one.connect_ex(("127.0.0.1", listener.port))
            while "cannot accept" not in caplog.text:
                await asyncio.sleep(0.001)
            await asyncio.sleep(2.5 * real_net.ACCEPT_RETRY_SECONDS)
            # Tried again, and said once.
            assert caplog.text.count("cannot accept") == 1
        for one in waiting:
            reader, writer = await asyncio.open_connection(sock=one)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
        listener.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_many_that_come_at_once_are_all_accepted(loop: str) -> None:
    async def main() -> None:
        listener = await RealNet().listen("127.0.0.1", 0, EchoServer)
        await listener.start()
        ends = await asyncio.gather(*[asyncio.open_connection("127.0.0.1", listener.port) for _ in range(300)])
        for number, (reader, writer) in enumerate(ends):
            writer.write(b"%05d" % number)
            assert await reader.readexactly(5) == b"%05d" % number
            writer.close()
        listener.close()

    run_on(loop, main())


@needs_ipv6
def test_a_port_taken_in_one_family_is_not_chosen() -> None:
    taken = socket.socket(socket.AF_INET)
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(OSError):
        bind_all([IPV6, IPV4], port)
    # Nothing of the failed attempt stays bound.
    with socket.socket(socket.AF_INET6) as free:
        free.bind(("::1", port))
    taken.close()


def test_a_free_port_is_looked_for_again_when_the_second_family_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []
    bind = real_net._bind

    def second_refuses_twice(address: ResolvedAddress, port: int, *, ipv6_only: bool) -> socket.socket:
        if port:
            attempts.append(port)
            if len(attempts) <= 2:
                raise OSError(errno.EADDRINUSE, "Address already in use")
        return bind(address, port, ipv6_only=ipv6_only)

    monkeypatch.setattr(real_net, "_bind", second_refuses_twice)
    first, second = bind_all([IPV4, ResolvedAddress(socket.AF_INET, "127.0.0.2", ())], 0)
    assert first.getsockname()[1] == second.getsockname()[1] == attempts[-1]
    assert len(attempts) == 3
    first.close()
    second.close()


def test_a_family_that_the_machine_lacks_is_left_out() -> None:
    missing = ResolvedAddress(socket.AF_INET, "192.0.2.1", ())
    (bound,) = bind_all([missing, IPV4], 0)
    assert bound.getsockname()[0] == "127.0.0.1"
    bound.close()
    with pytest.raises(OSError):
        bind_all([missing], 0)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_taken_port_is_refused(loop: str) -> None:
    async def main() -> None:
        net = RealNet()
        listener = await net.listen("127.0.0.1", 0, EchoServer)
        await listener.start()
        with pytest.raises(OSError):
            await net.listen("127.0.0.1", listener.port, EchoServer)
        listener.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_no_client_connects_before_the_start_and_the_port_is_known_by_then(loop: str) -> None:
    async def main() -> None:
        net = RealNet()
        listener = await net.listen("127.0.0.1", 0, EchoServer)
        with pytest.raises(ConnectionRefusedError):
            await net.connect("127.0.0.1", listener.port, EchoClient)
        await listener.start()
        client = EchoClient()
        transport = await net.connect("127.0.0.1", listener.port, lambda: client)
        transport.write(b"hello")
        assert await client.expect(5) == b"hello"
        transport.abort()
        listener.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_of_two_that_claimed_a_port_one_starts(loop: str) -> None:
    async def main() -> None:
        net = RealNet()
        first = await net.listen("127.0.0.1", 0, EchoServer)
        second = await net.listen("127.0.0.1", first.port, EchoServer)
        await first.start()
        with pytest.raises(OSError):
            await second.start()
        first.close()
        second.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_listener_closed_before_its_start_lets_go_of_its_port(loop: str) -> None:
    async def main() -> None:
        net = RealNet()
        listener = await net.listen("127.0.0.1", 0, EchoServer, backlog=1)
        listener.close()
        again = await net.listen("127.0.0.1", listener.port, EchoServer)
        await again.start()
        again.close()

    run_on(loop, main())


# Connecting


@pytest.mark.parametrize("loop", LOOPS)
def test_who_is_not_there_is_said_by_name(loop: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        async def main() -> None:
            for host in ("127.0.0.1", "localhost"):
                with pytest.raises(ConnectionRefusedError, match=f":{port}"):
                    await RealNet().connect(host, port, EchoClient)
            with pytest.raises(socket.gaierror):
                await RealNet().connect("no.such.host.invalid", port, EchoClient)

        run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_the_second_address_of_a_name_is_tried(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = ResolvedAddress(socket.AF_INET, "127.0.0.2", ())
    monkeypatch.setattr(real_net, "_addresses", lambda host, flags: [deaf, IPV4])

    async def main() -> None:
        net, client = RealNet(), EchoClient()
        listener = RealListener(bind_all([IPV4], 0), EchoServer, 10)
        await listener.start()
        transport = await net.connect("two", listener.port, lambda: client)
        assert transport.get_extra_info("peername")[0] == "127.0.0.1"
        transport.abort()
        await client.wait_lost()
        listener.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_is_given_up_leaves_no_socket(loop: str) -> None:
    async def main(port: int) -> None:
        before = len(os.listdir("/proc/self/fd"))
        connecting = asyncio.ensure_future(RealNet().connect("127.0.0.1", port, EchoClient))
        await asyncio.sleep(0.05)
        assert not connecting.done(), "nothing accepts, and the queue of connections that wait is full"
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert len(os.listdir("/proc/self/fd")) == before

    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for each in (first, second):
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        run_on(loop, main(full.getsockname()[1]))
