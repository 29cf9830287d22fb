"""The connections of a server: how many there may be, from where, and how long one may say nothing."""

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from levada.world.net import BACKLOG

logger = logging.getLogger(__name__)

NO_LIMIT = 2**31 - 1
DEFAULT_IDLE_MS = 600_000

CALM_SHARE = 0.9
"""Of what is possible; when there are no more than this, a crowd is over."""
LOOKS_PER_IDLE_TIME = 10
LONGEST_PAUSE_SECONDS = 10.0
SHORTEST_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`max.connections`, `max.connections.per.ip`, its overrides, and `connections.max.idle.ms`."""

    most_possible: int = NO_LIMIT
    """What the limit of open files leaves for connections, those that wait to be read among them."""
    max_connections: int = NO_LIMIT
    max_per_ip: int = NO_LIMIT
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """By address as `canonical_ip` writes it."""
    idle_ms: int = DEFAULT_IDLE_MS
    """Below zero, no connection is ever idle."""

    def allowed_from(self, ip: str) -> int:
        return self.per_ip_overrides.get(ip, self.max_per_ip)


class Admission(Enum):
    OPEN = auto()
    HELD = auto()
    """There are as many as may be: it stays unread until one of them leaves, as if it was not accepted yet."""
    REFUSED = auto()


class Connection(Protocol):
    """What the rules need of a connection."""

    @property
    def ip(self) -> str: ...

    @property
    def peer(self) -> str: ...

    def start(self) -> None:
        """It was held and may be read now."""
        ...

    def was_idle(self) -> bool:
        """Whether nothing came, left or was worked on since this was last asked."""
        ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class OpenConnections:
    """Enforces the limits of one server; the plain numbers are for metrics."""

    def __init__(self, limits: ConnectionLimits | None = None, backlog: int = BACKLOG) -> None:
        self._limits = limits or ConnectionLimits()
        self._backlog = backlog
        # How many looks in a row found it idle, in the order they came.
        self._open: dict[Connection, int] = {}
        self._held: dict[Connection, None] = {}
        self._per_ip: dict[str, int] = {}
        self._is_closing = False
        self._next_look: asyncio.TimerHandle | None = None
        self._none_left = asyncio.Event()
        self._none_left.set()
        self.accepted = 0
        self.closed_idle = 0
        self.refused_per_ip = 0
        self.refused_backlog_full = 0
        self.refused_impossible = 0
        self._has_warned = False
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def open(self) -> int:
        return len(self._open)

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def limits(self) -> ConnectionLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: ConnectionLimits) -> None:
        """As in Apache, connections that are too many under new limits stay."""
        self._limits = limits
        self._start_held()
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        self._plan_look()

    def admit(self, connection: Connection) -> Admission:
        """A new connection; the caller closes it if it is refused, and in any case reports its end to `discard`."""
        from_there = self._per_ip.get(connection.ip, 0)
        is_full = len(self._open) >= self._limits.max_connections
        if self._is_closing or not self._is_possible():
            return Admission.REFUSED
        if from_there >= self._limits.allowed_from(connection.ip):
            self.refused_per_ip += 1
            logger.info("refused connection peer=%s reason='%d from this address'", connection.peer, from_there)
            return Admission.REFUSED
        if is_full and len(self._held) >= self._backlog:
            self.refused_backlog_full += 1
            logger.info("refused connection peer=%s reason='%d are waiting'", connection.peer, len(self._held))
            return Admission.REFUSED
        self._per_ip[connection.ip] = from_there + 1
        self._none_left.clear()
        if is_full:
            self._held[connection] = None
            return Admission.HELD
        self._open_one(connection)
        return Admission.OPEN

    def discard(self, connection: Connection) -> None:
        """A connection is over; one that was refused changes nothing."""
        if connection not in self._open and connection not in self._held:
            return
        self._open.pop(connection, None)
        self._held.pop(connection, None)
        self._has_warned &= len(self._open) + len(self._held) > CALM_SHARE * self._limits.most_possible
        self._per_ip[connection.ip] -= 1
        if not self._per_ip[connection.ip]:
            del self._per_ip[connection.ip]
        self._start_held()
        if not self._open and not self._held:
            self._none_left.set()

    async def close(self, grace_seconds: float) -> None:
        """Let replies in progress leave, but wait no longer than that for them."""
        self._is_closing = True
        for connection in list(self._held):
            connection.abort()
        for connection in list(self._open):
            connection.close()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._none_left.wait()
        except TimeoutError:
            for connection in list(self._open):
                connection.abort()
        if self._next_look is not None:
            self._next_look.cancel()

    def _is_possible(self) -> bool:
        """Whether there is a file descriptor for one more; a crowd of those that are too many is worth one line."""
        count = len(self._open) + len(self._held)
        if count < self._limits.most_possible:
            return True
        self.refused_impossible += 1
        if not self._has_warned:
            self._has_warned = True
            logger.warning("too many connections open=%d; the limit of open files allows no more, raise it", count)
        return False

    def _open_one(self, connection: Connection) -> None:
        self._open[connection] = 0
        self.accepted += 1
        if self._next_look is None:
            self._plan_look()

    def _start_held(self) -> None:
        while self._held and len(self._open) < self._limits.max_connections and not self._is_closing:
            connection = next(iter(self._held))
            del self._held[connection]
            self._open_one(connection)
            connection.start()

    def _plan_look(self) -> None:
        if self._open and self._limits.idle_ms >= 0 and not self._is_closing:
            self._next_look = asyncio.get_running_loop().call_later(self._pause_seconds(), self._look)

    def _look(self) -> None:
        """Close what was idle for long enough, counted in looks: a hung loop must not make everyone seem idle."""
        looks_needed = math.ceil(self._limits.idle_ms / 1000 / self._pause_seconds())
        expired = []
        for connection, idle_looks in self._open.items():
            if not connection.was_idle():
                self._open[connection] = 0
            elif idle_looks + 1 < looks_needed:
                self._open[connection] = idle_looks + 1
            else:
                expired.append(connection)
        for connection in expired:
            self.closed_idle += 1
            logger.debug("closing idle connection peer=%s", connection.peer)
            connection.abort()
        self._next_look = None
        self._plan_look()

    def _pause_seconds(self) -> float:
        """Short enough to be late by a tenth of the time at most, and so long that 10,000 idle ones cost nothing."""
        wanted = self._limits.idle_ms / 1000 / LOOKS_PER_IDLE_TIME
        return min(max(wanted, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)


def canonical_ip(host: str) -> str:
    """One way to write an address; an IPv4 client of a port for both families is an IPv4 client. Names stay."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
