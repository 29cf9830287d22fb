"""Draws throughput and lag over time."""

from itertools import pairwise
from pathlib import Path

import matplotlib

from examples.shop.events import RAW_TOPICS
from examples.shop.watching import History

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(history: History, path: Path) -> None:
    figure, (above, below) = plt.subplots(2, 1, figsize=(10, 7), sharex=True, constrained_layout=True)
    groups = {
        "raw records in": RAW_TOPICS,
        "records written by the pipeline": tuple(topic for topic in history.written[-1] if topic not in RAW_TOPICS),
    }
    for label, topics in groups.items():
        totals = [sum(sample.get(topic, 0) for topic in topics) for sample in history.written]
        pairs = list(pairwise(zip(history.seconds, totals, strict=True)))
        above.plot([end for _, (end, _) in pairs], [(b - a) / (t - s) for (s, a), (t, b) in pairs], label=label)
    above.set_ylabel("records / s")
    above.set_ylim(bottom=0)
    for query in history.lags[-1]:
        below.plot(history.seconds, [sample[query] for sample in history.lags], label=query)
    below.set_ylabel("lag (records)")
    below.set_xlabel("seconds")
    below.set_ylim(bottom=0)
    above.set_title("Throughput of topics, and lag of the pipeline's queries")
    for axes in (above, below):
        axes.legend(fontsize="small", loc="upper left", ncols=2)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)
