"""The aborted transactions of a segment, kept in its .txnindex."""

from dataclasses import dataclass
from errno import ENOSPC
from itertools import pairwise

from levada.storage.formats import ABORTED_TRANSACTION, AbortedTransaction, CorruptFile, decode_aborted_transactions
from levada.world.disk import Disk, File, is_passing


@dataclass(frozen=True, slots=True)
class Collected:
    """Aborted transactions that overlap a range; not complete if later segments may hold more."""

    transactions: list[AbortedTransaction]
    is_complete: bool


class TransactionIndex:
    """Few entries, read when first asked for; the file exists once there is one.

    A marker that was written cannot be taken back because the disk is too full for its entry, or because the file
    cannot be opened: readers have it from memory then, and it is written as soon as it can be, before anything counts
    as flushed.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        self._owed = 0
        """How many of the last entries are not in the file yet."""

    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def check(self) -> None:
        """CorruptFile unless the file can be read."""
        self._entries = None
        self.entries()

    def create(self) -> None:
        """Make the file, if there is none."""
        self._open().close()

    def append(self, transaction: AbortedTransaction) -> None:
        self.entries().append(transaction)
        self._owed += 1
        try:
            self.settle()
        except OSError as error:
            if not is_passing(error):
                raise

    def settle(self) -> None:
        """Write the entries that are not in the file yet."""
        if not self._owed:
            return
        entries = self.entries()
        written = len(entries) - self._owed
        data = [entry.encode() for entry in entries[written:]]
        file = self._open()
        try:
            if file.append(data) != self._owed * ABORTED_TRANSACTION.size:
                file.truncate(written * ABORTED_TRANSACTION.size)
                raise OSError(ENOSPC, "the disk took only a part of the entries", self._path)
        finally:
            file.close()
        self._owed = 0

    def collect(self, from_offset: int, upper_offset: int) -> Collected:
        """The transactions with records in [from_offset, upper_offset)."""
        found: list[AbortedTransaction] = []
        for entry in self.entries():
            if entry.last_offset >= from_offset and entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return Collected(found, is_complete=True)
        return Collected(found, is_complete=False)

    def truncate(self, offset: int) -> None:
        """Drop every entry whose marker lies at or above the offset."""
        entries = self.entries()
        keep = sum(1 for entry in entries if entry.last_offset < offset)
        if keep < len(entries):
            self._cut(keep)

    def clear(self) -> None:
        self._owed = 0
        if self._disk.exists(self._path):
            self._cut(0)
        self._entries = []

    def _cut(self, count: int) -> None:
        written = len(self._entries or ()) - self._owed
        if count < written or self._entries is None:
            file = self._open()
            try:
                file.truncate(count * ABORTED_TRANSACTION.size)
            finally:
                file.close()
        self._owed = max(min(len(self._entries or ()), count) - written, 0)
        if self._entries is not None:
            del self._entries[count:]

    def _open(self) -> File:
        return self._disk.open(self._path, create=True)

    def _read(self) -> list[AbortedTransaction]:
        if not self._disk.exists(self._path):
            return []
        file = self._open()
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        entries = list(decode_aborted_transactions(data))
        for before, after in pairwise(entries):
            if after.last_offset <= before.last_offset:
                raise CorruptFile(f"{self._path}: entries do not ascend")
        return entries
