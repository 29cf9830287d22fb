"""The ends of transactions as one write: which of them are written, and their bytes."""

from collections.abc import Sequence
from typing import Final

from levada.model.errors import ApiError
from levada.records.builder import ControlType, end_transaction_marker
from levada.storage.formats import AbortedTransaction
from levada.storage.marker_sets import Tie
from levada.storage.producers import EndMarker, Producers, TransactionEnd
from levada.storage.replay import note_end

NO_GROUP: Final = b""


class MarkerWrite:
    """All ends but those that are refused: a later producer or coordinator has ended these in another way.

    The markers of a group are tied together, so that all of them count or none; a single one is as Apache writes it.
    """

    def __init__(self, producers: Producers, ends: Sequence[TransactionEnd], group: bytes, now_ms: int) -> None:
        self.refused = tuple(_refusal(producers, end) for end in ends)
        """For each end, in their order, why it is not written."""
        self.ends = [end for end, refusal in zip(ends, self.refused) if refusal is None]
        is_tied = group != NO_GROUP and len(self.ends) > 1
        ties = [Tie(group, number, len(self.ends)) if is_tied else None for number in range(1, len(self.ends) + 1)]
        self._markers = [
            EndMarker(end.is_commit, end.coordinator_epoch, now_ms, tie) for end, tie in zip(self.ends, ties)
        ]

    def batches(self, base_offset: int, leader_epoch: int) -> list[bytes]:
        """What a log keeps from an offset on."""
        return [
            end_transaction_marker(
                ControlType.COMMIT if marker.is_commit else ControlType.ABORT,
                producer_id=end.producer_id,
                producer_epoch=end.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=marker.timestamp_ms,
                base_offset=offset,
                partition_leader_epoch=leader_epoch,
                headers=() if marker.tie is None else (marker.tie.header,),
            )
            for offset, (end, marker) in enumerate(zip(self.ends, self._markers), base_offset)
        ]

    def note(self, producers: Producers, base_offset: int) -> list[AbortedTransaction]:
        """They were appended at an offset; what the transaction index must learn."""
        aborted = []
        for offset, (end, marker) in enumerate(zip(self.ends, self._markers), base_offset):
            aborted += note_end(producers, end.producer_id, end.producer_epoch, offset, marker)
        return aborted


def _refusal(producers: Producers, end: TransactionEnd) -> ApiError | None:
    try:
        producers.check_marker(end.producer_id, end.producer_epoch, end.coordinator_epoch, end.transaction_version)
    except ApiError as error:
        return error
    return None
