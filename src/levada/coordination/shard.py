"""The runtime of one coordinator: its decisions are appended, applied, and answered when they are committed.

A reply waits for everything that was written before it, even if it wrote nothing itself: it may speak of what could
still be lost with this leader.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from levada.coordination.decision import Record
from levada.coordination.journal import Journal
from levada.model.errors import ApiError, NotCoordinator

Reply = TypeVar("Reply")
Reply_contra = TypeVar("Reply_contra", contravariant=True)


class Token(Generic[Reply_contra]):
    """Stands for a request that waits for a reply of this type; the caller chooses it and gets it back with that."""

    __slots__ = ()


Answered: TypeAlias = tuple[Token[Any], object]
"""A request and its reply, or the ApiError that stands for there being none."""


class Outbox:
    """What the operation under way wants written, and whom it answers."""

    __slots__ = ("records", "replies", "then", "undo")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.replies: list[Answered] = []
        self.then: list[Callable[[int], None]] = []
        """Called with the time when the records are applied: what only memory has to do about them."""
        self.undo: list[Callable[[int], None]] = []
        """Called with the time if the records cannot be written: puts right what only memory knew of them."""

    def write(self, records: Sequence[Record]) -> None:
        self.records += records

    def answer(self, token: Token[Reply], reply: Reply) -> None:
        self.replies.append((token, reply))

    def clear(self) -> None:
        self.records, self.replies, self.then, self.undo = [], [], [], []


class Machine(Protocol):
    """State that is made of records, and what is volatile beside it: timers, and requests that wait."""

    outbox: Outbox

    def apply(self, record: Record) -> None:
        """The only way in which what outlives the process changes."""
        ...

    def expire(self, now_ms: int) -> bool:
        """Do the first thing that is due; False if there is none."""
        ...

    def deadline_ms(self) -> int | None: ...

    def on_loaded(self, now_ms: int) -> None: ...

    def resign(self) -> None:
        """Answer every request that waits: this coordinator is no longer the one."""
        ...


M = TypeVar("M", bound=Machine)


class Shard(Generic[M]):
    """A machine with its journal; replies that are due are had from `take_output`."""

    def __init__(self, machine: M, journal: Journal) -> None:
        self.machine = machine
        self._journal = journal
        self._written = 0
        self._waiting: deque[tuple[int, Token[Any], object]] = deque()
        self._output: list[Answered] = []

    def load(self, record: Record) -> None:
        """Replay one record of the journal."""
        self.machine.apply(record)

    def finish_loading(self, end_offset: int, now_ms: int) -> None:
        """All is replayed: time runs again for the members and transactions that were known."""
        self._written = end_offset
        self.machine.on_loaded(now_ms)
        self._settle(now_ms)

    def run(self, operation: Callable[[M], None], now_ms: int) -> None:
        operation(self.machine)
        self._settle(now_ms)

    def follow(self, record: Record, end_offset: int) -> None:
        """Apply what another has written into the journal: the end of a transaction."""
        self._written = end_offset
        self.machine.apply(record)

    def expire(self, now_ms: int) -> None:
        """Do all that is due, each thing with a batch of its own."""
        while self.machine.expire(now_ms):
            self._settle(now_ms)

    def advance(self) -> None:
        """The journal may have committed more."""
        committed = self._journal.committed_offset()
        while self._waiting and self._waiting[0][0] <= committed:
            _, token, reply = self._waiting.popleft()
            self._output.append((token, reply))

    def take_output(self) -> list[Answered]:
        output, self._output = self._output, []
        return output

    def resign(self) -> None:
        """This broker no longer leads the journal: what is not known to be committed is not confirmed."""
        self.machine.resign()
        error = NotCoordinator("This is not the correct coordinator.")
        outbox = self.machine.outbox
        self._output += [(token, error) for _, token, _ in self._waiting]
        self._output += outbox.replies
        self._waiting.clear()
        outbox.clear()

    def _settle(self, now_ms: int) -> None:
        outbox = self.machine.outbox
        while outbox.records or outbox.replies:
            records, replies, then, undo = outbox.records, outbox.replies, outbox.then, outbox.undo
            outbox.clear()
            if records:
                try:
                    self._written = self._journal.append(records)
                except ApiError as error:
                    replies = [(token, error) for token, _ in replies]
                    for put_right in undo:
                        put_right(now_ms)
                else:
                    for record in records:
                        self.machine.apply(record)
                    for follow_up in then:
                        follow_up(now_ms)
            self._waiting += [(self._written, token, reply) for token, reply in replies]
        self.advance()
