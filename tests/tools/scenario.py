"""Scenarios of commands: what a tool prints is compared with a file, and beside Apache's own tool."""

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

Mask = tuple[str, str]
"""A regular expression, and what stands in its place: for what differs from run to run."""

MASKS: tuple[Mask, ...] = (
    (r"(TopicId: |\btopic_id\": \")[A-Za-z0-9_-]{22}", r"\1ID"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
)


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command, as it is typed: `topics --list`.

    `{server}` and `{directory}` are filled in; `--bootstrap-server {server}` is added where the line has no `{server}`.
    """

    command: str
    stdin: str = ""
    fails: bool = False
    """The exit code is not 0. What is said then is our own text, so Apache's is not compared, only that it fails."""
    any_order: bool = False
    """The lines have no order of their own."""
    only_ours: bool = False
    """Apache's tool has no such flag: it is left out there."""
    masks: tuple[Mask, ...] = ()

    def arguments(self, stage: "Stage") -> list[str]:
        line = self.command if "{server}" in self.command else f"{self.command} --bootstrap-server {{server}}"
        return [
            word.replace("{server}", stage.bootstrap).replace("{directory}", str(stage.directory))
            for word in shlex.split(line)
        ]


@dataclass(frozen=True, slots=True)
class Act:
    """Something between two commands that clients do; what they leave open goes to `stage.open`."""

    do: Callable[["Stage"], object]


@dataclass(frozen=True, slots=True)
class File:
    """A file in the stage's directory, for commands that read one."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Scenario:
    tool: str
    name: str
    parts: Sequence[Step | Act | File]
    masks: tuple[Mask, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.tool}/{self.name}"


@dataclass(slots=True)
class Stage:
    """Where a scenario plays: a broker with nothing in it, and a directory for files."""

    bootstrap: str
    directory: Path
    open: ExitStack = field(default_factory=ExitStack)


class Runner(Protocol):
    """Runs a command, given as words without `levada`."""

    def __call__(self, arguments: list[str], stdin: str) -> Ran: ...


@dataclass(frozen=True, slots=True)
class Said:
    """What one step printed, made comparable."""

    step: Step
    failed: bool
    out: str
    err: str

    def text(self) -> str:
        """As it stands in a golden file."""
        parts = [f"$ {self.step.command}\n", self.out]
        if self.failed:
            parts += [f"stderr: {line}\n" for line in self.err.splitlines()]
            parts.append("failed\n")
        return "".join(parts)


def play(scenario: Scenario, stage: Stage, run: Runner, *, is_ours: bool) -> list[Said]:
    said = []
    with stage.open:
        for part in scenario.parts:
            if isinstance(part, Act):
                part.do(stage)
            elif isinstance(part, File):
                (stage.directory / part.name).write_text(part.text)
            elif is_ours or not part.only_ours:
                ran = run(part.arguments(stage), part.stdin)
                assert (ran.code != 0) == part.fails, f"{part.command}\nexit {ran.code}\n{ran.out}\n{ran.err}"
                said.append(_said(scenario, part, ran, stage))
    return said


def _said(scenario: Scenario, step: Step, ran: Ran, stage: Stage) -> Said:
    def comparable(text: str) -> str:
        text = text.replace(stage.bootstrap, "HOST:PORT").replace(str(stage.directory), "DIRECTORY")
        for pattern, replacement in (*MASKS, *scenario.masks, *step.masks):
            text = re.sub(pattern, replacement, text)
        # Java's tools pad some columns at the end of a line.
        lines = [line.rstrip(" ") for line in text.splitlines()]
        return "".join(f"{line}\n" for line in (sorted(lines) if step.any_order else lines))

    return Said(step, ran.code != 0, comparable(ran.out), comparable(ran.err))
