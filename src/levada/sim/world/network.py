"""The simulated network: hosts by name, links between their places, and the faults a test puts on the links."""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from contextvars import Context
from typing import Final

from levada.sim.world.incarnation import Incarnation
from levada.sim.world.links import LATENCY_US, LOOPBACK_LATENCY_US, Link
from levada.sim.world.loop import SimLoop
from levada.sim.world.stream import SimTransport
from levada.sim.world.trace import Trace
from levada.world.net import BACKLOG

SYN_RETRIES_S: Final = (1, 2, 4, 8, 16, 32)
FIRST_EPHEMERAL_PORT: Final = 32_768
POWER_LOSS_SILENCE_MS: Final = 10_000
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

ConnectionFactory = Callable[[], asyncio.BufferedProtocol]


class SimListener:
    def __init__(
        self, network: "SimNetwork", owner: Incarnation, port: int, factory: ConnectionFactory, *, loopback_only: bool
    ) -> None:
        self.owner = owner
        self.loopback_only = loopback_only
        self.is_started = False
        self._network = network
        self._port = port
        self._factory = factory

    @property
    def port(self) -> int:
        return self._port

    async def start(self) -> None:
        self.owner.check()
        self.is_started = True

    def close(self) -> None:
        if self._network.listeners.get((self.owner.host, self._port)) is self:
            del self._network.listeners[self.owner.host, self._port]

    def accept(self, transport: SimTransport) -> None:
        transport.open(self._factory())


class SimNet:
    """The Net door of one process."""

    def __init__(self, network: "SimNetwork", incarnation: Incarnation) -> None:
        self._network = network
        self._incarnation = incarnation

    async def listen(
        self, host: str, port: int, connection_factory: ConnectionFactory, backlog: int = BACKLOG
    ) -> SimListener:
        """A backlog never fills up here: connections are accepted as they arrive."""
        self._incarnation.check()
        return self._network.listen(self._incarnation, host, port, connection_factory)

    async def connect(self, host: str, port: int, connection_factory: ConnectionFactory) -> asyncio.Transport:
        self._incarnation.check()
        return await self._network.connect(self._incarnation, host, port, connection_factory)


