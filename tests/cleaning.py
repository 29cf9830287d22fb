"""Segments swapped as a broker does it, and how far its cleaner has come, by the files of its data directory."""

import re
from collections.abc import Callable
from pathlib import Path

from levada.storage.cleaning.swapping import Swap


def swap_in(swap: Swap, sync: Callable[[], None] = lambda: None) -> bool:
    """Go all steps of a swap; whether the log has the new segment now."""
    for step in swap.steps():
        if not step():
            return False
        sync()
    return True


def cleaned_until(data: Path, topic: str) -> int:
    """The offset below which the first partition of `topic` is clean; 0 if it never was cleaned."""
    path = data / "cleaner-offset-checkpoint"
    entry = re.search(rf"^{topic} 0 (\d+)$", path.read_text() if path.exists() else "", re.MULTILINE)
    return int(entry[1]) if entry else 0


def is_clean(data: Path, topic: str) -> bool:
    """Whether nothing is left to clean but what the active segment has, so that no pass is still to come."""
    bases = [int(path.stem) for path in (data / f"{topic}-0").glob("*.log")]
    return bool(bases) and 0 < cleaned_until(data, topic) == max(bases)
