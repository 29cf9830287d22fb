"""What is wrong with a pipeline: one line each, with its place in the file."""

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches


class PipelineError(ValueError):
    """A pipeline that cannot run; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` is a path in the file such as `sinks.totals.topic`, or empty."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """What to say of a name that nobody knows."""
    nearest = get_close_matches(name, known, n=1, cutoff=0.0)
    return f"unknown {kind} {name!r}" + (f"; the nearest known one is {nearest[0]!r}" if nearest else "")


def one_line(text: str, limit: int = 500) -> str:
    """Any message as one line that a terminal can show."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
