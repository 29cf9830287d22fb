"""What clients sent and read, and what must be true of it, whatever happened to them and to the broker."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf

from levada.sim.checkers import CheckFailed
from levada.sim.client_logs import LogEntry
from levada.sim.group_checkers import Ownership, Partition

SLACK_SECONDS = 0.05
"""Clocks count milliseconds, and a timer that is due has to wait for its turn."""


class Fate(Enum):
    """What is known of a transaction."""

    OPEN = auto()
    ASKED = auto()
    """Somebody asked for its commit, and nobody knows what became of it."""
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True, eq=False)
class Transaction:
    name: str
    fate: Fate = Fate.OPEN
    records: list["Sent"] = field(default_factory=list)
    is_seen: bool = False

    def ask(self) -> None:
        self.fate = Fate.ASKED

    def commit(self) -> None:
        self.fate = Fate.COMMITTED
        for one in self.records:
            if not one.is_acknowledged:
                raise CheckFailed(f"{self.name} is committed, and {one.value!r} in it is not acknowledged")

    def abort(self) -> None:
        if self.is_seen:
            raise CheckFailed(f"{self.name} is aborted, and somebody has seen it")
        self.fate = Fate.ABORTED

    def show(self) -> None:
        """Somebody who reads what is committed sees something of it."""
        if self.fate in (Fate.OPEN, Fate.ABORTED):
            raise CheckFailed(f"something of {self.name} is visible, and it is {self.fate.name.lower()}")
        self.is_seen = True


@dataclass(slots=True, eq=False)
class Sent:
    """One record that somebody gave to a producer."""

    value: bytes
    writer: str
    number: int
    """In the order of the writer's calls."""
    transaction: Transaction | None
    deadline_s: float = inf
    """When its handle must have an outcome; known once there is one."""
    is_acknowledged: bool = False
    is_refused: bool = False
    """Its send raised, so that it must not be anywhere."""
    is_over: bool = False
    place: tuple[Partition, int] | None = None
    """Where it is told to be."""


@dataclass(slots=True)
class SendBook:
    """All records of all producers."""

    sent: dict[bytes, Sent] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    failure: CheckFailed | None = None
    """Of a check inside a callback, where nobody hears of it."""
    _pending: dict[Sent, None] = field(default_factory=dict)

    @property
    def acknowledged(self) -> int:
        return sum(one.is_acknowledged for one in self.sent.values())

    def count(self, fate: Fate) -> int:
        return sum(one.fate is fate for one in self.transactions.values())

    def begin(self, name: str) -> Transaction:
        assert name not in self.transactions
        self.transactions[name] = made = Transaction(name)
        return made

    def send(self, value: bytes, writer: str, number: int, transaction: Transaction | None) -> Sent:
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
        """Nobody waits for the handles of a dead process."""
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
        """Somebody who reads what is committed has this from a partition."""
        one = self.sent.get(value)
        if one is None or one.is_refused:
            raise CheckFailed(f"{place} has {value!r}, which nobody sent")
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
                    raise CheckFailed(f"{place} has {entry.value!r}, which nobody sent")
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
            if transaction.fate is Fate.COMMITTED and transaction.records and not seen:
                raise CheckFailed(f"{transaction.name} was committed, and nothing of it is visible")


@dataclass(slots=True, eq=False)
class Run:
    """A partition in the hands of one member, from the callback that gave it to the one that took it."""

    member: str
    partition: Partition


