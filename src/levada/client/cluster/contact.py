"""The first contact of a client with its cluster: whether a broker has ever answered, and if none has, why not.

A broker that was reached once is asked again until the limit of each call, as Kafka's clients do: it will be back.
An address at which none was ever reached is most often a wrong one, or its broker is not running, and the sixty
seconds that are the default of most calls would pass in silence. docs/decisions/clients.md has the rule.
"""

import errno
import logging
import socket

from levada.client.cluster.view import Address
from levada.client.cluster.waiting import Deadline
from levada.client.errors import NoBrokerReached
from levada.world.world import ClientWorld

logger = logging.getLogger("levada.client")

FIRST_CONTACT_MS = 3_500
"""How long a call whose limit was not chosen waits for the first answer of any broker."""
LAST_ROUND_MS = 5_000
"""Before which an attempt that asks every address in turn has to be over, or it is not begun."""
STEP_MS = 1_000
"""How long one address may keep the next one from being asked; it is waited for meanwhile."""
LEAST_STEP_MS = 50

NO_PROGRAM = "{address} refused the connection: no program listens there"
NO_SUCH_HOST = "{address} cannot be reached: there is no host {host!r}, or its name cannot be looked up"
TAKES_NO_CONNECTION = "{address} took no connection in {seconds:.1f} s"
SAYS_NOTHING = "{address} took the connection, but has not answered as a Kafka broker in {seconds:.1f} s"
HANGS_UP = "{address} closed the connection before it answered: it is no Kafka broker, or it expects TLS"
NOT_KAFKA = "{address} answered, but not as a Kafka broker: it may be a web server, or expect TLS"


class FirstContact:
    """What the bootstrap addresses have said so far; of no more interest once a broker has answered."""

    def __init__(self, world: ClientWorld, addresses: list[Address]) -> None:
        self.is_made = False
        self._is_real = world.is_real
        self._addresses = addresses
        self._has_begun = False
        self._faults: dict[Address, str] = {}
        self._warned: dict[Address, None] = {}

    def begin(self) -> None:
        self._has_begun = True

    @property
    def is_missing(self) -> bool:
        """Whether brokers were asked, and none has ever answered."""
        return self._has_begun and not self.is_made

    def step_ms(self) -> float:
        """How long to wait for one address before the next one."""
        return max(min(STEP_MS, FIRST_CONTACT_MS / len(self._addresses)), LEAST_STEP_MS)

    def note(self, address: Address, fault: str) -> None:
        """What an address has done so far instead of answering."""
        self._faults[address] = fault

    def failed(self, address: Address, fault: str) -> None:
        """An address has not answered as a broker; the first time, the log says so."""
        self.note(address, fault)
        if address not in self._warned:
            self._warned[address] = None
            logger.warning("%s; trying again", fault)

    def gives_up(self, deadline: Deadline, pause_ms: float) -> bool:
        """Whether a call ends here, before a pause that would take too long: not one whose limit the user chose."""
        if not (self.is_missing and self._is_real and deadline.is_default):
            return False
        begins_ms = deadline.waited_ms() + pause_ms
        return begins_ms >= FIRST_CONTACT_MS or begins_ms + self.step_ms() * len(self._addresses) >= LAST_ROUND_MS

    def error(self, deadline: Deadline, setting: str) -> NoBrokerReached:
        """What every address did; with the setting whose limit has passed, where the user has chosen it."""
        addresses = ", ".join(map(str, self._addresses))
        faults = "; ".join(self._faults.values()) or f"there was no time to ask {addresses}"
        seconds = min(deadline.timeout_ms, deadline.waited_ms()) / 1_000
        limit = f" ({setting})" if setting and not deadline.is_default else ""
        return NoBrokerReached(
            f"no Kafka broker has answered in {seconds:.1f} s{limit}: {faults}."
            " Start the broker, or correct bootstrap.servers"
        )


def connection_fault(error: OSError, address: object, host: str) -> str:
    """Why there is no connection, in words that say what to look at."""
    if isinstance(error, socket.gaierror):
        return NO_SUCH_HOST.format(address=address, host=host)
    # A name with several addresses fails with all their errors in one text, and without a number.
    if error.errno == errno.ECONNREFUSED or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return NO_PROGRAM.format(address=address)
    return f"{address} cannot be reached: {error.strerror or error}"