class SimNetwork:
    """All reach all others until a test says otherwise. Faults are between two places, both ways or one.

    A place is a host, or a process with a name of its own: `host/process`. Such a process may be cut from the others of
    its host, as containers are that share a disk.
    """

    def __init__(self, loop: SimLoop, trace: Trace, chance: random.Random) -> None:
        self.loop = loop
        self.trace = trace
        self.listeners: dict[tuple[str, int], SimListener] = {}
        self._chance = chance
        self._links: dict[tuple[str, str], Link] = {}
        self._dark: dict[str, None] = {}
        self._ports: dict[str, int] = {}
        self._transports: dict[SimTransport, None] = {}

    # Faults

    def link(self, source: str, target: str) -> Link:
        """One direction between two places; its fields may be set: latency_us, bytes_per_second."""
        if (source, target) not in self._links:
            latency_us = LOOPBACK_LATENCY_US if _host_of(source) == _host_of(target) else LATENCY_US
            self._links[source, target] = Link(self._chance, latency_us)
        return self._links[source, target]

    def partition(
        self, a: str, b: str, *, one_way: bool = False, reset_after_ms: tuple[int, int] | None = None
    ) -> None:
        """Hold all bytes from `a` to `b`, and back unless `one_way`.

        With a range, each open connection is given up by both ends after a time drawn from it.
        """
        self.trace.note(f"partition {a} {b} one_way={one_way}")
        self.link(a, b).blocked = True
        if not one_way:
            self.link(b, a).blocked = True
        if reset_after_ms is not None:
            for transport in self._between(a, b):
                delay_ms = self._chance.randint(*reset_after_ms)
                when_ns = self.loop.now_ns + delay_ms * 1_000_000
                self.loop.call_at_ns(when_ns, self._give_up, transport, context=Context())

    def heal(self, a: str, b: str) -> None:
        self.trace.note(f"heal {a} {b}")
        self.link(a, b).blocked = False
        self.link(b, a).blocked = False
        for transport in self._between(a, b):
            transport.release()

    def heal_all(self) -> None:
        for a, b in list(self._links):
            self.heal(a, b)

    def reset(self, a: str, b: str) -> None:
        """Break every open connection between two places, at both ends, with the bytes on the wire."""
        self.trace.note(f"reset {a} {b}")
        for transport in self._between(a, b):
            transport.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
            transport.fall_silent()

    def stall(self, a: str, b: str) -> None:
        """The open connections between two places stay open and carry nothing any more; new ones work."""
        self.trace.note(f"stall {a} {b}")
        for transport in self._between(a, b):
            transport.stalled = True

    def crash(self, incarnation: Incarnation, *, power_loss: bool) -> None:
        """Peers see a reset: after what was on the wire if only the process died, late if the machine went dark."""
        for listener in list(self.listeners.values()):
            if listener.owner is incarnation:
                listener.close()
        for transport in list(self._transports):
            if transport.incarnation is not incarnation:
                continue
            was_lost, transport.lost = transport.lost, True
            silence_ns = 0
            if power_loss:
                transport.fall_silent()
                silence_ns = self._chance.randint(0, POWER_LOSS_SILENCE_MS) * 1_000_000
            if power_loss or not was_lost:
                transport.send_reset(silence_ns)
            self.forget_if_over(transport)
        if power_loss:
            self._dark[incarnation.host] = None

    def power_on(self, host: str) -> None:
        self._dark.pop(host, None)

    # Connections

    def listen(self, owner: Incarnation, host: str, port: int, factory: ConnectionFactory) -> SimListener:
        port = port or self._free_port(owner.host)
        if (owner.host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = SimListener(self, owner, port, factory, loopback_only=host in LOOPBACK)
        self.listeners[owner.host, port] = listener
        self.trace.note(f"listen {owner} {port}")
        return listener

    def is_served(self, host: str, port: int) -> bool:
        """Whether connections are accepted there: a node binds its port early, and accepts when it has started."""
        return self._served(host, port) is not None

    async def connect(self, client: Incarnation, host: str, port: int, factory: ConnectionFactory) -> asyncio.Transport:
        target = client.host if host in LOOPBACK else host
        there, back = await self._reach(client, target, port)
        await asyncio.sleep(there.latency_ns() / 1e9)
        listener = self._served(target, port)
        if listener is None or (listener.loopback_only and target != client.host):
            await asyncio.sleep(back.latency_ns() / 1e9)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{os.strerror(errno.ECONNREFUSED)}: {host}:{port}")
        here = self._make_pair(client, listener, there, back)
        try:
            await asyncio.sleep(back.latency_ns() / 1e9)
            if here.lost:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            here.open(factory())
        except BaseException:
            here.abort()
            raise
        return here

    def forget_if_over(self, transport: SimTransport) -> None:
        """The registry keeps an end that is closed until the other knows: its last bytes may still be held."""
        if transport.peer.lost and transport.lost:
            self._transports.pop(transport, None)
            self._transports.pop(transport.peer, None)

    def _served(self, host: str, port: int) -> SimListener | None:
        listener = self.listeners.get((host, port))
        return listener if listener is not None and listener.is_started else None

    async def _reach(self, client: Incarnation, target: str, port: int) -> tuple[Link, Link]:
        """The links there and back, as soon as they are open."""
        for wait_s in SYN_RETRIES_S:
            listener = self.listeners.get((target, port))
            place = target if listener is None else listener.owner.place
            there, back = self.link(client.place, place), self.link(place, client.place)
            if target not in self._dark and not there.blocked and not back.blocked:
                return there, back
            await asyncio.sleep(wait_s)
        raise TimeoutError(errno.ETIMEDOUT, f"{os.strerror(errno.ETIMEDOUT)}: {target}")

    def _make_pair(self, client: Incarnation, listener: SimListener, there: Link, back: Link) -> SimTransport:
        near = (client.host, self._free_port(client.host))
        far = (listener.owner.host, listener.port)
        self.trace.note(f"connect {near[0]}:{near[1]}->{far[0]}:{far[1]}")
        here = SimTransport(self, client, there, near, far)
        peer = SimTransport(self, listener.owner, back, far, near)
        here.pair_with(peer)
        self._transports[here] = None
        self._transports[peer] = None
        self.loop.call_soon(listener.accept, peer, context=listener.owner.context())
        return here

    def _free_port(self, host: str) -> int:
        port = self._ports.get(host, FIRST_EPHEMERAL_PORT)
        while (host, port) in self.listeners:
            port += 1
        self._ports[host] = port + 1
        return port

    def _between(self, a: str, b: str) -> list[SimTransport]:
        places = {a, b}
        return [each for each in self._transports if {each.incarnation.place, each.peer.incarnation.place} == places]

    def _give_up(self, transport: SimTransport) -> None:
        if transport.link.blocked or transport.peer.link.blocked:
            transport.lose(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))


def _host_of(place: str) -> str:
    return place.partition("/")[0]
