"""What a pass over a log knows of transactions: whose records are void, and which markers are still needed."""

from collections.abc import Iterable
from heapq import heappop, heappush

from levada.records import BatchView
from levada.records.builder import ControlType, parse_control_record
from levada.storage.formats import AbortedTransaction


class PassedTransactions:
    """Fed with the batches of a log in their order."""

    def __init__(self) -> None:
        self._expected: list[tuple[int, int, AbortedTransaction]] = []
        """Aborted transactions that begin further on, by their first offsets."""
        self._aborted: dict[int, AbortedTransaction] = {}
        """Of those under way, by producer."""
        self._with_data: set[int] = set()
        """Producers of aborted transactions under way of which a batch of records was met."""
        self._committed: set[int] = set()
        """Producers of which a batch was met whose transaction was not aborted."""
        self.kept_aborts: list[AbortedTransaction] = []
        """Those whose marker stays for their records' sake: the new index must know them."""

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        for one in aborted:
            heappush(self._expected, (one.first_offset, one.producer_id, one))

    def is_void(self, batch: BatchView) -> bool:
        """Whether a batch of records belongs to a transaction that was aborted."""
        self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._with_data.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def is_marker_of_nothing(self, batch: BatchView) -> bool:
        """Whether no batch of a control batch's transaction was met: a pass after this one may find the same."""
        self._begin_up_to(batch.last_offset)
        records = batch.records()
        if not records:
            # An earlier pass has taken its record away already.
            return True
        control = parse_control_record(records[0]).type
        if control == ControlType.ABORT:
            return self._ends_aborted(batch.producer_id)
        if control == ControlType.COMMIT:
            had_data = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not had_data
        return False

    def _ends_aborted(self, producer_id: int) -> bool:
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._with_data:
            return True
        self._with_data.discard(producer_id)
        self.kept_aborts.append(aborted)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._expected and self._expected[0][0] <= offset:
            _, producer_id, aborted = heappop(self._expected)
            self._aborted.setdefault(producer_id, aborted)
