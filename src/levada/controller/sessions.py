"""Which brokers the active controller hears of, and how far each has read the metadata log: kept in memory alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from levada.metadata.image import Image

LOOKS_IN_A_SESSION = 4
"""How often the controller looks for silent brokers while a session lasts."""


@dataclass(slots=True)
class _Session:
    heard_ms: int
    offset: int = -1
    """How far the broker has read the metadata log, as it said last."""
    behind_since_ms: int | None = None
    """Since when it has not read what was there then."""
    due_offset: int = -1
    """What was there then."""


class BrokerSessions:
    """A controller that begins gives every broker a whole session, for it does not know when each was last heard."""

    def __init__(self, brokers: Iterable[int], session_timeout_ms: int, now_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._sessions = {broker_id: _Session(now_ms) for broker_id in brokers}
        self._looked_ms = now_ms

    def hear(self, broker_id: int, offset: int, end_offset: int, now_ms: int) -> bool:
        """A broker lives and has read up to an offset; the log ends at another.

        Whether it reads what there is in time: to one that does not, no lease is given, so that it has none when it is
        fenced for that.
        """
        session = self._sessions.setdefault(broker_id, _Session(now_ms))
        session.heard_ms = now_ms
        session.offset = offset
        if offset >= end_offset:
            session.behind_since_ms = None
        elif session.behind_since_ms is None or offset >= session.due_offset:
            session.behind_since_ms, session.due_offset = now_ms, end_offset
        else:
            return False
        return True

    def end(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def is_live(self, broker_id: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms - session.heard_ms < self._timeout_ms

    def is_deaf(self, broker_id: int, now_ms: int) -> bool:
        """Whether it lives and does not come to know what the cluster decides, so that it must not lead."""
        session = self._sessions.get(broker_id)
        since_ms = None if session is None else session.behind_since_ms
        return since_ms is not None and now_ms - since_ms >= self._timeout_ms

    def offset_of(self, broker_id: int) -> int:
        """How far a broker has read the metadata log, -1 where that is not known."""
        session = self._sessions.get(broker_id)
        return -1 if session is None else session.offset

    @property
    def look_interval_ms(self) -> int:
        return max(self._timeout_ms // LOOKS_IN_A_SESSION, 1)

    def look(self, image: Image, now_ms: int) -> list[int]:
        """The brokers to fence: silent for a session, or deaf for one.

        A controller that itself stood still has heard no broker meanwhile; that is not their silence.
        """
        pause_ms = now_ms - self._looked_ms - 2 * self.look_interval_ms
        self._looked_ms = now_ms
        if pause_ms > 0:
            self._excuse(pause_ms + 2 * self.look_interval_ms)
        return [
            broker.broker_id
            for broker in image.live_brokers()
            if not self.is_live(broker.broker_id, now_ms) or self.is_deaf(broker.broker_id, now_ms)
        ]

    def _excuse(self, pause_ms: int) -> None:
        for session in self._sessions.values():
            session.heard_ms = min(session.heard_ms + pause_ms, self._looked_ms)
            if session.behind_since_ms is not None:
                session.behind_since_ms = min(session.behind_since_ms + pause_ms, self._looked_ms)


@dataclass(frozen=True, slots=True)
class Liveness:
    """What is known at one moment of the brokers that live."""

    sessions: BrokerSessions
    now_ms: int
    incarnations: Mapping[int, str] | None = None
    """The process that takes part under each id, as the coordinator has it; None where it was not asked."""

    def is_live(self, broker_id: int) -> bool:
        return self.sessions.is_live(broker_id, self.now_ms)

    def is_deaf(self, broker_id: int) -> bool:
        return self.sessions.is_deaf(broker_id, self.now_ms)

    def holds_id(self, broker_id: int, incarnation: str) -> bool:
        """Whether it is this process that takes part: only one can, so the one before it is dead."""
        return self.incarnations is not None and self.incarnations.get(broker_id) == incarnation

    def is_stranger(self, broker_id: int, incarnation: str) -> bool:
        """Whether it takes part in the cluster at all: a client that calls itself a broker does not."""
        return self.incarnations is not None and self.incarnations.get(broker_id) != incarnation


NOT_HEARD_OF = Liveness(BrokerSessions((), 0, 0), 0)
"""No broker was heard of."""
