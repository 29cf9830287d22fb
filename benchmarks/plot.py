"""Draws a report of `benchmarks.broker` as SVG, by hand: bars and lines need no library."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log10
from typing import Any

WIDTH, PANEL_HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 64, 50
COLORS = {"c": "#999999", "uvloop": "#4c78a8", "broker": "#e45756"}
LINES = ("#e45756", "#4c78a8")
LABELS = {"c": "plain C sink", "uvloop": "bare uvloop sink", "broker": "Levada"}


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of the page with an axis from 0 to `top`."""

    y: float
    top: float

    def at(self, value: float) -> float:
        height = PANEL_HEIGHT - TOP - BOTTOM
        return self.y + TOP + height * (1 - min(value, self.top) / self.top)


def plot(report: dict[str, Any]) -> str:
    panels: list[list[str]] = []
    if report.get("raw"):
        panels.append(_bars(report["raw"], len(panels) * PANEL_HEIGHT))
    if report.get("scale"):
        panels.append(_curves(report["scale"], len(panels) * PANEL_HEIGHT))
    if report.get("librdkafka"):
        panels.append(_latencies(report["librdkafka"]["acks"], len(panels) * PANEL_HEIGHT))
    body = "\n".join(line for panel in panels for line in panel)
    height = max(len(panels), 1) * PANEL_HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _bars(rows: Sequence[dict[str, Any]], y: float) -> list[str]:
    """Ratios side by side, so that 1 KiB and 1 MB fit one axis; a dash marks what is allowed."""
    names = [name for name in COLORS if name in rows[0]["servers"]]
    highest = max(server["ratio"]["high"] for row in rows for server in row["servers"].values())
    panel = Panel(y, max(2.0, ceil(highest)))
    lines = _frame(panel, "CPU per request, times the bare uvloop sink's (bars: medians, numbers: µs)")
    slot = (WIDTH - LEFT - RIGHT) / len(rows)
    width = slot * 0.8 / len(names)
    for number, row in enumerate(rows):
        left = LEFT + number * slot + slot * 0.1
        for place, name in enumerate(names):
            server = row["servers"][name]
            x, ratio = left + place * width, server["ratio"]
            lines.append(_bar(x, width - 3, panel.at(ratio["median"]), panel.at(0), COLORS[name]))
            lines.append(_line(x + width / 2, panel.at(ratio["low"]), x + width / 2, panel.at(ratio["high"]), "black"))
            lines.append(
                _text(x + width / 2, panel.at(ratio["high"]) - 4, f"{server['cpu_us']['median']:.0f}", "middle")
            )
        allowed = panel.at(row["allowed"])
        lines.append(_line(left, allowed, left + slot * 0.8, allowed, "black", dashes="4 3"))
        lines.append(_text(left + slot * 0.4, panel.at(0) + 18, f"{row['operation']} {row['size']}", "middle"))
    return lines + _legend(y, [(LABELS[name], COLORS[name]) for name in names])


def _curves(scale: dict[str, Any], y: float) -> list[str]:
    curves = {kind: scale[kind] for kind in ("partitions", "connections")}
    values = [row["per_cpu_second"]["high"] for rows in curves.values() for row in rows]
    panel = Panel(y, ceil(max(values) / 5_000) * 5_000)
    lines = _frame(panel, "Produce requests of 1 KiB per second of the broker's CPU")
    for color, rows in zip(LINES, curves.values()):
        points = [(_along(row["count"], rows), panel.at(row["per_cpu_second"]["median"])) for row in rows]
        path = " ".join(f"{x:.1f},{height:.1f}" for x, height in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for row, (x, height) in zip(rows, points):
            spread = row["per_cpu_second"]
            lines.append(_line(x, panel.at(spread["low"]), x, panel.at(spread["high"]), color))
            lines.append(f'<circle cx="{x:.1f}" cy="{height:.1f}" r="3" fill="{color}"/>')
            lines.append(_text(x, panel.at(0) + 18, f"{row['count']:,}", "middle"))
    return lines + _legend(y, list(zip(curves, LINES)))


def _along(count: int, rows: Sequence[dict[str, Any]]) -> float:
    """Powers of ten at equal distances."""
    return LEFT + 30 + (WIDTH - LEFT - RIGHT - 60) * log10(count) / log10(rows[-1]["count"])


def _latencies(acks: dict[str, Any], y: float) -> list[str]:
    kinds = {"ack_p50_us": "acked p50", "ack_p99_us": "acked p99", "end_p50_us": "read p50", "end_p99_us": "read p99"}
    highest = max(figures[kind]["median"] for figures in acks.values() for kind in kinds)
    panel = Panel(y, ceil(highest / 500) * 500)
    lines = _frame(panel, "librdkafka: µs of one message until it is acknowledged, and until it is read")
    slot = (WIDTH - LEFT - RIGHT) / len(acks)
    width = slot * 0.8 / len(kinds)
    for number, (name, figures) in enumerate(acks.items()):
        left = LEFT + number * slot + slot * 0.1
        for place, (kind, label) in enumerate(kinds.items()):
            x, value = left + place * width, figures[kind]["median"]
            lines.append(_bar(x, width - 3, panel.at(value), panel.at(0), LINES[place // 2]))
            lines.append(_text(x + width / 2, panel.at(value) - 4, f"{value:.0f}", "middle"))
            lines.append(_text(x + width / 2, panel.at(0) + 16, label, "middle"))
        rate = f"acks={name}: {figures['produced_per_second']['median']:,.0f} produced/s, "
        rate += f"{figures['consumed_per_second']['median']:,.0f} consumed/s"
        lines.append(_text(left + slot * 0.4, panel.at(0) + 34, rate, "middle"))
    return lines


def _frame(panel: Panel, title: str) -> list[str]:
    lines = [f'<text x="{LEFT}" y="{panel.y + 22:.1f}" font-size="15" font-weight="bold">{escape(title)}</text>']
    for step in range(5):
        value = panel.top * step / 4
        height = panel.at(value)
        lines.append(_line(LEFT, height, WIDTH - RIGHT, height, "#dddddd"))
        lines.append(_text(LEFT - 8, height + 4, f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}", "end"))
    return lines


def _legend(y: float, entries: Sequence[tuple[str, str]]) -> list[str]:
    lines = []
    for number, (label, color) in enumerate(entries):
        x = LEFT + 150 * number
        lines.append(f'<rect x="{x}" y="{y + 32:.1f}" width="10" height="10" fill="{color}"/>')
        lines.append(_text(x + 15, y + 41, label, "start"))
    return lines


def _bar(x: float, width: float, top: float, bottom: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{bottom - top:.1f}" fill="{color}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str, dashes: str = "") -> str:
    extra = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{extra}/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
