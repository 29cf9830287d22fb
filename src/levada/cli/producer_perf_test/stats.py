"""Latencies and rates of what was acknowledged, and the lines about them."""

from array import array
from collections.abc import Sequence
from typing import Final

MOST_SAMPLES: Final = 500_000
BYTES_PER_MB: Final = 1 << 20
PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999, 0.9999)


class Stats:
    """All records since the start, and those of the current window; times are in ms."""

    def __init__(self, record_count: int, window_ms: float, now_ms: float, *, is_steady: bool = False) -> None:
        self.count = 0
        self._is_steady = is_steady
        self._started_ms = now_ms
        self._window_ms = window_ms
        self._sampling = max(1, record_count // min(record_count, MOST_SAMPLES))
        self._samples = array("i")
        self._bytes = 0
        self._total_latency = 0
        self._max_latency = 0
        self._has_windows = False
        self._window_started_ms = now_ms
        self._window_count = 0
        self._window_bytes = 0
        self._window_total = 0
        self._window_max = 0

    def record(self, latencies: Sequence[int], size: int, now_ms: float) -> list[str]:
        """Records that were acknowledged together; the lines that it is time for."""
        # The first of these that is a sample.
        skipped = -self.count % self._sampling
        self._samples.extend(latencies[skipped :: self._sampling])
        highest, total = max(latencies), sum(latencies)
        self.count += len(latencies)
        self._bytes += size
        self._total_latency += total
        self._max_latency = max(self._max_latency, highest)
        self._window_count += len(latencies)
        self._window_bytes += size
        self._window_total += total
        self._window_max = max(self._window_max, highest)
        if now_ms - self._window_started_ms < self._window_ms:
            return []
        lines = [self._window_line(now_ms)]
        if self._is_steady and not self._has_windows:
            lines.insert(0, "In steady state.")
        self._has_windows = True
        self._begin_window(now_ms)
        return lines

    def total_line(self, now_ms: float) -> str:
        seconds = _seconds(now_ms - self._started_ms)
        percentiles = percentiles_of(self._samples, PERCENTILES)
        return (
            f"{self.count}{' steady state' if self._is_steady else ''} records sent,"
            f" {self.count / seconds:f} records/sec ({self._bytes / seconds / BYTES_PER_MB:.2f} MB/sec),"
            f" {self._total_latency / max(self.count, 1):.2f} ms avg latency, {self._max_latency:.2f} ms max latency,"
            f" {percentiles[0]} ms 50th, {percentiles[1]} ms 95th, {percentiles[2]} ms 99th,"
            f" {percentiles[3]} ms 99.9th, {percentiles[4]} ms 99.99th."
        )

    def _window_line(self, now_ms: float) -> str:
        seconds = _seconds(now_ms - self._window_started_ms)
        return (
            f"{self._window_count} records sent, {self._window_count / seconds:.1f} records/sec"
            f" ({self._window_bytes / seconds / BYTES_PER_MB:.2f} MB/sec),"
            f" {self._window_total / self._window_count:.1f} ms avg latency, {self._window_max:.1f} ms max latency."
        )

    def _begin_window(self, now_ms: float) -> None:
        self._window_started_ms = now_ms
        self._window_count = 0
        self._window_bytes = 0
        self._window_total = 0
        self._window_max = 0


def percentiles_of(samples: Sequence[int], shares: Sequence[float]) -> list[int]:
    """
    >>> percentiles_of(range(100), [0.5, 0.99])
    [50, 99]
    """
    ordered = sorted(samples)
    return [ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0 for share in shares]


def _seconds(elapsed_ms: float) -> float:
    """At least a millisecond, as nothing is divided by less."""
    return max(elapsed_ms, 1) / 1_000
