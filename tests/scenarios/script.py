"""Scenario files: commands, and the trace that each of them leaves.

A file is a list of steps, separated by empty lines. The first lines of a step, up to `----`, are commands; what follows
is the trace they must leave. `LEVADA_REWRITE=1 pytest tests/scenarios` writes the traces anew: read the difference.
A line that begins with `#` is for people.
"""

import os
from collections.abc import Callable
from pathlib import Path

SEPARATOR = "----"


def check(path: Path, run: Callable[[str], list[str]]) -> None:
    """Run every command of a file; its traces must be the ones that are written there."""
    steps = path.read_text().rstrip("\n").split("\n\n")
    played = "\n\n".join(_play(step, run) for step in steps) + "\n"
    if os.environ.get("LEVADA_REWRITE"):
        path.write_text(played)
    assert played == path.read_text()


def _play(step: str, run: Callable[[str], list[str]]) -> str:
    commands = step.split(f"\n{SEPARATOR}", maxsplit=1)[0].splitlines()
    trace = [line for command in commands if not command.startswith("#") for line in run(command)]
    if all(command.startswith("#") for command in commands):
        return "\n".join(commands)
    return "\n".join([*commands, SEPARATOR, *trace])
