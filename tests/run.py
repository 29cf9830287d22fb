"""Runs every folder of tests within its budget of minutes; `python -m tests.run [FOLDER ...]`.

Two at a time, one for each of two cores, in two lanes that take about as long.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FIRST_LANE_MINUTES = {"tidy": 1, "unit": 4, "oracle": 2, "scenarios": 1, "spark": 16}
SECOND_LANE_MINUTES = {"integration": 11, "tools": 5, "testing": 4, "chaos": 7, "property": 6, "simulation": 8}
BUDGET_MINUTES = {**FIRST_LANE_MINUTES, **SECOND_LANE_MINUTES}
"""Bounds, not estimates: on two idle cores the whole takes less than the 20 minutes that it may."""

OTHER_FOLDERS = ("clients", "data", "fuzz", "interop")
"""Not part of `make test`: `make interop` needs npm, Debian's packages and Maven; `make fuzz` has no end."""

ROOT = Path(__file__).parent
_printing = threading.Lock()


def main() -> int:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("__")}
    without_budget = sorted(folders - {*BUDGET_MINUTES, *OTHER_FOLDERS})
    if without_budget:
        print(f"tests/{without_budget[0]} has no budget: give it one in tests/run.py")
        return 1
    wanted = sys.argv[1:] or list(BUDGET_MINUTES)
    lanes = [[folder for folder in wanted if folder in lane] for lane in (FIRST_LANE_MINUTES, SECOND_LANE_MINUTES)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        failed = [folder for failures in pool.map(run_all, lanes) for folder in failures]
    if failed:
        print(f"FAILED: {', '.join(failed)}")
        return 1
    return 0


def run_all(folders: Iterable[str]) -> list[str]:
    """Those that failed."""
    return [folder for folder in folders if not run(folder)]


def run(folder: str) -> bool:
    budget = BUDGET_MINUTES[folder]
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", str(ROOT / folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(timeout=budget * 60)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        output += f"tests/{folder} did not finish within its budget of {budget} minutes\n"
    with _printing:
        print(f"== {folder} (at most {budget} min)\n{output}", end="")
        print(f"== {folder} took {time.monotonic() - start:.0f} s", flush=True)
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
