"""Requests known by their bytes, replies made from known ones, in Python: the twin of `_request_templates.pyx`."""

from struct import Struct as Packed
from struct import error as StructError  # noqa: N812 - a class, named as one
from typing import Final, TypeVar

from levada.model.buffers import Buffer
from levada.protocol.errors import CodecError
from levada.protocol.runtime import read_uvarint, uvarint

CLIENT_LENGTH_AT: Final = 9
"""The low byte of the client id's length. A longer id, or none, leads to a prefix that no template has."""
CORRELATION_ID: Final = slice(4, 8)
AFTER_CORRELATION_ID: Final = 8

_OFFSET: Final = Packed(">q")
_OFFSETS: Final = Packed(">qqq")
_SIZE: Final = Packed(">i")
_NOT_AS_LEARNED: Final = (IndexError, StructError, CodecError)
"""What looking at a frame raises that is no request, or one of another shape."""

T = TypeVar("T")


class RequestTemplate:
    """Where a request for one partition of one topic has what it is known by.

    `topic_at` is the byte with the length of the topic's name, after an empty client id, and `behind_name` is what lies
    from the end of the name to the end of the prefix. Where topics go by their ids the prefix ends at `topic_at`.
    `tail` is what follows the records of a produce request.
    """

    __slots__ = ("_behind_name", "_goes_by_name", "_is_flexible", "_tail", "_topic_at")

    def __init__(self, topic_at: int, behind_name: int, goes_by_name: bool, is_flexible: bool, tail: bytes) -> None:
        self._topic_at = topic_at
        self._behind_name = behind_name
        self._goes_by_name = goes_by_name
        self._is_flexible = is_flexible
        self._tail = tail

    def end_of_prefix(self, frame: memoryview) -> int:
        """Where the prefix ends; 0 if the frame ends before."""
        try:
            end = self._topic_at + frame[CLIENT_LENGTH_AT]
            if self._goes_by_name:
                end += frame[end] + self._behind_name
        except IndexError:
            return 0
        return end if end <= len(frame) else 0

    def find_fetch(self, known: dict[bytes, T], frame: memoryview) -> tuple[T, int] | None:
        """What is known of a request but for its offset, which follows the prefix; and the offset."""
        end = self.end_of_prefix(frame)
        behind = end + _OFFSET.size
        if not end or behind > len(frame):
            return None
        found = known.get(frame[AFTER_CORRELATION_ID:end].tobytes() + frame[behind:])
        return None if found is None else (found, _OFFSET.unpack_from(frame, end)[0])

    def find_produce(self, known: dict[bytes, T], frame: memoryview) -> tuple[T, int, int] | None:
        """What is known of a request but for its records, which follow the prefix with their size; where they lie."""
        end = self.end_of_prefix(frame)
        found = known.get(frame[AFTER_CORRELATION_ID:end].tobytes()) if end else None
        if found is None:
            return None
        try:
            if self._is_flexible:
                size, start = read_uvarint(frame, end)
                size -= 1
            else:
                (size,), start = _SIZE.unpack_from(frame, end), end + _SIZE.size
        except _NOT_AS_LEARNED:
            return None
        stop = len(frame) - len(self._tail)
        if size < 0 or size != stop - start or frame[stop:] != self._tail:
            return None
        return found, start, stop


class ResponseTemplate:
    """A reply without what changes: the correlation id, three offsets between `before` and `after`, and the records.

    Records stand behind `after` with their size in front, and `tail` behind them.
    """

    __slots__ = ("_after", "_before", "_is_flexible", "tail")

    def __init__(self, before: bytes, after: bytes, tail: bytes, is_flexible: bool) -> None:
        self._before = before
        self._after = after
        self.tail = tail
        self._is_flexible = is_flexible

    def with_offsets(self, frame: memoryview, first: int, second: int, third: int) -> bytes:
        """A whole reply that has no records, with its size in front."""
        reply = self._filled(frame, first, second, third)
        return _SIZE.pack(len(reply)) + reply

    def before_records(self, frame: memoryview, first: int, second: int, third: int, records: int) -> bytes:
        """What goes before so many bytes of records, but for the size of the reply."""
        return self._filled(frame, first, second, third) + self._size_field(records)

    def with_records(self, frame: memoryview, first: int, second: int, third: int, records: Buffer) -> bytes:
        """A whole reply with its size in front."""
        head = self.before_records(frame, first, second, third, len(records))
        return b"".join((_SIZE.pack(len(head) + len(records) + len(self.tail)), head, records, self.tail))

    def _filled(self, frame: memoryview, first: int, second: int, third: int) -> bytes:
        return b"".join((frame[CORRELATION_ID], self._before, _OFFSETS.pack(first, second, third), self._after))

    def _size_field(self, size: int) -> bytes:
        return uvarint(size + 1) if self._is_flexible else _SIZE.pack(size)


class CachePrefetch:
    """Of a few objects that are needed together, and of what their fields hold.

    With a thousand partitions it is far from the processor when their turn comes. Met one by one, each piece is waited
    for; asked for all at once, they come together. Only the compiled twin can ask.
    """

    __slots__ = ()

    def __init__(self, *objects: object) -> None:
        pass

    def prefetch(self) -> None:
        pass
