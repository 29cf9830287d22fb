"""How far the cleaner of a broker has come, by the files of its data directory."""

import re
from pathlib import Path


def cleaned_until(data: Path, topic: str) -> int:
    """The offset below which the first partition of `topic` is clean; 0 if it never was cleaned."""
    path = data / "cleaner-offset-checkpoint"
    entry = re.search(rf"^{topic} 0 (\d+)$", path.read_text() if path.exists() else "", re.MULTILINE)
    return int(entry[1]) if entry else 0


def is_clean(data: Path, topic: str) -> bool:
    """Whether nothing is left to clean but what the active segment has, so that no pass is still to come."""
    bases = [int(path.stem) for path in (data / f"{topic}-0").glob("*.log")]
    return bool(bases) and 0 < cleaned_until(data, topic) == max(bases)
