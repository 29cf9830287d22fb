"""What a coordinator needs of the partition that keeps its records."""

from collections.abc import Sequence
from typing import Protocol

from levada.coordination.decision import Record


class Journal(Protocol):
    def append(self, records: Sequence[Record]) -> int:
        """Append them as one batch, all or none; where the log ends then. ApiError if it cannot be."""
        ...

    def committed_offset(self) -> int:
        """Up to where the log will survive its leader."""
        ...
