"""What producers know of their transactions, and what readers of committed records may therefore see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from levada.sim.checkers.check_failed import CheckFailed


class TransactionFate(Enum):
    """What its producer knows of a transaction."""

    OPEN = "its commit was not asked for"
    ASKED = "its commit was asked for, and no answer says what came of it"
    COMMITTED = "its commit was acknowledged"
    ABORTED = "it was aborted, or its commit refused"


@dataclass(slots=True, eq=False)
class Attempt:
    """One transaction, from its first record on."""

    name: str
    transactional_id: str
    number: int
    """Counts the transactions of all, in the order in which they begin."""
    values: dict[int, list[bytes]] = field(default_factory=dict)
    """What was written to each partition; all of it was acknowledged when a commit is asked for."""
    offsets: dict[int, list[int]] = field(default_factory=dict)
    """Where that is, as the acknowledgements say."""
    has_offsets: bool = False
    fate: TransactionFate = TransactionFate.OPEN
    committed_s: float | None = None
    """When the acknowledgement of its commit was there."""
    mates: "list[Attempt]" = field(default_factory=list)
    """All members of its group commit, itself among them."""
    is_seen: bool = False

    def ask(self) -> None:
        """A commit is about to be sent."""
        if self.fate is TransactionFate.OPEN:
            self.fate = TransactionFate.ASKED

    def commit(self, now_s: float) -> None:
        if self.fate is TransactionFate.ABORTED:
            raise CheckFailed(f"{self.name} was committed after its abort was known")
        if self.fate is not TransactionFate.COMMITTED:
            self.fate, self.committed_s = TransactionFate.COMMITTED, now_s

    def abort(self) -> None:
        if self.is_seen or self.fate is TransactionFate.COMMITTED:
            raise CheckFailed(f"{self.name} is aborted, and a reader has seen it: {self.fate.value}")
        self.fate = TransactionFate.ABORTED

    def see(self, what: str) -> None:
        """Part of it was given to a reader that may see committed things only."""
        if self.fate not in (TransactionFate.ASKED, TransactionFate.COMMITTED):
            raise CheckFailed(f"{what} of {self.name} is visible: {self.fate.value}")
        self.is_seen = True


@dataclass(slots=True, eq=False)
class ProducerIdClaim:
    """One call of InitProducerId."""

    owner: str
    transactional_id: str
    sent_s: float
    answered_s: float | None = None
    is_granted: bool = False


class TransactionHistory:
    """All transactions of a run, and which producer asked for which transactional id."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self._by_value: dict[bytes, tuple[Attempt, int, int]] = {}
        self._claims: dict[str, list[ProducerIdClaim]] = {}
        self.zombies_refused = 0

    def begin(self, owner: str, transactional_id: str) -> Attempt:
        number = len(self.attempts)
        attempt = Attempt(f"transaction {number} of {owner}", transactional_id, number)
        self.attempts[attempt.name] = attempt
        return attempt

    def write(self, attempt: Attempt, partition: int, size: int) -> bytes:
        """A new value that the attempt writes to a partition."""
        values = attempt.values.setdefault(partition, [])
        value = f"{attempt.name}, partition {partition}, {len(values)}: ".encode() + bytes(size)
        self._by_value[value] = (attempt, partition, len(values))
        values.append(value)
        return value

    def find(self, value: bytes, partition: int) -> tuple[Attempt, int]:
        """Whose value it is, and which of this partition's."""
        known = self._by_value.get(value)
        if known is None or known[1] != partition:
            raise CheckFailed(f"no producer wrote {value!r} to partition {partition}")
        return known[0], known[2]

    def count(self, fate: TransactionFate) -> int:
        return sum(attempt.fate is fate for attempt in self.attempts.values())

    # Which producer may use a transactional id

    def claim(self, owner: str, transactional_id: str, now_s: float) -> ProducerIdClaim:
        claim = ProducerIdClaim(owner, transactional_id, now_s)
        self._claims.setdefault(transactional_id, []).append(claim)
        return claim

    def check_heard(self, mine: ProducerIdClaim, sent_s: float, what: str) -> None:
        """A request was carried out; no other owner may have been given the transactional id before it was sent."""
        assert mine.answered_s is not None
        for other in self._claims[mine.transactional_id]:
            is_later = other.owner != mine.owner and other.sent_s > mine.answered_s
            if is_later and other.is_granted and other.answered_s is not None and other.answered_s < sent_s:
                raise CheckFailed(f"{what} of {mine.owner} was carried out although {other.owner} has its id")

    def check_fenced(
        self, mine: ProducerIdClaim, began_s: float | None, timeout_s: float, now_s: float, what: str
    ) -> None:
        """A request was refused because its producer is an old one; another or its timeout must have made it that."""
        if began_s is not None and now_s >= began_s + timeout_s:
            return
        for other in self._claims[mine.transactional_id]:
            # An answer that was lost may belong to a request that comes late, even one's own.
            if other is not mine and (other.answered_s is None or other.answered_s >= mine.sent_s):
                self.zombies_refused += other.owner != mine.owner
                return
        raise CheckFailed(f"{what} of {mine.owner} was refused as if its id were another's")


