"""What ties the markers of one write together: none of them counts before the last one is there.

A write can be torn, and a follower may have fetched a part of it. So each marker of a group commit says in a header of
its control record of which group it is, its number, and how many there are. What is left of a write that was not
finished ends no transaction: the coordinator writes all of them again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, Generic, TypeVar

from levada.records import BatchView, Record

HEADER_KEY: Final = "levada-group-commit"
_TIE = Struct(">16sii")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tie:
    digest: bytes
    """Of the group whose transactions end together."""
    number: int
    """From 1 on."""
    count: int
    """Of the markers in one write."""

    @property
    def header(self) -> tuple[str, bytes]:
        return HEADER_KEY, _TIE.pack(self.digest, self.number, self.count)


def tie_of(record: Record) -> Tie | None:
    """None for a marker that stands alone, as all of Apache's do."""
    for key, value in record.headers:
        if key == HEADER_KEY and value is not None and len(value) >= _TIE.size:
            return Tie(*_TIE.unpack_from(value))
    return None


class MarkerSet(Generic[T]):
    """Fed with the markers of a log in their order; keeps those of one write until the last one comes."""

    __slots__ = ("_digest", "_first_offset", "_markers")

    def __init__(self) -> None:
        self._digest = b""
        self._first_offset = 0
        self._markers: list[T] = []

    def take(self, tie: Tie | None, offset: int, marker: T) -> list[T]:
        """What counts from now on: a marker that stands alone, or all of a write with its last one."""
        if tie is None:
            return [marker]
        if not self.continues(tie, offset):
            self._digest, self._first_offset, self._markers = tie.digest, offset, []
            if tie.number != 1:
                return []
        self._markers.append(marker)
        return self.abandon() if tie.number == tie.count else []

    def continues(self, tie: Tie | None, offset: int) -> bool:
        """Whether a marker is the next one of the write that is kept; nothing comes between two of them."""
        count = len(self._markers)
        following = self._digest, count + 1, self._first_offset + count
        return tie is not None and count > 0 and (tie.digest, tie.number, offset) == following

    def abandon(self) -> list[T]:
        """Keep nothing any more of what was kept."""
        kept, self._markers = self._markers, []
        return kept

    def begins_before(self, end_offset: int) -> int:
        """Where the write begins whose rest may still come at the end of a log; that end if there is none."""
        is_at_end = bool(self._markers) and self._first_offset + len(self._markers) == end_offset
        return self._first_offset if is_at_end else end_offset


def with_torn(batches: Iterable[BatchView]) -> Iterator[tuple[BatchView, bool]]:
    """Each batch of a log, and whether it is a marker of a write that was never finished."""
    markers: MarkerSet[BatchView] = MarkerSet()
    for batch in batches:
        records = batch.records() if batch.is_control else []
        tie = tie_of(records[0]) if records else None
        is_next = markers.continues(tie, batch.base_offset)
        if not is_next:
            yield from ((one, True) for one in markers.abandon())
        whole = markers.take(tie, batch.base_offset, batch)
        yield from ((one, False) for one in whole)
        if tie is not None and tie.number > 1 and not is_next:
            # Its beginning is gone.
            yield batch, True
    yield from ((one, True) for one in markers.abandon())
