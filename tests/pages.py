"""The fenced blocks of a Markdown page, and a reader who does what they say, from top to bottom.

- `console` is commands behind `$ ` with the output they show. `...` stands for anything in its line, and alone for any
  number of lines.
- `sh` is a script for bash.
- `python` is a script, or a file of tests if it has any; a `text` block right behind it is what it prints.
- A block that cannot run has `<!-- not run: the reason -->` on the line above its fence. All others do.

Ports that a page names become free ones, and are shown by their names on the page again.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND_SECONDS = 60
PORTS = range(20_000, 30_000)
"""Below those that the kernel gives to connections, so that none of them takes one before a broker does."""

NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
FENCE = re.compile(r"```(\w*)")
INSTALLING = re.compile(r"\s*(make|pip install) +(.+?)(?: +#.*)?")
PROMPT = "$ "

LEVADA = """#!/bin/sh
case "$1" in
serve) set -- "$@" --listen localhost:{port} --set group.initial.rebalance.delay.ms=0 ;;
ps | stop | metrics | dump-log | aliases | completion | pipeline) ;;
*) set -- "$@" --bootstrap-server localhost:{port} ;;
esac
exec {python} -m levada "$@"
"""
"""The command on the reader's PATH: a broker and its tools meet at a free port where a page leaves it at 9092."""


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    not_run: str
    """Why it does not run; empty if it does."""
    output: str | None = None
    """What the `text` block right behind it says."""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """All of them; a block that shows another's output belongs to that one."""
    found: list[Block] = []
    lines = page.read_text().splitlines()
    number = last_end = 0
    while number < len(lines):
        opening = FENCE.fullmatch(lines[number])
        if opening is None:
            number += 1
            continue
        end = lines.index("```", number + 1)
        text = "\n".join(lines[number + 1 : end]) + "\n"
        reason = NOT_RUN.fullmatch(lines[number - 1])
        is_next = bool(found) and not any(lines[last_end + 1 : number])
        if opening[1] == "text" and is_next and found[-1].language == "python":
            last = found.pop()
            found.append(Block(page, last.line, last.language, last.text, last.not_run, text))
        else:
            found.append(Block(page, number + 1, opening[1], text, reason[1] if reason else ""))
        number = last_end = end
        number += 1
    return found


