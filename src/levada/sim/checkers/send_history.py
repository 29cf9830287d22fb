"""What producers sent, and what must be true of it, whatever happened to them and to the broker."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf

from levada.sim.checkers.check_failed import CheckFailed
from levada.sim.checkers.partition_log import LogEntry, Partition
from levada.sim.checkers.transaction_history import TransactionFate

SLACK_SECONDS = 0.05
"""Clocks count milliseconds, and a timer that is due has to wait for its turn."""


@dataclass(slots=True, eq=False)
class SentTransaction:
    name: str
    fate: TransactionFate = TransactionFate.OPEN
    records: list["Sent"] = field(default_factory=list)
    is_seen: bool = False

    def ask(self) -> None:
        self.fate = TransactionFate.ASKED

    def commit(self) -> None:
        self.fate = TransactionFate.COMMITTED
        for one in self.records:
            if not one.is_acknowledged:
                raise CheckFailed(f"{self.name} is committed, and {one.value!r} in it is not acknowledged")

    def abort(self) -> None:
        if self.is_seen:
            raise CheckFailed(f"{self.name} is aborted, and a reader has seen it")
        self.fate = TransactionFate.ABORTED

    def show(self) -> None:
        """A reader of what is committed sees something of it."""
        if self.fate in (TransactionFate.OPEN, TransactionFate.ABORTED):
            raise CheckFailed(f"something of {self.name} is visible, and it is {self.fate.name.lower()}")
        self.is_seen = True


@dataclass(slots=True, eq=False)
class Sent:
    """One record that was given to a producer."""

    value: bytes
    writer: str
    number: int
    """In the order of the writer's calls."""
    transaction: SentTransaction | None
    deadline_s: float = inf
    """When its handle must have an outcome; known once there is one."""
    is_acknowledged: bool = False
    is_refused: bool = False
    """Its send raised, so that it must not be anywhere."""
    is_over: bool = False
    place: tuple[Partition, int] | None = None
    """Where it is told to be."""


@dataclass(slots=True)
class SendHistory:
    """All records of all producers."""

    sent: dict[bytes, Sent] = field(default_factory=dict)
    transactions: dict[str, SentTransaction] = field(default_factory=dict)
    failure: CheckFailed | None = None
    """Of a check inside a callback, from where it reaches no caller."""
    _pending: dict[Sent, None] = field(default_factory=dict)

    @property
    def acknowledged(self) -> int:
        return sum(one.is_acknowledged for one in self.sent.values())

    def count(self, fate: TransactionFate) -> int:
        return sum(one.fate is fate for one in self.transactions.values())

    def begin(self, name: str) -> SentTransaction:
        assert name not in self.transactions
        self.transactions[name] = made = SentTransaction(name)
        return made

    def send(self, value: bytes, writer: str, number: int, transaction: SentTransaction | None) -> Sent:
        assert value not in self.sent
        self.sent[value] = one = Sent(value, writer, number, transaction)
        if transaction is not None:
            transaction.records.append(one)
        return one

    def accept(self, one: Sent, deadline_s: float) -> None:
        """There is a handle for it."""
        one.deadline_s = deadline_s
        if not one.is_over:
            self._pending[one] = None

    def refuse(self, one: Sent) -> None:
        one.is_refused = one.is_over = True

    def resolve(self, one: Sent, place: tuple[Partition, int] | None, now_s: float, *, is_acknowledged: bool) -> None:
        if one.is_over:
            raise CheckFailed(f"{one.value!r} has two outcomes")
        one.is_over, one.is_acknowledged, one.place = True, is_acknowledged, place
        self._pending.pop(one, None)
        if now_s > one.deadline_s:
            raise CheckFailed(f"{one.value!r} has its outcome at {now_s:.3f} s, due at {one.deadline_s:.3f} s")

    def die(self, writer: str) -> None:
        """The handles of a dead process need no outcome."""
        for one in [one for one in self._pending if one.writer == writer]:
            del self._pending[one]

    def check_deadlines(self, now_s: float) -> None:
        if self.failure is not None:
            raise self.failure
        for one in self._pending:
            if now_s > one.deadline_s:
                raise CheckFailed(f"{one.value!r} has no outcome at {now_s:.3f} s, due at {one.deadline_s:.3f} s")

    def check_none_pending(self, writer: str) -> None:
        """Its producer is closed."""
        left = [one.value for one in self._pending if one.writer == writer]
        if left:
            raise CheckFailed(f"{writer} is closed, and {left[:5]} have no outcome")

    def see(self, value: bytes, place: tuple[Partition, int]) -> Sent:
        """A reader of what is committed has this from a partition."""
        one = self.sent.get(value)
        if one is None or one.is_refused:
            raise CheckFailed(f"{place} has {value!r}, which no producer sent")
        if one.place is not None and one.place != place:
            raise CheckFailed(f"{value!r} was acknowledged at {one.place}, and is at {place}")
        if one.transaction is not None:
            one.transaction.show()
        return one

    def check_logs(self, logs: Mapping[Partition, list[LogEntry]]) -> None:
        """Compare with all that is in the logs, read while nothing is under way."""
        found: dict[bytes, None] = {}
        visible: dict[bytes, None] = {}
        for partition, log in logs.items():
            last: dict[str, int] = {}
            for entry in log:
                place = (partition, entry.offset)
                one = self.sent.get(entry.value)
                if one is None or one.is_refused:
                    raise CheckFailed(f"{place} has {entry.value!r}, which no producer sent")
                if entry.value in found:
                    raise CheckFailed(f"{entry.value!r} is in the log twice, the second time at {place}")
                found[entry.value] = None
                if one.number <= last.get(one.writer, -1):
                    raise CheckFailed(f"{entry.value!r} is at {place} behind number {last[one.writer]} of its writer")
                last[one.writer] = one.number
                if entry.is_visible:
                    self.see(entry.value, place)
                    visible[entry.value] = None
                elif one.place is not None and one.place != place:
                    raise CheckFailed(f"{entry.value!r} was acknowledged at {one.place}, and is at {place}")
        for one in self.sent.values():
            if one.is_acknowledged and one.value not in found:
                raise CheckFailed(f"{one.value!r} was acknowledged at {one.place}, and is nowhere")
            if one.transaction is None and one.value in found and one.value not in visible:
                raise CheckFailed(f"{one.value!r} is in no transaction, and is not visible")
        self._check_whole(visible)

    def _check_whole(self, visible: Collection[bytes]) -> None:
        for transaction in self.transactions.values():
            seen = sum(one.value in visible for one in transaction.records)
            if seen and seen != len(transaction.records):
                raise CheckFailed(f"{seen} of {len(transaction.records)} records of {transaction.name} are visible")
            if transaction.fate is TransactionFate.COMMITTED and transaction.records and not seen:
                raise CheckFailed(f"{transaction.name} was committed, and nothing of it is visible")
