"""TCP on the running event loop; asyncio and uvloop both set TCP_NODELAY on the streams they make."""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

BACKLOG: Final = 1024
FREE_PORT_ATTEMPTS: Final = 50
_FAMILY_MISSING: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})

ConnectionFactory = Callable[[], asyncio.BufferedProtocol]


@dataclass(frozen=True, slots=True)
class Address:
    """One answer of the resolver."""

    family: socket.AddressFamily
    host: str
    scope: tuple[int, ...]

    def with_port(self, port: int) -> tuple[str | int, ...]:
        return (self.host, port, *self.scope)


class RealListener:
    def __init__(self, servers: Sequence[asyncio.Server], port: int) -> None:
        self._servers = servers
        self._port = port

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        for server in self._servers:
            server.close()


class RealNet:
    async def listen(self, host: str, port: int, connection_factory: ConnectionFactory) -> RealListener:
        loop = asyncio.get_running_loop()
        sockets = bind_all(await resolve(host), port)
        servers: list[asyncio.Server] = []
        try:
            for bound in sockets:
                server = await loop.create_server(connection_factory, sock=bound, backlog=BACKLOG)
                servers.append(server)
        except BaseException:
            for server in servers:
                server.close()
            for bound in sockets:
                bound.close()
            raise
        return RealListener(servers, servers[0].sockets[0].getsockname()[1])

    async def connect(self, host: str, port: int, connection_factory: ConnectionFactory) -> asyncio.Transport:
        transport, _ = await asyncio.get_running_loop().create_connection(connection_factory, host, port)
        return transport


async def resolve(host: str) -> list[Address]:
    """Every address to bind for `host`; the empty name means all interfaces, as in Kafka's listeners."""
    answers = await asyncio.get_running_loop().getaddrinfo(
        host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    found = [Address(answer[0], str(answer[4][0]), tuple(map(int, answer[4][2:]))) for answer in answers]
    return list(dict.fromkeys(found))


def bind_all(addresses: Sequence[Address], port: int) -> list[socket.socket]:
    """A socket per address, all on one port: with port 0, on a port that is free in every family."""
    for attempt in range(FREE_PORT_ATTEMPTS):
        try:
            return _bind_once(addresses, port)
        except OSError as error:
            # Port 0: the port picked for the first address may be taken in the second family, so pick another.
            if port or error.errno != errno.EADDRINUSE or attempt == FREE_PORT_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _bind_once(addresses: Sequence[Address], port: int) -> list[socket.socket]:
    both_families = len({address.family for address in addresses}) > 1
    bound: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for address in addresses:
            try:
                bound.append(_bind(address, port, ipv6_only=both_families))
            except OSError as error:
                # A host may resolve to ::1 where IPv6 is switched off; the other family is enough.
                if error.errno not in _FAMILY_MISSING:
                    raise
                missing = error
                continue
            port = bound[0].getsockname()[1]
        if missing is not None and not bound:
            raise missing
    except BaseException:
        for each in bound:
            each.close()
        raise
    return bound


def _bind(address: Address, port: int, *, ipv6_only: bool) -> socket.socket:
    # The protocol number counts: asyncio sets TCP_NODELAY only on sockets that name it, and accepted ones inherit it.
    bound = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(ipv6_only))
        bound.setblocking(False)
        bound.bind(address.with_port(port))
    except BaseException:
        bound.close()
        raise
    return bound
