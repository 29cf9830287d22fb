"""What the cleaning of logs has to show for itself: Kafka's gauges of its log cleaner."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from levada.model.metrics import Registry

_CLEANER: Final = "kafka.log:type=LogCleaner,name="
_MANAGER: Final = "kafka.log:type=LogCleanerManager,name="


Uncleanable = dict[tuple[str, int], tuple[str, int]]


class Pass(NamedTuple):
    seconds: float
    bytes_read: int
    bytes_kept: int
    utilization: float
    """How much of the memory for keys was used."""


NOTHING_YET: Final = Pass(0.0, 0, 0, 0.0)


@dataclass(slots=True)
class CleaningFigures:
    """Of all directories of logs."""

    last: Pass = NOTHING_YET
    bytes_cleaned: int = 0
    passes: int = 0
    last_round_ms: int = 0
    max_ratio: float = 0.0
    delay_ms: int = 0
    """How long the log that has waited longest should have been cleaned already."""
    uncleanable: Uncleanable = field(default_factory=dict)
    """Logs with damage that are left alone, with their directories and bytes."""

    def note_round(self, now_ms: int, max_ratio: float, delay_ms: int) -> None:
        self.last_round_ms = now_ms
        self.max_ratio = max_ratio
        self.delay_ms = delay_ms

    def note_pass(self, one: Pass) -> None:
        self.last = one
        self.passes += 1
        self.bytes_cleaned += one.bytes_read


def register_cleaning_gauges(
    registry: Registry, directories: Iterable[str], figures: CleaningFigures, now_ms: Callable[[], int]
) -> None:
    """Kafka's, and the bytes that were read in all, which make a rate."""
    for name, read in (
        (f"{_CLEANER}cleaner-recopy-percent", lambda: _percent(figures.last.bytes_kept, figures.last.bytes_read)),
        (f"{_CLEANER}max-clean-time-secs", lambda: int(figures.last.seconds)),
        (f"{_CLEANER}max-compaction-delay-secs", lambda: figures.delay_ms // 1_000),
        (f"{_CLEANER}max-buffer-utilization-percent", lambda: int(100 * figures.last.utilization)),
        (f"{_CLEANER}DeadThreadCount", lambda: 0),
        (f"{_CLEANER}bytes-cleaned", lambda: figures.bytes_cleaned),
        (f"{_MANAGER}max-dirty-percent", lambda: int(100 * figures.max_ratio)),
        (f"{_MANAGER}time-since-last-run-ms", lambda: now_ms() - figures.last_round_ms),
    ):
        registry.register_gauge(name, read)
    for directory in directories:
        tag = f",logDirectory={directory}"
        registry.register_gauge(
            f"{_MANAGER}uncleanable-partitions-count{tag}", partial(_count, figures.uncleanable, directory)
        )
        registry.register_gauge(f"{_MANAGER}uncleanable-bytes{tag}", partial(_bytes, figures.uncleanable, directory))


def _count(uncleanable: Uncleanable, directory: str) -> int:
    return sum(1 for place, _ in uncleanable.values() if place == directory)


def _bytes(uncleanable: Uncleanable, directory: str) -> int:
    return sum(size for place, size in uncleanable.values() if place == directory)


def _percent(part: int, whole: int) -> int:
    return 100 * part // whole if whole else 0
