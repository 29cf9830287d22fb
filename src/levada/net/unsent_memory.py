"""How much memory is held by replies that clients have not taken yet."""

from collections import OrderedDict
from typing import Final, Protocol

LOOKED_AT: Final = 8
"""Connections that are looked at in one go, the longest unseen first, however many there are."""
MAX_HOLDERS: Final = 64
"""Connections that may hold long buffers at the same time; a buffer has a megabyte at most."""


class Holder(Protocol):
    @property
    def unsent_bytes(self) -> int:
        """What is written and has not left."""
        ...


class UnsentMemory:
    """While too many clients do not read, nothing is read ahead for any: replies stay in their files until they leave.

    Connections that hold nothing any more are looked for only when there seem to be too many.
    """

    def __init__(self, max_holders: int = MAX_HOLDERS) -> None:
        self._max_holders = max_holders
        self._holders: OrderedDict[Holder, None] = OrderedDict()
        self.is_full = False

    def note(self, holder: Holder) -> None:
        """Some of a long reply did not leave at once."""
        self._holders[holder] = None
        self._look()

    def look_if_full(self) -> bool:
        """Whether it still is: a connection whose client has read all since need not have said so."""
        if self.is_full:
            self._look()
        return self.is_full

    def _look(self) -> None:
        if len(self._holders) >= self._max_holders:
            for _ in range(min(LOOKED_AT, len(self._holders))):
                holder, _none = self._holders.popitem(last=False)
                if holder.unsent_bytes:
                    self._holders[holder] = None
        self.is_full = len(self._holders) >= self._max_holders

    def forget(self, holder: Holder) -> None:
        """All has left, or the connection is over."""
        if self._holders.pop(holder, self) is None:
            self.is_full = len(self._holders) >= self._max_holders
