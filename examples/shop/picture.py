"""Draws throughput and lag over time."""

from collections.abc import Collection
from pathlib import Path

import matplotlib

from examples.shop.events import RAW_TOPICS
from examples.shop.pipeline import HOPS
from examples.shop.watching import History

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator

SMOOTH_SECONDS = 5.0
MOST_TICKS = 15
TICK_SECONDS = (5, 10, 15, 30, 60, 120, 300, 600)
ALLOWED_SECONDS = 5.0


def draw(history: History, path: Path) -> None:
    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 7.5), sharex=True, constrained_layout=True)
    groups: dict[str, Collection[str]] = {
        "records in": RAW_TOPICS,
        "records that the pipeline wrote": tuple(topic for topic in history.topics if topic not in RAW_TOPICS),
    }
    samples = range(len(history.seconds))
    for label, topics in groups.items():
        above.plot(history.seconds, [history.rate(topics, at, SMOOTH_SECONDS) for at in samples], label=label)
    for hop in HOPS:
        for query in hop:
            behind = [history.seconds_behind(query, at) for at in samples]
            below.plot(history.seconds, behind, label=query, linewidth=1.2)
    below.axhline(ALLOWED_SECONDS, color="grey", linestyle=":", linewidth=1)
    above.set_ylabel("records a second")
    below.set_ylabel("seconds of input behind")
    below.set_xlabel("minutes:seconds since the demo began")
    above.set_title("What came in and what was written; how far each query was behind")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        _mark(axes, history)
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.grid(alpha=0.3)
    _time_axis(below, history.seconds[-1])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _mark(axes: Axes, history: History) -> None:
    for what, second in history.marks.items():
        axes.axvline(second, color="black", linestyle="--", linewidth=0.8)
        place = axes.get_xaxis_transform()
        axes.text(second, 0.98, f" {what}", transform=place, fontsize="small", rotation=90, va="top", ha="right")


def _time_axis(axes: Axes, last: float) -> None:
    step = next((each for each in TICK_SECONDS if last / each <= MOST_TICKS), TICK_SECONDS[-1])
    axes.set_xlim(0, last)
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda second, _: f"{int(second) // 60}:{int(second) % 60:02d}"))
