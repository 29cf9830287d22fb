"""TCP on the running event loop; asyncio and uvloop both set TCP_NODELAY on the streams they make."""

import asyncio
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar, cast

from levada.world.net import BACKLOG

logger = logging.getLogger(__name__)

FREE_PORT_ATTEMPTS: Final = 50
ACCEPTED_AT_ONCE: Final = 16
"""Before those that are too many can be closed, and others get a turn of the loop."""
ACCEPT_RETRY_SECONDS: Final = 0.1
_FAMILY_MISSING: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})

ConnectionFactory = Callable[[], asyncio.BufferedProtocol]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """One answer of the resolver."""

    family: socket.AddressFamily
    host: str
    scope: tuple[int, ...]

    def with_port(self, port: int) -> tuple[str | int, ...]:
        return (self.host, port, *self.scope)


class RealListener:
    """Accepts by itself, some at a time: a loop's own server takes all that wait at once, with all their descriptors,

    before one of them can be closed again. And where there are none to be had, uvloop's closes its port for good.
    """

    def __init__(self, bound: list[socket.socket], connection_factory: ConnectionFactory, backlog: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._bound = bound
        self._connection_factory = connection_factory
        self._backlog = backlog
        self._port: int = bound[0].getsockname()[1]
        self._opening: dict[asyncio.Task[None], None] = {}
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._is_refused = False

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> None:
        for each in self._bound:
            each.listen(self._backlog)
        for each in self._bound:
            self._resume(each)

    def close(self) -> None:
        for paused in self._paused.values():
            paused.cancel()
        for each in self._bound:
            if each.fileno() >= 0:
                self._loop.remove_reader(each)
                each.close()

    def _resume(self, listening: socket.socket) -> None:
        self._paused.pop(listening, None)
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        while len(self._opening) < ACCEPTED_AT_ONCE:
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                self._is_refused = False
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._pause(listening, error)
                return
            task = self._loop.create_task(self._open(accepted))
            self._opening[task] = None
            task.add_done_callback(self._opening.pop)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Those who wait are still there a little later, when others may have left."""
        if not self._is_refused:
            self._is_refused = True
            logger.warning("cannot accept connections port=%d reason=%r; trying again", self._port, str(error))
        self._loop.remove_reader(listening)
        self._paused[listening] = self._loop.call_later(ACCEPT_RETRY_SECONDS, self._resume, listening)

    async def _open(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._connection_factory, accepted)
        except OSError:
            # It left before it was served.
            accepted.close()
        except BaseException:
            accepted.close()
            raise


class RealNet:
    async def listen(
        self, host: str, port: int, connection_factory: ConnectionFactory, backlog: int = BACKLOG
    ) -> RealListener:
        return RealListener(bind_all(await resolve(host), port), connection_factory, backlog)

    async def connect(self, host: str, port: int, connection_factory: ConnectionFactory) -> asyncio.Transport:
        """To the first address of a host that answers."""
        failure: OSError | None = None
        for address in await _resolved(host, 0):
            try:
                return await _connect(address, port, connection_factory)
            except OSError as error:
                failure = failure or error
        assert failure is not None, "a name that is resolved has an address"
        raise failure


async def _connect(address: ResolvedAddress, port: int, connection_factory: ConnectionFactory) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    connected = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        connected.setblocking(False)
        # Not `sock_connect`: uvloop's asks a resolver thread even for the name of a number.
        code = connected.connect_ex(address.with_port(port))
        if code == errno.EINPROGRESS:
            await _writable(connected)
            code = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, f"cannot connect to {address.host}:{port}: {os.strerror(code)}")
        transport, _ = await loop.create_connection(connection_factory, sock=connected)
    except BaseException:
        connected.close()
        raise
    return transport


async def _writable(watched: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    happened: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not happened.done():
            happened.set_result(None)

    loop.add_writer(watched, note)
    try:
        await happened
    finally:
        loop.remove_writer(watched)


async def resolve(host: str) -> list[ResolvedAddress]:
    """Every address to bind for `host`; the empty name means all interfaces, as in Kafka's listeners."""
    return await _resolved(host, socket.AI_PASSIVE)


async def _resolved(host: str, flags: int) -> list[ResolvedAddress]:
    """Not by the loop: uvloop has threads for it that a forked process lacks, and misses when it ends."""
    try:
        return _addresses(host, flags | socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await _in_thread(partial(_addresses, host, flags))


def _addresses(host: str, flags: int) -> list[ResolvedAddress]:
    answers = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=flags)
    found = [ResolvedAddress(answer[0], str(answer[4][0]), tuple(map(int, answer[4][2:]))) for answer in answers]
    return list(dict.fromkeys(found))


async def _in_thread(work: Callable[[], T]) -> T:
    """What a daemon thread of its own finds; the end of the process does not wait for it."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: OSError | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(cast(T, value))

    def run() -> None:
        value, failure = None, None
        try:
            value = work()
        except OSError as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            # The loop was closed meanwhile.
            return

    threading.Thread(target=run, name="levada-resolver", daemon=True).start()
    return await outcome


def bind_all(addresses: Sequence[ResolvedAddress], port: int) -> list[socket.socket]:
    """A socket per address, all on one port: with port 0, on a port that is free in every family."""
    for attempt in range(FREE_PORT_ATTEMPTS):
        try:
            return _bind_once(addresses, port)
        except OSError as error:
            # Port 0: the port picked for the first address may be taken in the second family, so pick another.
            if port or error.errno != errno.EADDRINUSE or attempt == FREE_PORT_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _bind_once(addresses: Sequence[ResolvedAddress], port: int) -> list[socket.socket]:
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


def _bind(address: ResolvedAddress, port: int, *, ipv6_only: bool) -> socket.socket:
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
