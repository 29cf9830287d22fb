"""What is wrong with a pipeline: one line each, with its place in the file."""

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from levada.model.near_names import did_you_mean


class PipelineError(ValueError):
    """A pipeline that cannot run; the text is one line that says what to do."""


class QueryFailed(Exception):
    """A query that has ended with an error; the text is its name and the cause, in one line."""

    def __init__(self, query: str, cause: str) -> None:
        super().__init__(f"{query}: {cause}")
        self.query = query
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` is a path in the file such as `sinks.totals.topic`, or empty."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


def say(text: str) -> None:
    """A line for the user."""
    print(f"levada: {text}", file=sys.stderr, flush=True)


def refused(problems: Iterable[Problem]) -> int:
    """The exit code, after each problem has its line."""
    code = 0
    for problem in problems:
        say(str(problem))
        code = 1
    return code


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """What to say of a name that is not known."""
    return f"unknown {kind} {name!r}{did_you_mean(name, known)}"


def one_line(text: str, limit: int = 500) -> str:
    """Any message as one line that a terminal can show."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