class CommittedView:
    """What one partition has shown to its reader, from the first offset on."""

    def __init__(self, history: TransactionHistory, partition: int) -> None:
        self.partition = partition
        self.position = 0
        self.last_stable_offset = -1
        self.high_watermark = -1
        self.seen: list[tuple[int, bytes]] = []
        self._history = history
        self._again = 0
        """How many of those that were seen before have been read again."""
        self._shown: dict[Attempt, int] = {}
        self._unsettled: dict[Attempt, None] = {}

    @property
    def is_at_end(self) -> bool:
        return self.position == self.last_stable_offset == self.high_watermark

    def begin_again(self) -> None:
        """Read from the first offset; what was seen must come again."""
        self.position, self.last_stable_offset, self.high_watermark = 0, -1, -1
        self._again = 0
        self._shown.clear()
        self._unsettled.clear()

    def shows(self, attempt: Attempt) -> bool:
        """Whether the reader has come by any of its records."""
        return attempt in self._shown

    def show(self, offset: int, value: bytes) -> None:
        """The reader was given a record as a committed one."""
        if self._again < len(self.seen):
            if self.seen[self._again] != (offset, value):
                before = self.seen[self._again]
                raise CheckFailed(f"partition {self.partition} showed {before} and now {(offset, value)}")
        else:
            self.seen.append((offset, value))
        self._again += 1
        attempt, index = self._history.find(value, self.partition)
        attempt.see(f"record {offset} of partition {self.partition}")
        if self._shown.get(attempt, 0) != index:
            text = f"{attempt.name} shows its record {index} in partition {self.partition}"
            raise CheckFailed(f"{text} after {self._shown.get(attempt, 0)} others")
        if attempt.offsets[self.partition][index] != offset:
            raise CheckFailed(f"{value!r} was acknowledged elsewhere than at {offset}")
        self._shown[attempt] = index + 1
        self._unsettled[attempt] = None

    def settle(self) -> None:
        """The reader has come to the last stable offset: what lies before it is there as a whole."""
        for attempt in list(self._unsettled):
            if all(self._is_whole(one, attempt) for one in attempt.mates or [attempt]):
                del self._unsettled[attempt]

    def _is_whole(self, attempt: Attempt, visible: Attempt) -> bool:
        """Whether all of it was shown; what is not must be behind another transaction that is still open."""
        end, shown = self.last_stable_offset, self._shown.get(attempt, 0)
        offsets = attempt.offsets.get(self.partition, [])
        wanted = sum(offset < end for offset in offsets)
        if shown != wanted or (offsets and offsets[0] == end):
            text = f"{shown} of {wanted} records of {attempt.name} up to {end} are visible in {self.partition}"
            raise CheckFailed(f"{text}, and {self._shown[visible]} of {visible.name}")
        return shown == len(offsets)


def check_offset(
    history: TransactionHistory, transactional_id: str, label: str, asked_s: float, *, is_stable: bool
) -> None:
    """What was read as a group's committed offset, by the name of the transaction that it says it is of."""
    number = -1
    if label:
        attempt = history.attempts.get(label)
        if attempt is None or attempt.transactional_id != transactional_id or not attempt.has_offsets:
            raise CheckFailed(f"{label!r} committed no offset for {transactional_id}")
        attempt.see("an offset")
        number = attempt.number
    if not is_stable:
        # What is decided and not yet finished hides nothing from readers that do not ask for what is stable.
        return
    for attempt in history.attempts.values():
        if attempt.transactional_id != transactional_id or not attempt.has_offsets:
            continue
        if attempt.committed_s is not None and attempt.committed_s < asked_s and attempt.number > number:
            raise CheckFailed(f"the offset of {attempt.name} was committed, and {label!r} is read")


def check_whole(history: TransactionHistory, views: list[CommittedView], labels: Mapping[str, str | None]) -> None:
    """Everything is over and was read from the beginning: each transaction is there as a whole or not at all."""
    last: dict[str, str] = {}
    for attempt in history.attempts.values():
        shown = [view.partition for view in views if view.shows(attempt)]
        wanted = sorted(attempt.values)
        if shown and shown != wanted:
            raise CheckFailed(f"{attempt.name} is visible in partitions {shown}, and wrote to {wanted}")
        if attempt.fate is TransactionFate.COMMITTED and not shown:
            raise CheckFailed(f"{attempt.name} was committed, and nothing of it is visible")
        if attempt.fate is TransactionFate.ASKED and not shown:
            # From now on it must stay so; `abort` objects if its offset was seen.
            attempt.abort()
        if shown and attempt.has_offsets:
            last[attempt.transactional_id] = attempt.name
        groups = [one for one in attempt.mates if any(view.shows(one) for view in views) != bool(shown)]
        if groups:
            raise CheckFailed(f"{attempt.name} and {groups[0].name} were committed together, and one is not visible")
    for transactional_id, label in labels.items():
        if last.get(transactional_id, "") != label:
            raise CheckFailed(f"{transactional_id} has the offset of {label!r}, not of {last.get(transactional_id)!r}")