@dataclass(slots=True)
class ReadBook:
    """What one group read, in the order of time, and who had the partitions."""

    group_id: str
    is_strict: bool = False
    """Nothing goes wrong, so that no partition may have two owners, not even by a misunderstanding."""
    reads: dict[Partition, list[tuple[Run, int]]] = field(default_factory=dict)
    runs: dict[tuple[str, Partition], Run] = field(default_factory=dict)
    ownership: Ownership = field(default_factory=Ownership)
    commits: int = 0
    _committed: dict[Partition, int] = field(default_factory=dict)

    def take(self, member: str, partition: Partition, now_s: float) -> None:
        others = [name for name, owned in self.runs if owned == partition and name != member]
        if others and self.is_strict:
            raise CheckFailed(f"{self.group_id}: {partition} goes to {member} while {others} have it")
        if (member, partition) in self.runs:
            raise CheckFailed(f"{self.group_id}: {partition} is assigned to {member}, which has it")
        self.runs[member, partition] = Run(member, partition)
        # Who asked first is not known here: one of two may have it.
        self.ownership.take(member, partition, -inf, now_s)

    def give_up(self, member: str, partition: Partition) -> None:
        if self.runs.pop((member, partition), None) is None:
            raise CheckFailed(f"{self.group_id}: {partition} is taken from {member}, which has it not")
        self.ownership.give_up(member, partition)

    def lose(self, member: str, partitions: Iterable[Partition]) -> None:
        """It has been told that others may have them already."""
        for partition in partitions:
            self.give_up(member, partition)
        self.ownership.forget(member)

    def die(self, member: str) -> None:
        self.ownership.forget(member)
        for name, partition in [one for one in self.runs if one[0] == member]:
            del self.runs[name, partition]

    def commit(self, member: str, sent_s: float) -> None:
        """A commit was accepted."""
        self.commits += 1
        self.ownership.confirm(member, sent_s, "a commit")

    def read(self, member: str, partition: Partition, offset: int) -> None:
        run = self.runs.get((member, partition))
        if run is None:
            raise CheckFailed(f"{self.group_id}: {member} is handed {partition} {offset}, and does not have it")
        self.reads.setdefault(partition, []).append((run, offset))

    def owners(self) -> dict[Partition, list[str]]:
        owners: dict[Partition, list[str]] = {}
        for member, partition in self.runs:
            owners.setdefault(partition, []).append(member)
        return owners

    def rewind(self, member: str, partition: Partition) -> None:
        """It reads once more what it has read."""
        if (member, partition) in self.runs:
            self.runs[member, partition] = Run(member, partition)

    def check_reads(self, logs: Mapping[Partition, list[LogEntry]]) -> None:
        """Everything was read; nobody skipped what nobody had read, and each went on where it was."""
        for partition, log in logs.items():
            visible = [entry.offset for entry in log if entry.is_visible]
            places = {offset: index for index, offset in enumerate(visible)}
            frontier = 0
            at: dict[Run, int] = {}
            for run, offset in self.reads.get(partition, ()):
                where = f"{self.group_id}: {partition} {offset} was handed to {run.member}"
                if offset not in places:
                    raise CheckFailed(f"{where}, and is not there")
                place = places[offset]
                if run in at and place != at[run] + 1:
                    raise CheckFailed(f"{where} after {visible[at[run]]}")
                if place > frontier:
                    raise CheckFailed(f"{where}, and nobody has read {visible[frontier]}")
                at[run] = place
                frontier = max(frontier, place + 1)
            if frontier != len(visible):
                raise CheckFailed(f"{self.group_id}: nobody has read {partition} {visible[frontier]}")

    def check_committed(self, partition: Partition, offset: int | None) -> int:
        """What is committed while nothing goes wrong does not go back; None if nobody can say what it is."""
        last = self._committed.get(partition, -1)
        if offset is not None and offset < last:
            raise CheckFailed(f"{self.group_id}: what is committed of {partition} goes back from {last} to {offset}")
        self._committed[partition] = last if offset is None else offset
        return -1 if offset is None else offset

    def last_read(self, partition: Partition) -> int:
        return max((offset for _, offset in self.reads.get(partition, ())), default=-1)


def check_once(logs: Mapping[Partition, list[LogEntry]], source: str, target: str, prefix: bytes) -> None:
    """What was made of each record of one topic is in the other, once, and in order."""
    made: dict[Partition, list[int]] = {}
    for (topic, _), log in logs.items():
        for entry in log:
            if topic == target and entry.is_visible and entry.value.startswith(prefix):
                index, offset = entry.value.split(b"|")[1:3]
                made.setdefault((source, int(index)), []).append(int(offset))
    for partition, log in logs.items():
        if partition[0] == source:
            wanted = [entry.offset for entry in log if entry.is_visible]
            found = made.get(partition, [])
            if found != wanted:
                odd = next((pair for pair in zip(wanted, found) if pair[0] != pair[1]), "the end")
                counts = f"{len(found)} records were made of {len(wanted)} in {partition}"
                raise CheckFailed(f"not once each and in order: {counts}, the first difference is {odd}")
