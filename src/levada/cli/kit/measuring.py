"""What the measuring tools share: sending at a given rate, and a client's metrics as a table."""

import time
from collections.abc import Mapping
from typing import Final

LEAST_SLEEP_SECONDS: Final = 0.002
"""Shorter sleeps cost more than they help."""

UNLIMITED: Final = -1


class RateThrottle:
    """Keeps whatever is counted at a rate a second; below 0 there is no limit."""

    def __init__(self, rate: float) -> None:
        self._seconds_each = 1 / rate if rate > 0 else 0.0
        self._started = time.monotonic()

    def wait(self, count: int) -> None:
        """Sleep until it is time for one more than `count`."""
        if not self._seconds_each:
            return
        ahead = self._started + count * self._seconds_each - time.monotonic()
        if ahead >= LEAST_SLEEP_SECONDS:
            time.sleep(ahead)


def metrics_table(group: str, client_id: str, metrics: Mapping[str, float]) -> str:
    """As Kafka's tools print them, by group, name and tags.

    >>> print(metrics_table("producer-metrics", "me", {"record-send-total": 3.0}))
    <BLANKLINE>
    Metric Name                                         Value
    producer-metrics:record-send-total:{client-id=me} : 3.000
    """
    named = {f"{group}:{name}:{{client-id={client_id}}}": value for name, value in metrics.items()}
    width = max(map(len, named), default=0)
    rows = [f"{name:{width}} : {float(value):.3f}" for name, value in sorted(named.items())]
    return "\n".join(["", f"{'Metric Name':{width}}   Value", *rows])
