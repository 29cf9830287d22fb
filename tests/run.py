"""Runs lint and every folder of tests within its budget of minutes; `python -m tests.run [FOLDER ...]`.

One more at a time than there are cores, three at most: brokers and Sparks are waited for half of the time. First the
quick ones, then the longest, so that the cores have work until the end.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
WORKERS = min(3, (os.cpu_count() or 1) + 1)


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    seconds: int
    """About what it takes beside another part. It decides who starts first, nothing else."""
    budget_minutes: int
    """A bound, not an estimate: a part that takes longer fails."""

    @property
    def command(self) -> list[str]:
        if self.name == LINT:
            return ["make", "--no-print-directory", "lint"]
        return [sys.executable, "-m", "pytest", "-q", str(ROOT / self.name)]


@dataclass(frozen=True, slots=True)
class Outcome:
    is_well: bool
    counts: "Counter[str]"


LINT = "lint"
QUICK_SECONDS = 100
PARTS = (
    Part("spark", 600, 45),
    Part("integration", 500, 40),
    Part("chaos", 270, 30),
    Part("simulation", 220, 30),
    Part("property", 170, 15),
    Part("tools", 115, 10),
    Part("testing", 100, 12),
    Part(LINT, 90, 12),
    Part("unit", 100, 12),
    Part("oracle", 40, 6),
    Part("tidy", 10, 5),
    Part("scenarios", 10, 4),
)
"""None is longer than half of them all, so none is cut: a cut would only start more brokers and Sparks."""

OTHER_FOLDERS = ("clients", "data", "fuzz", "interop")
"""Not part of `make test`: `make interop` needs npm, Debian's packages and Maven; `make fuzz` has no end."""

_printing = threading.Lock()


def main() -> int:
    # A shell ignores SIGINT in what it starts in the background, and every process of a test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    known = {part.name for part in PARTS}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("__")}
    without_budget = sorted(folders - known - {*OTHER_FOLDERS})
    if without_budget:
        print(f"tests/{without_budget[0]} has no budget: give it one in tests/run.py")
        return 1
    wanted = set(sys.argv[1:]) or known
    if wanted - known:
        print(f"there is no tests/{min(wanted - known)} to run")
        return 1
    parts = sorted((part for part in PARTS if part.name in wanted), key=_order)
    with ThreadPoolExecutor(WORKERS) as pool:
        outcomes = dict(zip(parts, pool.map(run, parts)))
    failed = [part.name for part, outcome in outcomes.items() if not outcome.is_well]
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    counts = sum((outcome.counts for outcome in outcomes.values()), Counter[str]())
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if failed else 0


def _order(part: Part) -> tuple[bool, int]:
    """The quick ones first, so that a failure shows soon; then the longest, so that all end at about the same time."""
    return part.seconds > QUICK_SECONDS, -part.seconds


def run(part: Part) -> Outcome:
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
    return Outcome(process.returncode == 0, counts_of(output, is_well=process.returncode == 0))


def counts_of(output: str, *, is_well: bool) -> "Counter[str]":
    """From pytest's closing line; what has none, such as the linters, is one check.

    >>> sorted(counts_of("== 3 failed, 40 passed, 2 skipped, 1 error in 5.1s ==", is_well=False).items())
    [('failed', 4), ('passed', 40), ('skipped', 2)]
    >>> counts_of("All checks passed!", is_well=True)
    Counter({'passed': 1})
    """
    closing = re.findall(r"^.*\b(?:passed|failed|errors?)\b.* in [\d.]+s.*$", output, re.MULTILINE)
    if not closing:
        return Counter(["passed" if is_well else "failed"])
    counts = Counter[str]()
    for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", closing[-1]):
        counts["failed" if word == "error" else word] += int(number)
    return counts


if __name__ == "__main__":
    sys.exit(main())