def commands_of(console: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block with what is shown below it."""
    command, shown = "", ""
    for line in console.splitlines(keepends=True):
        if line.startswith(PROMPT):
            if command:
                yield command, shown
            command, shown = line.removeprefix(PROMPT), ""
        elif command.endswith("\\\n"):
            command += line
        else:
            shown += line
    if command:
        yield command, shown


def compare(block: Block, command: str, shown: str, printed: str) -> None:
    """AssertionError if that is not what the block shows."""
    pattern = ""
    for line in shown.splitlines():
        pattern += r"(?:.*\n)*" if line.strip() == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
    agrees = re.fullmatch(pattern, printed) is not None
    assert agrees, f"{block}: {command} printed\n{printed}\ninstead of\n{shown}"


def free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            if port not in found and probe.connect_ex(("localhost", port)) != 0:
                found.append(port)
    return found


class Reader:
    """One who has nothing but the page, an empty directory and `levada` on the PATH."""

    def __init__(self, directory: Path, named_ports: Sequence[int] = (9092, 9404)) -> None:
        self.directory = directory / "reader"
        self.directory.mkdir()
        self._ports = dict(zip(named_ports, free_ports(len(named_ports))))
        self.bootstrap = f"localhost:{self._ports[9092]}"
        self._served: subprocess.Popen[str] | None = None
        self._log = directory / "serve.log"
        programs = directory / "bin"
        programs.mkdir()
        (programs / "levada").write_text(LEVADA.format(python=sys.executable, port=self._ports[9092]))
        (programs / "levada").chmod(0o755)
        self._environment: Mapping[str, str] = {
            **os.environ,
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(directory),
            "PYTHONUNBUFFERED": "1",
        }

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.interrupt()
        finally:
            for lock in self.directory.glob("*/levada.pid"):
                command = [sys.executable, "-m", "levada", "stop", "--data-dir", str(lock.parent)]
                subprocess.run(command, check=False, capture_output=True, timeout=COMMAND_SECONDS)

    def follow(self, block: Block) -> None:
        """Do what the block says; AssertionError if that is not what comes of it."""
        assert block.language in ("console", "sh", "python"), f"{block}: cannot run {block.language or 'no language'}"
        if block.language == "console":
            for command, shown in commands_of(block.text):
                self._type(block, command, shown)
        elif block.language == "sh":
            self._run_script(block)
        else:
            self._run_python(block)

    def run_here(self, block: Block) -> None:
        """Do what a script says in this process, where a Spark runs already: another would take long to start."""
        script = self._to_free(block.text).replace("./", f"{self.directory}/")
        exec(compile(script, str(block), "exec"), {})

    def interrupt(self) -> None:
        """Ctrl-C in the terminal of the broker, if there is one."""
        if self._served is None:
            return
        self._served.send_signal(signal.SIGINT)
        code = self._served.wait(COMMAND_SECONDS)
        self._served = None
        assert code == 0, self._log.read_text()

    def _type(self, block: Block, command: str, shown: str) -> None:
        if command.startswith("levada serve"):
            # One directory has one broker: the one before ends when the next is started.
            self.interrupt()
        if command.startswith("levada serve") and "--daemon" not in command:
            self._serve(command, shown)
            return
        printed = self._run(block, ["bash", "-euo", "pipefail", "-c", self._to_free(command)])
        if shown:
            compare(block, command, shown, printed)

    def _serve(self, command: str, shown: str) -> None:
        """In a terminal of its own, where it goes on."""
        with self._log.open("w") as log:
            self._served = subprocess.Popen(
                ["bash", "-c", f"exec {self._to_free(command)}"],
                cwd=self.directory, env=self._environment, stdout=log, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        deadline = time.monotonic() + COMMAND_SECONDS
        while self._to_named(self._log.read_text()) != shown:
            assert self._served.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"{self._log.read_text()!r} instead of {shown!r}"
            time.sleep(0.02)

    def _run_script(self, block: Block) -> None:
        lines = block.text.splitlines(keepends=True)
        for line in lines:
            check_installing(line)
        rest = [line for line in lines if INSTALLING.fullmatch(line.rstrip()) is None]
        if rest:
            self._run(block, ["bash", "-euo", "pipefail", "-c", self._to_free("".join(rest))])

    def _run_python(self, block: Block) -> None:
        is_test = re.search(r"^def test_", block.text, re.MULTILINE) is not None
        script = self.directory / f"{'test' if is_test else 'script'}_{block.line}.py"
        script.write_text(self._to_free(block.text))
        running = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_test else []
        printed = self._run(block, [sys.executable, *running, script.name])
        if block.output is not None:
            compare(block, script.name, block.output, printed)

    def _run(self, block: Block, command: Sequence[str]) -> str:
        """What it prints; both streams, as a terminal shows them."""
        ran = subprocess.run(
            command, cwd=self.directory, env=self._environment, timeout=COMMAND_SECONDS, check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert ran.returncode == 0, f"{block}: {command[-1]} ended with {ran.returncode}:\n{ran.stdout}"
        return self._to_named(ran.stdout)

    def _to_free(self, text: str) -> str:
        return _replaced(text, self._ports)

    def _to_named(self, text: str) -> str:
        return _replaced(text, {free: named for named, free in self._ports.items()})


def check_installing(line: str) -> None:
    """Installing takes minutes and the network: what is looked at is that there is such a target, or such an extra."""
    found = INSTALLING.fullmatch(line.rstrip())
    if found is None:
        return
    if found[1] == "make":
        assert re.search(rf"^{found[2].split()[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        return
    wanted = re.fullmatch(r"'?(?:levada|\.)(?:\[(\w+)\])?'?", found[2])
    assert wanted, f"{line}: not our distribution"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "levada"
    assert wanted[1] is None or wanted[1] in project["optional-dependencies"], line


def _replaced(text: str, ports: Mapping[int, int]) -> str:
    return re.sub(r"\b\d{4,5}\b", lambda found: str(ports.get(int(found[0]), found[0])), text)
