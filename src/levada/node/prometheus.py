"""Kafka's metrics in Prometheus's text format; the one module that needs the extra `metrics`."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from prometheus_client import Metric, generate_latest
from prometheus_client.registry import Collector

from levada.model.metrics import PERCENTILES, Sample, Value

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE: Final = 20
"""Readings that are written in one go: requests must not wait for thousands of partitions to be written down."""

_GAUGES: Final = {
    "OneMinuteRate": "rate1m",
    "FiveMinuteRate": "rate5m",
    "FifteenMinuteRate": "rate15m",
    "Min": "min",
    "Max": "max",
}


async def render(readings: Iterable[Sample]) -> bytes:
    families: dict[str, list[Sample]] = {}
    for reading in readings:
        families.setdefault(reading.family, []).append(reading)
    pages: dict[str, list[bytes]] = {}
    for family, members in families.items():
        for start in range(0, len(members), SLICE):
            for metric in metrics_of(family, members[start : start + SLICE]):
                page = generate_latest(_Written(metric))
                if metric.name in pages:
                    # The two lines of its header are there already.
                    page = page.split(b"\n", 2)[2]
                pages.setdefault(metric.name, []).append(page)
            await asyncio.sleep(0)
    return b"".join(chain.from_iterable(pages.values()))


def metrics_of(family: str, readings: Sequence[Sample]) -> Iterable[Metric]:
    """Readings that differ only in their tags, as Prometheus's metrics."""
    base = _legal(re.sub("[:,](type|name)=", "_", family))
    metrics: dict[str, Metric] = {}

    def metric(name: str, type_: str) -> Metric:
        if name not in metrics:
            metrics[name] = Metric(name, family, type_)
        return metrics[name]

    for reading in readings:
        shown = reading.attributes
        labels = {_legal(tag): value for tag, value in reading.tags.items()}
        if reading.kind == "meter":
            metric(base, "counter").add_sample(f"{base}_total", labels, float(shown["Count"]))
        elif reading.kind in ("histogram", "timer"):
            _add_summary(metric(base, "summary"), labels, reading)
        for name, value in _gauges(base, reading).items():
            if isinstance(value, str):
                metric(name, "gauge").add_sample(name, {**labels, "value": value}, 1)
            else:
                metric(name, "gauge").add_sample(name, labels, value)
    return metrics.values()


def _gauges(base: str, reading: Sample) -> dict[str, Value]:
    if reading.kind == "gauge":
        return {base: reading.attributes["Value"]}
    if reading.kind == "attributes":
        return {f"{base}_{_legal(attribute)}": value for attribute, value in reading.attributes.items()}
    return {
        f"{base}_{suffix}": reading.attributes[name] for name, suffix in _GAUGES.items() if name in reading.attributes
    }


def _add_summary(summary: Metric, labels: dict[str, str], reading: Sample) -> None:
    name, shown = summary.name, reading.attributes
    for percentile, share in PERCENTILES.items():
        summary.add_sample(name, {**labels, "quantile": str(share)}, float(shown[percentile]))
    summary.add_sample(f"{name}_count", labels, float(shown["Count"]))
    summary.add_sample(f"{name}_sum", labels, float(shown["Mean"]) * float(shown["Count"]))


def _legal(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


class _Written(Collector):
    """One metric, in the shape that the library writes."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)
