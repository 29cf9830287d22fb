"""Runs lint and every folder of tests within its budget of minutes; `python -m tests.run [FOLDER ...]`.

Two at a time, one for each of two cores, the longest first, so that both cores have work until the end.
"""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
WORKERS = 2


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


LINT = "lint"
PARTS = (
    Part("spark", 450, 16),
    Part("integration", 400, 13),
    Part("chaos", 250, 9),
    Part("simulation", 200, 8),
    Part("property", 170, 7),
    Part("tools", 115, 5),
    Part("testing", 100, 4),
    Part(LINT, 90, 6),
    Part("unit", 80, 4),
    Part("oracle", 40, 2),
    Part("tidy", 10, 1),
    Part("scenarios", 10, 1),
)
"""None is longer than half of them all, so none is cut: a cut would only start more brokers and Sparks."""

OTHER_FOLDERS = ("clients", "data", "fuzz", "interop")
"""Not part of `make test`: `make interop` needs npm, Debian's packages and Maven; `make fuzz` has no end."""

_printing = threading.Lock()


def main() -> int:
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
    parts = sorted((part for part in PARTS if part.name in wanted), key=lambda part: -part.seconds)
    with ThreadPoolExecutor(WORKERS) as pool:
        failed = [part.name for part, is_well in zip(parts, pool.map(run, parts)) if not is_well]
    if failed:
        print(f"FAILED: {', '.join(failed)}")
        return 1
    return 0


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
