"""What a person at a terminal sees, and a pipe does not: real tools on a real pseudo-terminal."""

import argparse
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from levada import Admin
from levada.cli.kit.parser import ToolParser
from levada.cli.tools import TOOLS
from levada.client.admin import NewTopic
from tests.tools.scenario import Stage
from tests.tools.stages import our_stage

ESCAPE = "\x1b["


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with our_stage(tmp_path_factory.mktemp("terminal")) as stage:
        with Admin(stage.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 2)]).raise_any()
        yield stage


def on_terminal(stage: Stage, *arguments: str, **environment: str) -> str:
    """What a tool writes when stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "levada", *arguments, "--bootstrap-server", stage.bootstrap]
    surroundings = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**surroundings, "TERM": "xterm", **environment}
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65_536):
            seen += chunk
    except OSError:
        # The other end is closed: so Linux says that there is no more.
        pass
    finally:
        os.close(ours)
    assert process.wait(30) == 0, seen
    return seen.decode()


def in_pipe(stage: Stage, *arguments: str) -> str:
    command = [sys.executable, "-m", "levada", *arguments, "--bootstrap-server", stage.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_colour_disappears_in_a_pipe(stage: Stage) -> None:
    describe = ("topics", "--describe", "--topic", "orders")
    coloured = on_terminal(stage, *describe)
    plain = in_pipe(stage, *describe)
    assert ESCAPE in coloured
    assert ESCAPE not in plain
    assert ESCAPE not in on_terminal(stage, *describe, NO_COLOR="1")
    assert on_terminal(stage, *describe, NO_COLOR="1").replace("\r\n", "\n") == plain


def test_long_work_shows_its_progress_on_a_terminal_only(stage: Stage) -> None:
    records = ("--topic", "orders", "--num-records", "3000", "--record-size", "10", "--throughput", "5000")
    assert "/3000" in on_terminal(stage, "producer-perf-test", *records)
    assert "/3000" not in in_pipe(stage, "producer-perf-test", *records)


LISTING = {"--list", "--describe"}
SUBCOMMANDS = {"list", "describe", "describe-producers", "find-hanging", "list-endpoints"}


def listings() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of every tool, or of its subcommand, that lists or describes."""
    for name in TOOLS:
        parser = ToolParser(prog=f"levada {name}")
        import_module(f"levada.cli.{name.replace('-', '_')}").add_arguments(parser)
        if LISTING & set(parser._option_string_actions):
            yield name, parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from ((f"{name} {one}", sub) for one, sub in action.choices.items() if one in SUBCOMMANDS)


@pytest.mark.parametrize(
    ("name", "parser"), list(listings()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_list_and_description_can_be_json(name: str, parser: argparse.ArgumentParser) -> None:
    assert "--json" in parser._option_string_actions
