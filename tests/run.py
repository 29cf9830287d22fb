"""Runs lint and every folder of tests within its budget of minutes; `python -m tests.run [FOLDER ...]`.

Two at a time, one for each of two cores, the longest first, so that both cores have work until the end.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Part:
    """A folder of tests, or those of its files that a pattern names."""

    folder: str
    seconds: int
    """About what it takes beside another part: decides who starts first, nothing else."""
    budget_minutes: int
    """A bound, not an estimate: who takes longer fails."""
    pattern: str = ""

    @property
    def name(self) -> str:
        return f"{self.folder}/{self.pattern}" if self.pattern else self.folder

    @property
    def command(self) -> list[str]:
        if self.folder == LINT:
            return ["make", "lint"]
        paths = [ROOT / self.folder] if not self.pattern else sorted((ROOT / self.folder).glob(self.pattern))
        return [sys.executable, "-m", "pytest", "-q", *map(str, paths)]


LINT = "lint"
PARTS = (
    Part(LINT, 90, 5),
    Part("tidy", 10, 1),
    Part("unit", 80, 4),
    Part("oracle", 40, 2),
    Part("scenarios", 10, 1),
    Part("property", 150, 6),
    Part("simulation", 200, 8),
    Part("chaos", 220, 7),
    Part("tools", 115, 5),
    Part("testing", 100, 4),
    # The longest are cut, so that none is left alone at the end; the others would only start more brokers and Sparks.
    Part("integration", 200, 6, "test_[a-f]*.py"),
    Part("integration", 200, 6, "test_[g-z]*.py"),
    Part("spark", 250, 8, "test_[a-r]*.py"),
    Part("spark", 250, 8, "test_s*.py"),
)

OTHER_FOLDERS = ("clients", "data", "fuzz", "interop")
"""Not part of `make test`: `make interop` needs npm, Debian's packages and Maven; `make fuzz` has no end."""

_printing = threading.Lock()


def main() -> int:
    known = {part.folder for part in PARTS}
    wanted = set(sys.argv[1:]) or known
    problem = left_out() or "\n".join(f"there is no tests/{folder}" for folder in sorted(wanted - known))
    if problem:
        print(problem)
        return 1
    parts = sorted((part for part in PARTS if part.folder in wanted), key=lambda part: -part.seconds)
    with ThreadPoolExecutor(WORKERS) as pool:
        failed = [part.name for part, is_well in zip(parts, pool.map(run, parts)) if not is_well]
    if failed:
        print(f"FAILED: {', '.join(failed)}")
        return 1
    return 0


def left_out() -> str:
    """What no part would run, or two would."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("__")}
    for folder in sorted(folders - {*OTHER_FOLDERS}):
        patterns = [part.pattern for part in PARTS if part.folder == folder]
        if not patterns:
            return f"tests/{folder} has no budget: give it one in tests/run.py"
        if patterns != [""]:
            for path in sorted((ROOT / folder).rglob("test_*.py")):
                if not is_in_one(path.relative_to(ROOT / folder), patterns):
                    return f"{path.relative_to(ROOT.parent)} must be in one part of tests/{folder} in tests/run.py"
    return ""


def is_in_one(file: Path, patterns: Iterable[str]) -> bool:
    # A pattern is one of names: what lies in a folder below would be found by none.
    return len(file.parts) == 1 and sum(file.match(pattern) for pattern in patterns) == 1


def run(part: Part) -> bool:
    start = time.monotonic()
    process = subprocess.Popen(
        part.command, cwd=ROOT.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=part.budget_minutes * 60)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        output += f"{part.name} did not finish within its budget of {part.budget_minutes} minutes\n"
    with _printing:
        print(f"== {part.name} (at most {part.budget_minutes} min)\n{output}", end="")
        print(f"== {part.name} took {time.monotonic() - start:.0f} s", flush=True)
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
